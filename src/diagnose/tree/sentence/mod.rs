//! The sentence for people: who, which address and port, which way, how it shows, since when, what is healthy, and what to do or whom to ask.
//!
//! It says no more than was seen: from one node's sight alone it begins "as seen from", and what other nodes see is only told when they
//! shared it.

mod besides;
mod links;
mod node;
mod own;
mod standing;
mod trust;

use super::network;
use super::reach::Reach;
use super::sight::{Etcd, Quorum, Sight};
use super::words;
use crate::diagnose::diagnosis::{Cause, Check, Link, Mark};
use crate::diagnose::evidence::ContainerState;

/// Most causes that are named beside the first.
const ALSO_MAX: usize = 3;

/// The sentence.
pub(super) fn say(cause: Cause, also: &[Cause], sight: &Sight<'_>, checks: &[Check]) -> String {
    let mut text = main(cause, sight, checks);
    text.push_str(&besides::peers(cause, sight));
    text.push_str(&besides::between_peers(sight));
    if !also.is_empty() {
        let also: Vec<String> = also.iter().take(ALSO_MAX).map(|cause| briefly(*cause).to_owned()).collect();
        text.push_str(&format!(" Also: {}.", words::list(&also)));
    }
    text
}

fn main(cause: Cause, sight: &Sight<'_>, checks: &[Check]) -> String {
    match cause {
        Cause::Healthy => standing::healthy(sight, checks),
        Cause::TooFewMembers => standing::too_few(sight, checks),
        Cause::Learner => standing::learner(sight),
        Cause::LeaderFlapping => standing::flapping(sight),
        Cause::Unknown => standing::unknown(sight, checks),
        Cause::NodeIsolated => links::isolated(sight),
        Cause::PeersUnreachable => links::all_unreachable(sight),
        Cause::PeerUnreachable => links::some_unreachable(sight),
        Cause::PeerHostDown => links::host_down(sight),
        Cause::OutboundBlocked => links::outbound(sight),
        Cause::InboundBlocked => links::inbound(sight),
        Cause::PeerPortBlocked => links::peer_port(sight),
        Cause::ClientPortBlocked => links::client_port(sight),
        Cause::PeerEtcdDown => links::etcd_down(sight),
        Cause::PeerEtcdHung => links::etcd_hung(sight),
        Cause::MtuBlackHole => links::black_hole(sight),
        Cause::LinkDown => own::link_down(sight),
        Cause::DuplicateAddress => own::duplicate(sight),
        Cause::TwoInterfaces => own::two_interfaces(sight),
        Cause::NameUnresolved => own::unresolved(sight),
        Cause::HostFirewall => own::firewall(sight),
        Cause::CertificateExpired
        | Cause::CertificateNotYetValid
        | Cause::CertificateWrongCa
        | Cause::CertificateWrongName
        | Cause::CertificateWrongUsage
        | Cause::CertificateKeyMismatch
        | Cause::PeerTls
        | Cause::OwnTls => trust::certificate(cause, sight),
        Cause::ClockSkew => trust::clock(sight),
        Cause::EtcdHung => node::hung(sight),
        Cause::DiskHung => node::disk_hung(sight),
        Cause::EtcdCrashLooping => node::crash_loops(sight),
        Cause::EtcdDown => node::down(sight),
        Cause::KubeletDown => node::kubelet_down(sight),
        Cause::SnapshotReverted => node::reverted(sight),
        Cause::Corrupt => node::corrupt(sight),
        Cause::IdMismatch => node::id_mismatch(sight),
        Cause::MemberRemoved => node::removed(sight),
        Cause::AddressChanged => node::address_changed(sight),
        Cause::DiskFull => node::disk_full(sight),
        Cause::NoSpace => node::no_space(sight),
        Cause::SlowDisk => node::slow_disk(sight),
        Cause::HostStarved => node::starved(sight),
        Cause::HostPaused => node::paused(sight),
    }
}

/// Links for a fault of the network that shows at no peer's port: calls to this node's address, or by name, may go wrong.
pub(super) fn links_without_a_peer(cause: Cause, sight: &Sight<'_>) -> Vec<Link> {
    let port = sight.own.map_or(2380, |own| own.peer_port);
    let towards_us = |reach: &Reach<'_>| Link {
        from: words::name(&reach.peer.member.name, reach.peer.member.address),
        to: sight.node.clone(),
        address: sight.address(),
        port,
        shows: None,
    };
    let by_name =
        |name: &String| Link { from: sight.node.clone(), to: words::quote(name), address: None, port: 2380, shows: None };
    if cause == Cause::NameUnresolved {
        network::unresolved(sight).unwrap_or_default().iter().map(by_name).collect()
    } else if matches!(cause, Cause::DuplicateAddress | Cause::LinkDown) {
        sight.reaches.iter().map(towards_us).collect()
    } else {
        Vec::new()
    }
}

