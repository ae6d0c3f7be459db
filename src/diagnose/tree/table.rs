//! The table of causes: read from top to bottom, the first row that holds is the cause. What holds in another layer is told beside it.
//!
//! The order is that of blame: what a row says explains the rows below it, never the other way round. Without a link there are no peers; a
//! stopped etcd answers no TLS; a certificate that is over is why a peer refuses it; a rule of this node's own filter is why SYNs time out.

use super::certificate;
use super::reach::Kind;
use super::sight::{Etcd, Quorum, Sight};
use super::{local, network};
use crate::diagnose::diagnosis::{Cause, Outcome};
use crate::diagnose::evidence::LogClass;

/// Rows of one layer explain each other: only the first of them counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Link,
    Process,
    Certificate,
    Network,
    Data,
    Host,
    Standing,
}

/// A row.
struct Row(Layer, Cause, fn(&Sight<'_>) -> bool);

/// The table.
const TABLE: &[Row] = &[
    // This node's own link and address: nothing beyond them can be judged.
    Row(Layer::Link, Cause::LinkDown, network::link_down),
    Row(Layer::Link, Cause::AddressChanged, local::address_changed),
    Row(Layer::Link, Cause::DuplicateAddress, |s| s.evidence.duplicates.yes().is_some_and(|found| !found.is_empty())),
    // etcd's process, by what can be proven before what is inferred.
    Row(Layer::Process, Cause::EtcdHung, |s| s.frozen()),
    Row(Layer::Process, Cause::DiskHung, |s| s.disk_hangs()),
    Row(Layer::Process, Cause::SnapshotReverted, |s| s.last_words(LogClass::SnapshotReverted).is_some()),
    Row(Layer::Process, Cause::MemberRemoved, local::member_removed),
    Row(Layer::Process, Cause::IdMismatch, |s| local::id_mismatch(s).is_some()),
    Row(Layer::Process, Cause::Corrupt, |s| s.last_words(LogClass::Corrupt).is_some()),
    // Certificates of this node before what a peer makes of them; the clock before a certificate's dates.
    Row(Layer::Certificate, Cause::ClockSkew, |s| certificate_is(s, Cause::ClockSkew)),
    Row(Layer::Certificate, Cause::CertificateKeyMismatch, |s| certificate_is(s, Cause::CertificateKeyMismatch)),
    Row(Layer::Certificate, Cause::CertificateExpired, |s| certificate_is(s, Cause::CertificateExpired)),
    Row(Layer::Certificate, Cause::CertificateNotYetValid, |s| certificate_is(s, Cause::CertificateNotYetValid)),
    Row(Layer::Certificate, Cause::CertificateWrongCa, |s| certificate_is(s, Cause::CertificateWrongCa)),
    Row(Layer::Certificate, Cause::CertificateWrongName, |s| certificate_is(s, Cause::CertificateWrongName)),
    Row(Layer::Certificate, Cause::CertificateWrongUsage, |s| certificate_is(s, Cause::CertificateWrongUsage)),
    Row(Layer::Certificate, Cause::OwnTls, |s| certificate_is(s, Cause::OwnTls)),
    // etcd is not there, and none of the above says why.
    Row(Layer::Process, Cause::DiskFull, local::disk_full),
    Row(Layer::Process, Cause::KubeletDown, |s| local::kubelet_down(s) && s.down()),
    Row(Layer::Process, Cause::EtcdCrashLooping, |s| s.crash_loops()),
    Row(Layer::Process, Cause::EtcdDown, |s| s.down()),
    Row(Layer::Host, Cause::HostStarved, |s| local::starved(s) && s.etcd == Etcd::Silent),
    Row(Layer::Network, Cause::HostFirewall, |s| s.own_client_filtered()),
    Row(Layer::Process, Cause::EtcdHung, |s| s.etcd == Etcd::Silent && !s.own_client_filtered()),
    // The network, this node's own part of it first.
    Row(Layer::Network, Cause::HostFirewall, |s| network::filter(s).is_some()),
    Row(Layer::Network, Cause::TwoInterfaces, |s| network::two_interfaces(s).is_some() && network::any_unreachable(s)),
    Row(Layer::Network, Cause::NameUnresolved, |s| network::unresolved(s).is_some()),
    Row(Layer::Network, Cause::MtuBlackHole, |s| network::any(s, Kind::Large)),
    Row(Layer::Network, Cause::NodeIsolated, |s| network::all_cut(s) && s.others_reach_each_other()),
    Row(Layer::Network, Cause::PeersUnreachable, |s| network::all_cut(s) && !only_one_host_down(s)),
    Row(Layer::Network, Cause::PeerUnreachable, |s| network::any(s, Kind::Cut)),
    Row(Layer::Network, Cause::OutboundBlocked, |s| network::any(s, Kind::OutFails)),
    Row(Layer::Network, Cause::PeerPortBlocked, |s| network::any(s, Kind::PeerPort)),
    Row(Layer::Network, Cause::PeerHostDown, |s| network::any(s, Kind::HostDown)),
    Row(Layer::Network, Cause::PeerEtcdDown, |s| network::any(s, Kind::Down)),
    Row(Layer::Network, Cause::PeerEtcdHung, |s| network::any(s, Kind::Hung)),
    Row(Layer::Certificate, Cause::PeerTls, |s| certificate_is(s, Cause::PeerTls)),
    Row(Layer::Network, Cause::InboundBlocked, |s| network::any(s, Kind::InFails)),
    Row(Layer::Network, Cause::ClientPortBlocked, |s| network::any(s, Kind::ClientPort)),
    // Every member can be reached: what is wrong is in the data, the disk or the node.
    Row(Layer::Data, Cause::Corrupt, |s| local::alarm(s, "CORRUPT")),
    Row(Layer::Data, Cause::NoSpace, |s| local::alarm(s, "NOSPACE")),
    Row(Layer::Data, Cause::SlowDisk, local::slow_disk),
    Row(Layer::Host, Cause::HostPaused, |s| s.quorum == Quorum::No && local::paused(s).is_some()),
    Row(Layer::Host, Cause::HostStarved, local::starves),
    Row(Layer::Data, Cause::Learner, local::learner),
    Row(Layer::Standing, Cause::LeaderFlapping, local::flaps),
    Row(Layer::Standing, Cause::KubeletDown, local::kubelet_down),
    Row(Layer::Standing, Cause::ClockSkew, |s| local::clock_apart(s).is_some()),
];

/// The cause, and what else is wrong in other layers.
pub(super) fn causes(sight: &Sight<'_>) -> (Cause, Vec<Cause>) {
    let mut layers = Vec::new();
    let mut causes: Vec<Cause> = Vec::new();
    for Row(layer, cause, holds) in TABLE {
        if !layers.contains(layer) && !causes.contains(cause) && holds(sight) {
            layers.push(*layer);
            causes.push(*cause);
        }
    }
    if causes.is_empty() {
        return (sound(sight), Vec::new());
    }
    let mut also = causes.split_off(1);
    let first = causes.first().copied().unwrap_or(Cause::Unknown);
    also.retain(|other| !explains(first, *other));
    (first, also)
}

/// What a cause in one layer brings about in another, and so is not told beside it.
fn explains(cause: Cause, other: Cause) -> bool {
    let is_in = |of: Cause, layer: Layer| TABLE.iter().any(|row| row.0 == layer && row.1 == of);
    (is_in(cause, Layer::Link) && is_in(other, Layer::Network))
        || (is_in(cause, Layer::Certificate) && other == Cause::InboundBlocked)
        || (cause == Cause::HostStarved && other == Cause::EtcdHung)
}

/// No row holds: whether enough was seen to call it healthy.
fn sound(sight: &Sight<'_>) -> Cause {
    match sight.quorum {
        Quorum::Yes if sight.voters() == Some(2) => Cause::TooFewMembers,
        Quorum::Yes => Cause::Healthy,
        Quorum::No | Quorum::Unseen => Cause::Unknown,
    }
}

/// The kind of fault that a cause is.
pub(super) const fn outcome(cause: Cause) -> Outcome {
    match cause {
        Cause::Healthy | Cause::TooFewMembers => Outcome::Healthy,
        Cause::LinkDown
        | Cause::DuplicateAddress
        | Cause::NameUnresolved
        | Cause::MtuBlackHole
        | Cause::NodeIsolated
        | Cause::PeersUnreachable
        | Cause::PeerUnreachable
        | Cause::OutboundBlocked
        | Cause::PeerPortBlocked
        | Cause::PeerHostDown
        | Cause::InboundBlocked
        | Cause::ClientPortBlocked => Outcome::Network,
        Cause::LeaderFlapping | Cause::Unknown => Outcome::Unknown,
        Cause::AddressChanged
        | Cause::EtcdHung
        | Cause::DiskHung
        | Cause::SnapshotReverted
        | Cause::MemberRemoved
        | Cause::IdMismatch
        | Cause::Corrupt
        | Cause::CertificateKeyMismatch
        | Cause::CertificateExpired
        | Cause::CertificateNotYetValid
        | Cause::CertificateWrongCa
        | Cause::CertificateWrongName
        | Cause::CertificateWrongUsage
        | Cause::OwnTls
        | Cause::PeerTls
        | Cause::KubeletDown
        | Cause::EtcdCrashLooping
        | Cause::EtcdDown
        | Cause::HostFirewall
        | Cause::TwoInterfaces
        | Cause::PeerEtcdDown
        | Cause::PeerEtcdHung
        | Cause::DiskFull
        | Cause::NoSpace
        | Cause::SlowDisk
        | Cause::HostPaused
        | Cause::HostStarved
        | Cause::Learner
        | Cause::ClockSkew => Outcome::Node,
    }
}

fn certificate_is(sight: &Sight<'_>, cause: Cause) -> bool {
    certificate::fault(sight).is_some_and(|fault| fault.cause == cause)
}

/// In a cluster of two, the other host being gone is no cut network.
fn only_one_host_down(sight: &Sight<'_>) -> bool {
    sight.reaches.len() == 1 && network::any(sight, Kind::HostDown)
}
