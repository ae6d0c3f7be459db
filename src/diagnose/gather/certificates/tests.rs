//! Certificates as a CA would make them, right and wrong in each way, and bytes that are none.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::{ProptestConfig, any, prop, proptest};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose as Usage, IsCa, Issuer, KeyPair, PKCS_ED25519,
    date_time_ymd,
};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::examine::examine;
use super::*;

const OWN: Ipv4Addr = Ipv4Addr::new(192, 168, 111, 201);

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "etcd-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    Authority { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
}

fn leaf(names: &[&str], usages: &[Usage]) -> CertificateParams {
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "cp1");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2030, 1, 2);
    params.extended_key_usages = usages.to_vec();
    params
}

/// Certificate and key of a good leaf.
fn good(authority: &Authority) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = leaf(&["cp1", "192.168.111.201", "127.0.0.1"], &[Usage::ServerAuth, Usage::ClientAuth]);
    (params.signed_by(&key, &authority.issuer).unwrap().pem(), key.serialize_pem())
}

#[test]
fn a_good_certificate_is_good_in_every_respect() {
    let authority = authority();
    let (pem, key) = good(&authority);
    let seen = examine(pem.as_bytes(), Some(authority.pem.as_bytes()), Some(key.as_bytes())).unwrap();
    // Seconds since the epoch of the two days.
    assert_eq!((seen.not_before, seen.not_after), (1_577_836_800, 1_893_542_400));
    assert_eq!(seen.names, ["cp1", "192.168.111.201", "127.0.0.1"]);
    assert!(seen.subject.contains("CN=cp1"), "{}", seen.subject);
    assert_eq!((seen.server_use, seen.client_use), (true, true));
    assert_eq!((seen.signed_by_ca, seen.key_matches), (Some(true), Some(true)));
    let ca = examine(authority.pem.as_bytes(), Some(authority.pem.as_bytes()), None).unwrap();
    assert_eq!((ca.signed_by_ca, ca.key_matches), (Some(true), None));
}

#[test]
fn another_ca_of_the_same_name_is_another_ca_and_one_of_a_bundle_is_enough() {
    let (ours, other) = (authority(), authority());
    let (pem, key) = good(&other);
    let seen = examine(pem.as_bytes(), Some(ours.pem.as_bytes()), Some(key.as_bytes())).unwrap();
    assert_eq!((seen.signed_by_ca, seen.key_matches), (Some(false), Some(true)));
    let bundle = format!("{}{}", ours.pem, other.pem);
    assert_eq!(examine(pem.as_bytes(), Some(bundle.as_bytes()), None).unwrap().signed_by_ca, Some(true));
    assert_eq!(examine(pem.as_bytes(), Some(b"no CA"), None).unwrap().signed_by_ca, None);
}

#[test]
fn an_intermediate_in_the_file_leads_to_the_ca() {
    let root = authority();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "middle");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let middle = params.signed_by(&key, &root.issuer).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let pem = leaf(&[], &[]).signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().pem();
    let with = |chain: &str| examine(chain.as_bytes(), Some(root.pem.as_bytes()), None).unwrap().signed_by_ca;
    assert_eq!(with(&format!("{pem}{middle}")), Some(true));
    assert_eq!(with(&pem), Some(false));
}

#[test]
fn what_it_may_be_used_for_is_told_and_without_a_word_it_is_both() {
    let authority = authority();
    let uses = |usages: &[Usage]| {
        let pem = leaf(&[], usages).signed_by(&KeyPair::generate().unwrap(), &authority.issuer).unwrap().pem();
        let seen = examine(pem.as_bytes(), None, None).unwrap();
        (seen.server_use, seen.client_use)
    };
    assert_eq!(uses(&[]), (true, true));
    assert_eq!(uses(&[Usage::Any]), (true, true));
    assert_eq!(uses(&[Usage::ServerAuth]), (true, false));
    assert_eq!(uses(&[Usage::ClientAuth]), (false, true));
    assert_eq!(uses(&[Usage::CodeSigning]), (false, false));
}