/// How etcd on this node is, as a clause.
fn etcd_here(sight: &Sight<'_>) -> String {
    let node = &sight.node;
    match (sight.etcd, sight.quorum) {
        (Etcd::Answers, Quorum::Yes) => format!("etcd on {node} runs, answers and has a leader and a quorum"),
        (Etcd::Answers, Quorum::No) => format!("etcd on {node} itself runs and answers, and has no quorum"),
        (Etcd::Answers, Quorum::Unseen) => format!("etcd on {node} runs and answers"),
        (Etcd::Refuses, _) => format!("nothing listens on {node}'s own client port"),
        (Etcd::Waits, _) => {
            format!("etcd on {node} itself runs, and since its last start serves no client before it has a quorum")
        }
        (Etcd::Silent, _) => format!("etcd on {node} does not answer"),
        (Etcd::Tls(_) | Etcd::Fails(_) | Etcd::Unseen, _)
            if sight.container().is_some_and(|c| c.state == ContainerState::Running) =>
        {
            format!("etcd on {node} runs, but could not be asked")
        }
        (Etcd::Tls(_) | Etcd::Fails(_) | Etcd::Unseen, _) => format!("how etcd on {node} is could not be seen"),
    }
}

/// Whose fault it is not, where the peers can be reached.
fn not_the_network(sight: &Sight<'_>) -> &'static str {
    if network::any_unreachable(sight) { "" } else { " The network is not at fault as far as was seen." }
}

/// What is bad, for a sentence that has no better reason.
fn bad(checks: &[Check]) -> Vec<String> {
    checks
        .iter()
        .filter(|check| check.mark == Mark::Bad)
        .map(|check| format!("{} ({})", check.name, words::quote(&check.seen)))
        .collect()
}

/// A cause in few words.
const fn briefly(cause: Cause) -> &'static str {
    match cause {
        Cause::Healthy => "all is well",
        Cause::PeersUnreachable => "no peer can be reached",
        Cause::PeerUnreachable => "a peer cannot be reached",
        Cause::NodeIsolated => "this node is cut off",
        Cause::InboundBlocked => "calls from a peer do not arrive",
        Cause::OutboundBlocked => "calls to a peer do not arrive",
        Cause::PeerPortBlocked => "a peer's 2380 does not pass",
        Cause::ClientPortBlocked => "a peer's 2379 does not pass",
        Cause::MtuBlackHole => "large packets are lost",
        Cause::LinkDown => "this node's link is down",
        Cause::PeerEtcdDown => "a peer's etcd is down",
        Cause::PeerEtcdHung => "a peer's etcd hangs",
        Cause::PeerHostDown => "a peer's host is gone",
        Cause::DuplicateAddress => "another station has this node's address",
        Cause::TwoInterfaces => "two interfaces are in one subnet",
        Cause::NameUnresolved => "a peer's name does not resolve",
        Cause::HostFirewall => "this node's packet filter drops",
        Cause::EtcdHung => "etcd hangs",
        Cause::EtcdCrashLooping => "etcd starts again and again",
        Cause::EtcdDown => "etcd is down",
        Cause::KubeletDown => "the kubelet is not active",
        Cause::CertificateExpired => "a certificate has expired",
        Cause::CertificateNotYetValid => "a certificate is not valid yet",
        Cause::CertificateWrongCa => "a certificate is of another CA",
        Cause::CertificateWrongName => "a certificate does not name its node",
        Cause::CertificateWrongUsage => "a certificate is for another use",
        Cause::CertificateKeyMismatch => "a key does not belong to its certificate",
        Cause::PeerTls => "TLS with a peer fails",
        Cause::OwnTls => "TLS with the local etcd fails",
        Cause::ClockSkew => "clocks are apart",
        Cause::SlowDisk => "etcd's disk is slow",
        Cause::DiskHung => "etcd's disk hangs",
        Cause::DiskFull => "etcd's file system is full",
        Cause::NoSpace => "the database is full",
        Cause::Corrupt => "the data is corrupt",
        Cause::Learner => "the local member has no vote",
        Cause::MemberRemoved => "the local member was removed",
        Cause::IdMismatch => "a cluster or member id does not match",
        Cause::AddressChanged => "this node lacks its address",
        Cause::SnapshotReverted => "the data was set back",
        Cause::TooFewMembers => "two members cannot lose one",
        Cause::HostStarved => "the node is starved of CPU",
        Cause::HostPaused => "the node stood still",
        Cause::LeaderFlapping => "the leadership changes again and again",
        Cause::Unknown => "something else is wrong",
    }
}
