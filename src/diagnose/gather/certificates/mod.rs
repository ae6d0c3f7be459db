//! The certificates that etcd and this watchdog use, from their files: whether they are what etcd will take.
//!
//! Invariants: reads only, at most [`PEM_BYTES_MAX`] a file, and waits for no pipe; a file that cannot be read says why and the others are
//! read all the same; private keys are held against their certificates and leave no trace. A hung disk costs one thread. May be dropped at
//! any await.

mod examine;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::aside::Aside;
use super::flags::{self, Flags};
use crate::diagnose::evidence::{Certificate, CertificateFile, Member, Seen};
use crate::policy::{EtcdPolicy, Policy};
use crate::runtime::small_file;

/// The largest certificate or key file that is read; real ones have 1 to 4 KiB.
const PEM_BYTES_MAX: usize = 1 << 20;
/// Some ten small files, read in a millisecond where the disk is well.
const DEADLINE: Duration = Duration::from_secs(2);

static FILES: Aside = Aside::new("the certificate files");

/// The role of a certificate that this watchdog presents.
const CLIENT: &str = "client";
/// The roles of certificates that must name the node's member address: others dial it.
const SERVER: &str = "server";
const PEER: &str = "peer";
/// kubeadm's certificate for the probes of etcd's pod. Nothing of etcd depends on it; it need not be there.
const HEALTHCHECK: &str = "healthcheck-client";
const CA: &str = "ca";

/// A certificate file, with what it is held against.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    role: &'static str,
    certificate: PathBuf,
    key: Option<PathBuf>,
    ca: PathBuf,
}

/// Reads them all. `own` is the local member, when it is known.
pub(super) async fn look(policy: &Policy, own: Option<&Member>) -> Seen<Vec<CertificateFile>> {
    let (etcd, manifest) = (policy.etcd.clone(), flags::manifest_path(policy));
    let read = FILES.read(DEADLINE, move || {
        // Without its flags etcd's files are looked for where kubeadm puts them.
        let flags = flags::read(&manifest).unwrap_or_default();
        wanted(&etcd, &flags).iter().filter_map(file).collect::<Vec<_>>()
    });
    match read.await {
        Ok(mut files) => {
            for file in &mut files {
                name_own(file, own);
            }
            Seen::Yes(files)
        }
        Err(reason) => Seen::No(reason),
    }
}

/// Which files: the policy's, then those of etcd's flags, else those that lie beside the policy's CA. Each is held against the CA of the
/// one who will check it: etcd checks its clients' and its peers', and a client checks the server's by the policy's.
fn wanted(policy: &EtcdPolicy, flags: &Flags) -> Vec<Wanted> {
    let beside = |name: &str| policy.ca.with_file_name(name);
    let of = |flag: &str, name: &str| flags.path(flag).unwrap_or_else(|| beside(name));
    let client_ca = flags.path("trusted-ca-file").unwrap_or_else(|| policy.ca.clone());
    let peer_ca = flags.path("peer-trusted-ca-file").unwrap_or_else(|| policy.ca.clone());
    let leaf = |role, certificate, key, ca: &Path| Wanted { role, certificate, key: Some(key), ca: ca.to_owned() };
    let mut wanted = vec![
        leaf(CLIENT, policy.cert.clone(), policy.key.clone(), &client_ca),
        leaf(SERVER, of("cert-file", "server.crt"), of("key-file", "server.key"), &policy.ca),
        leaf(PEER, of("peer-cert-file", "peer.crt"), of("peer-key-file", "peer.key"), &peer_ca),
        leaf(HEALTHCHECK, beside("healthcheck-client.crt"), beside("healthcheck-client.key"), &client_ca),
    ];
    let mut cas = vec![policy.ca.clone(), client_ca, peer_ca];
    cas.dedup();
    wanted.extend(cas.into_iter().map(|ca| Wanted { role: CA, certificate: ca.clone(), key: None, ca }));
    wanted
}

/// Reads one of them; `None` if it is not there and need not be. Blocking.
fn file(wanted: &Wanted) -> Option<CertificateFile> {
    let pem = small_file::read(&wanted.certificate, PEM_BYTES_MAX);
    let content = match pem {
        Err(error) if wanted.role == HEALTHCHECK && error.kind() == ErrorKind::NotFound => return None,
        Err(error) => Seen::No(error.to_string()),
        Ok(pem) => {
            let ca = small_file::read(&wanted.ca, PEM_BYTES_MAX).ok();
            let key = wanted.key.as_ref().and_then(|key| small_file::read(key, PEM_BYTES_MAX).ok());
            examine::examine(&pem, ca.as_deref(), key.as_deref()).map_or_else(Seen::No, Seen::Yes)
        }
    };
    Some(CertificateFile { path: wanted.certificate.clone(), role: wanted.role.to_owned(), content })
}

/// Whether a certificate that others check against this node's peer URL names it.
fn name_own(file: &mut CertificateFile, own: Option<&Member>) {
    let (Some(own), Seen::Yes(certificate)) = (own, &mut file.content) else { return };
    if file.role == SERVER || file.role == PEER {
        certificate.names_own_address = names(certificate, own);
    }
}

/// `None` when the node's own address is not known.
fn names(certificate: &Certificate, own: &Member) -> Option<bool> {
    let address = own.address?;
    Some(certificate.names.iter().any(|name| name.parse() == Ok(address)))
}