#[test]
fn a_key_of_another_certificate_does_not_match_and_one_of_no_known_kind_is_not_judged() {
    let authority = authority();
    let (pem, _) = good(&authority);
    let matches = |key: &str| examine(pem.as_bytes(), None, Some(key.as_bytes())).unwrap().key_matches;
    assert_eq!(matches(&KeyPair::generate().unwrap().serialize_pem()), Some(false));
    assert_eq!(matches(&KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem()), Some(false));
    for none in ["", "no key", &pem, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        assert_eq!(matches(none), None, "{none:.40}");
    }
}

/// kubeadm's own keys are RSA in PKCS#1; openssl's of elliptic curves are SEC1. Made by openssl for this test, of no other use.
#[test]
fn keys_of_rsa_and_of_openssls_curves_are_held_against_their_certificates() {
    let rsa = (include_bytes!("testdata/rsa.crt"), include_bytes!("testdata/rsa.pkcs1.key"));
    let ec = (include_bytes!("testdata/ec.crt"), include_bytes!("testdata/ec.sec1.key"));
    let seen = |pem: &[u8], key: &[u8]| examine(pem, Some(pem), Some(key)).unwrap();
    for (pem, own, other) in [(&rsa.0[..], &rsa.1[..], &ec.1[..]), (&ec.0[..], &ec.1[..], &rsa.1[..])] {
        assert_eq!((seen(pem, own).signed_by_ca, seen(pem, own).key_matches), (Some(true), Some(true)));
        assert_eq!(seen(pem, other).key_matches, Some(false));
    }
}

#[test]
fn a_file_without_a_certificate_is_refused_with_a_reason() {
    let (pem, key) = good(&authority());
    let cut = pem.get(..200).unwrap();
    let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for bytes in ["", "no certificate", &key, cut, wrong] {
        let reason = examine(bytes.as_bytes(), None, None).unwrap_err();
        assert!(reason.contains("it") && !reason.contains('\n'), "{reason}");
    }
}

/// A directory as kubeadm makes it, and the policy that points into it.
fn kubeadm(directory: &Path) -> Policy {
    let authority = authority();
    let place = |name: &str, text: &str| small_file::replace(&directory.join(name), text.as_bytes()).unwrap();
    place("ca.crt", &authority.pem);
    for name in ["server", "peer"] {
        let (pem, key) = good(&authority);
        place(&format!("{name}.crt"), &pem);
        place(&format!("{name}.key"), &key);
    }
    let mut policy = Policy::with_defaults([192, 168, 111, 200].into(), "eth0");
    policy.etcd.ca = directory.join("ca.crt");
    policy.etcd.cert = directory.join("server.crt");
    policy.etcd.key = directory.join("server.key");
    policy.watched_loop.manifest = directory.join("wcp-fip.yaml");
    small_file::replace(&directory.join("etcd.yaml"), b"spec: {containers: [{name: etcd, command: [etcd, --name=cp1]}]}")
        .unwrap();
    policy
}

fn content<'a>(files: &'a [CertificateFile], role: &str) -> &'a Seen<Certificate> {
    &files.iter().find(|file| file.role == role).unwrap_or_else(|| panic!("no {role} in {files:?}")).content
}

#[tokio::test]
async fn every_file_of_a_node_is_read_and_what_others_dial_must_name_it() {
    let directory = tempfile::tempdir().unwrap();
    let policy = kubeadm(directory.path());
    let own = Member { address: Some(OWN.into()), ..Member::default() };
    let Seen::Yes(files) = look(&policy, Some(&own)).await else { panic!("not read") };
    let roles: Vec<&str> = files.iter().map(|file| file.role.as_str()).collect();
    assert_eq!(roles, [CLIENT, SERVER, PEER, CA], "no certificate for probes, and that is no fault");
    for (role, names) in [(CLIENT, None), (SERVER, Some(true)), (PEER, Some(true)), (CA, None)] {
        let Seen::Yes(certificate) = content(&files, role) else { panic!("{role}: {files:?}") };
        assert_eq!((certificate.signed_by_ca, certificate.names_own_address), (Some(true), names), "{role}");
        assert_eq!(certificate.key_matches, (role != CA).then_some(true), "{role}");
    }
    let moved = Member { address: Some([192, 168, 111, 209].into()), ..Member::default() };
    let Seen::Yes(files) = look(&policy, Some(&moved)).await else { panic!("not read") };
    assert_eq!(content(&files, PEER).yes().unwrap().names_own_address, Some(false));
}

