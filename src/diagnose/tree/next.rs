//! The commands with which a person goes on, the next one first. They only look, but where the cause leaves one thing to do.

use super::certificate::{self, Place};
use super::reach::Kind;
use super::sight::Sight;
use super::words::{shell_word, socket};
use crate::diagnose::diagnosis::Cause;

const CRICTL_PS: &str = "crictl ps -a --name etcd";
const CRICTL_LOGS: &str = "crictl logs --tail 100 $(crictl ps -aq --name etcd | head -1)";
const SYSTEMCTL: &str = "systemctl status kubelet";

/// What to run next.
pub(super) fn commands(cause: Cause, sight: &Sight<'_>) -> Vec<String> {
    let fixed = |commands: &[&str]| commands.iter().map(|command| (*command).to_owned()).collect::<Vec<_>>();
    match cause {
        Cause::Healthy => Vec::new(),
        Cause::PeersUnreachable
        | Cause::PeerUnreachable
        | Cause::NodeIsolated
        | Cause::OutboundBlocked
        | Cause::PeerPortBlocked
        | Cause::ClientPortBlocked
        | Cause::PeerHostDown => calls(sight, &["ip -br address", "ip neigh"]),
        Cause::InboundBlocked => inbound(sight),
        Cause::PeerEtcdDown | Cause::PeerEtcdHung => calls(sight, &[]),
        Cause::MtuBlackHole => calls(sight, &["ip link", "ss -tnoi '( dport = :2380 )'"]),
        Cause::AddressChanged => fixed(&["ip -br address", "etcdctl member list -w table", CRICTL_LOGS]),
        Cause::LinkDown => fixed(&["ip -br link", "ip -br address", "ip route", "networkctl status"]),
        Cause::DuplicateAddress => {
            let arping = sight
                .address()
                .zip(super::network::own_interface(sight))
                .map(|(address, interface)| format!("arping -D -c 3 -I {} {address}", shell_word(interface.name.as_ref())));
            arping.into_iter().chain(fixed(&["ip neigh"])).collect()
        }
        Cause::TwoInterfaces => {
            let routes = sight
                .reaches
                .iter()
                .filter_map(|reach| reach.peer.member.address)
                .map(|address| format!("ip route get {address}"));
            routes.take(2).chain(fixed(&["ip -br address", "sysctl net.ipv4.conf.all.rp_filter"])).collect()
        }
        Cause::NameUnresolved => fixed(&["resolvectl status", "cat /etc/resolv.conf /etc/hosts"]),
        Cause::HostFirewall => fixed(&["nft list ruleset", "iptables-save -c"]),
        Cause::EtcdHung => fixed(&[CRICTL_PS, "ps -o pid,stat,wchan:30,cmd -C etcd", CRICTL_LOGS, "journalctl -k -n 50"]),
        Cause::DiskHung | Cause::SlowDisk => {
            fixed(&["journalctl -k -n 100", "cat /proc/pressure/io", "df -h /var/lib/etcd", "iostat -x 1 3"])
        }
        Cause::EtcdCrashLooping
        | Cause::EtcdDown
        | Cause::SnapshotReverted
        | Cause::Corrupt
        | Cause::IdMismatch
        | Cause::MemberRemoved => fixed(&[CRICTL_PS, CRICTL_LOGS, SYSTEMCTL, "ls -l /etc/kubernetes/manifests"]),
        Cause::KubeletDown => fixed(&[SYSTEMCTL, "journalctl -u kubelet -n 100"]),
        Cause::CertificateExpired
        | Cause::CertificateNotYetValid
        | Cause::CertificateWrongCa
        | Cause::CertificateWrongName
        | Cause::CertificateWrongUsage
        | Cause::CertificateKeyMismatch
        | Cause::PeerTls
        | Cause::OwnTls => certificates(sight),
        Cause::ClockSkew => fixed(&["timedatectl", "chronyc tracking", "date -u"]),
        Cause::DiskFull => fixed(&["df -h /var/lib/etcd", "du -xsh /var/lib/etcd/* /var/log", CRICTL_LOGS]),
        Cause::NoSpace => fixed(&["etcdctl endpoint status -w table", "etcdctl alarm list", "df -h /var/lib/etcd"]),
        Cause::Learner | Cause::TooFewMembers => fixed(&["etcdctl member list -w table"]),
        Cause::HostStarved => fixed(&["cat /proc/pressure/cpu /proc/pressure/memory", "uptime", "journalctl -k -g oom -n 20"]),
        Cause::HostPaused => fixed(&["journalctl -k -n 50", CRICTL_LOGS]),
        Cause::LeaderFlapping | Cause::Unknown => fixed(&[CRICTL_PS, CRICTL_LOGS, "etcdctl endpoint status -w table"]),
    }
}

/// The article's own test, on both ports, for each peer that does not work.
fn calls(sight: &Sight<'_>, then: &[&str]) -> Vec<String> {
    let failing = sight.reaches.iter().filter(|reach| !matches!(reach.kind, Kind::Fine | Kind::Unseen)).take(4);
    let calls = failing.filter_map(|reach| {
        let member = &reach.peer.member;
        let port = if reach.kind == Kind::ClientPort { member.client_port } else { member.peer_port };
        Some(format!("curl -vk --connect-timeout 3 https://{}/version", socket(member.address?, port)))
    });
    calls.chain(then.iter().map(|command| (*command).to_owned())).collect()
}

/// What came in here; then the call from there, which a person makes on the peer.
fn inbound(sight: &Sight<'_>) -> Vec<String> {
    let port = sight.own.map_or(2380, |own| own.peer_port);
    let there = sight
        .address()
        .map(|address| format!("curl -vk --connect-timeout 3 https://{}/version # on the peer", socket(address, port)));
    let here = [format!("ss -tnoi state established '( sport = :{port} )'"), "nft list ruleset".to_owned()];
    here.into_iter().chain(there).collect()
}

fn certificates(sight: &Sight<'_>) -> Vec<String> {
    let own =
        "openssl x509 -in /etc/kubernetes/pki/etcd/peer.crt -noout -dates -subject -issuer -ext subjectAltName,extendedKeyUsage";
    let first = match certificate::fault(sight).map(|fault| fault.place) {
        Some(Place::File(file, _)) => own.replace("/etc/kubernetes/pki/etcd/peer.crt", &shell_word(&file.path)),
        Some(Place::Peer(reach, _)) => reach.peer.member.address.map_or_else(
            || own.to_owned(),
            |address| {
                let there = socket(address, reach.peer.member.peer_port);
                format!("openssl s_client -connect {there} </dev/null 2>/dev/null | openssl x509 -noout -dates -issuer -ext subjectAltName")
            },
        ),
        Some(Place::Own(_) | Place::Log(_)) | None => own.to_owned(),
    };
    vec![first, "date -u".to_owned(), "kubeadm certs check-expiration".to_owned()]
}