#[tokio::test]
async fn a_file_that_cannot_be_read_says_why_and_the_others_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let policy = kubeadm(directory.path());
    let path = |name: &str| directory.path().join(name);
    std::fs::remove_file(path("server.crt")).unwrap();
    std::fs::remove_file(path("peer.crt")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, path("peer.crt"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let Seen::Yes(files) = look(&policy, None).await else { panic!("not read") };
    assert!(matches!(content(&files, SERVER), Seen::No(why) if why.contains("No such file")), "{files:?}");
    assert!(matches!(content(&files, PEER), Seen::No(why) if why.contains("no regular file")), "{files:?}");
    assert!(content(&files, CA).yes().is_some());
}

#[test]
fn flags_of_etcd_go_before_kubeadms_places() {
    let directory = tempfile::tempdir().unwrap();
    let policy = kubeadm(directory.path());
    let manifest = directory.path().join("etcd.yaml");
    let text = b"spec: {containers: [{name: etcd, command: [etcd, --peer-cert-file=/p.crt, --peer-key-file=/p.key, --peer-trusted-ca-file=/p-ca.crt]}]}";
    small_file::replace(&manifest, text).unwrap();
    let wanted = wanted(&policy.etcd, &flags::read(&manifest).unwrap());
    let peer = wanted.iter().find(|wanted| wanted.role == PEER).unwrap();
    assert_eq!((peer.certificate.as_path(), peer.ca.as_path()), (Path::new("/p.crt"), Path::new("/p-ca.crt")));
    let cas: Vec<&Path> = wanted.iter().filter(|wanted| wanted.role == CA).map(|wanted| wanted.certificate.as_path()).collect();
    assert_eq!(cas, [policy.etcd.ca.as_path(), Path::new("/p-ca.crt")]);
}

#[test]
fn a_file_that_is_not_for_us_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let policy = kubeadm(directory.path());
    std::fs::set_permissions(directory.path().join("peer.crt"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let peer = wanted(&policy.etcd, &Flags::default()).into_iter().find(|wanted| wanted.role == PEER).unwrap();
    // Root reads whatever the mode says, but for the capability to do so, which is a thread's own.
    let without_capabilities = std::thread::spawn(move || {
        let mut sets = capabilities(None).unwrap();
        sets.effective = CapabilitySet::empty();
        set_capabilities(None, sets).unwrap();
        file(&peer).unwrap().content
    });
    let content = without_capabilities.join().unwrap();
    assert!(matches!(&content, Seen::No(why) if why.contains("ermission denied")), "{content:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_no_certificate_or_one_and_never_a_panic(pem in any::<Vec<u8>>(), ca in any::<Vec<u8>>(), key in any::<Vec<u8>>()) {
        drop(examine(&pem, Some(&ca), Some(&key)));
    }

    #[test]
    fn a_certificate_with_wrong_bytes_is_understood_or_not_and_never_a_panic(
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let authority = authority();
        let (pem, key) = good(&authority);
        let spoil = |text: &str| {
            let mut der = pem_body(text);
            for (at, byte) in &wrong {
                let at = at.index(der.len());
                der[at] = *byte;
            }
            armour(text, &der)
        };
        drop(examine(&spoil(&pem), Some(&spoil(&authority.pem)), Some(&spoil(&key))));
    }
}

fn pem_body(text: &str) -> Vec<u8> {
    x509_parser::pem::parse_x509_pem(text.as_bytes()).unwrap().1.contents
}

/// The bytes under the first line of `text`, as PEM again.
fn armour(text: &str, der: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (first, last) = (text.lines().next().unwrap(), text.lines().last().unwrap());
    let mut pem = format!("{first}\n").into_bytes();
    for chunk in der.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let index = usize::try_from((word >> (18 - 6 * at)) & 63).unwrap();
            pem.push(if at <= u32::try_from(chunk.len()).unwrap() { ALPHABET[index] } else { b'=' });
        }
    }
    pem.extend(format!("\n{last}\n").into_bytes());
    pem
}
