//! What a diagnosis says: for people a sentence and a line a check, for programs a cause and its links.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::evidence::{Connect, Evidence};

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// What kind of fault it is, for exit codes.
    pub outcome: Outcome,
    /// What it is.
    pub cause: Cause,
    /// The same in a sentence or two: who cannot reach whom, how that shows, what is healthy, whom to ask.
    pub sentence: String,
    /// The tree, a line a check, in the order of the article.
    pub checks: Vec<Check>,
    /// Links that do not work, or not both ways.
    pub links: Vec<Link>,
    /// Commands for a person, the next one first.
    pub next: Vec<String>,
    /// What else is wrong and would be the cause without the first.
    #[serde(default)]
    pub also: Vec<Cause>,
    /// What it was judged by.
    pub evidence: Evidence,
}

/// The kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All that could be seen is well.
    Healthy,
    /// etcd or this node is at fault.
    Node,
    /// The network between the members is at fault: nothing to heal on a node.
    Network,
    /// Something is wrong, and what was seen does not tell what.
    Unknown,
}

impl Outcome {
    /// The exit code of `diagnose`: 0 healthy, 1 this node or its etcd, 3 the network, 4 not told.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Node => 1,
            Self::Network => 3,
            Self::Unknown => 4,
        }
    }
}

/// What is wrong. The names are for programs and stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Nothing.
    Healthy,
    /// No member's peer port can be reached from here, nor they ours: this node, or all of them, are cut off.
    PeersUnreachable,
    /// One of several peers cannot be reached, either way.
    PeerUnreachable,
    /// This node reaches nobody, and what the others share or what etcd says shows that they reach each other.
    NodeIsolated,
    /// We reach them, they do not reach us.
    InboundBlocked,
    /// They reach us, we do not reach them.
    OutboundBlocked,
    /// Only 2380 does not pass.
    PeerPortBlocked,
    /// Only 2379 does not pass: etcd itself does not need it between members.
    ClientPortBlocked,
    /// Small packets pass, large ones do not.
    MtuBlackHole,
    /// Our own link is down, or there is no route.
    LinkDown,
    /// A peer's host answers and refuses: its etcd is down.
    PeerEtcdDown,
    /// A peer accepts connections and answers nothing: its etcd hangs.
    PeerEtcdHung,
    /// Nobody has the peer's address.
    PeerHostDown,
    /// Another station answers for this node's address.
    DuplicateAddress,
    /// Two interfaces of this node are in the peers' subnet.
    TwoInterfaces,
    /// A peer's name does not resolve.
    NameUnresolved,
    /// A packet filter of this node drops.
    HostFirewall,
    /// etcd's process is there and does not answer: stopped, frozen, or a disk that hangs.
    EtcdHung,
    /// etcd starts and ends again and again.
    EtcdCrashLooping,
    /// There is no etcd, or it ended.
    EtcdDown,
    /// The kubelet is not active, and etcd is down: nobody will start it.
    KubeletDown,
    /// A certificate is over.
    CertificateExpired,
    /// A certificate is not valid yet: look at the clock first.
    CertificateNotYetValid,
    /// A certificate is of another CA.
    CertificateWrongCa,
    /// A certificate does not name the node's address.
    CertificateWrongName,
    /// A certificate may not be used for this.
    CertificateWrongUsage,
    /// A key does not belong to its certificate.
    CertificateKeyMismatch,
    /// A peer's certificate is not trusted or ours is refused, and which is not to be seen from here.
    PeerTls,
    /// The local member and this watchdog do not agree on TLS, and why is not to be seen in the files.
    OwnTls,
    /// Clocks of members are apart.
    ClockSkew,
    /// etcd's disk is slow.
    SlowDisk,
    /// etcd's disk hangs.
    DiskHung,
    /// The file system of etcd is full: it ends.
    DiskFull,
    /// The database is full: writes fail, reads and leadership do not.
    NoSpace,
    /// The data is corrupt.
    Corrupt,
    /// The local member has no vote yet.
    Learner,
    /// The local member was removed from the cluster.
    MemberRemoved,
    /// A cluster or member id does not match: another cluster's data or a stranger.
    IdMismatch,
    /// This node has no longer the address that the member list has for it.
    AddressChanged,
    /// The data directory was set back to an older state.
    SnapshotReverted,
    /// Too few members for losing one.
    TooFewMembers,
    /// The node is starved of CPU or memory.
    HostStarved,
    /// The node did not run for a while: a virtual machine that was stunned or suspended.
    HostPaused,
    /// The leadership changes and no cause is to be seen.
    LeaderFlapping,
    /// Something is wrong, and what was seen does not tell what.
    Unknown,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 45] = [
        Self::Healthy,
        Self::PeersUnreachable,
        Self::PeerUnreachable,
        Self::NodeIsolated,
        Self::InboundBlocked,
        Self::OutboundBlocked,
        Self::PeerPortBlocked,
        Self::ClientPortBlocked,
        Self::MtuBlackHole,
        Self::LinkDown,
        Self::PeerEtcdDown,
        Self::PeerEtcdHung,
        Self::PeerHostDown,
        Self::DuplicateAddress,
        Self::TwoInterfaces,
        Self::NameUnresolved,
        Self::HostFirewall,
        Self::EtcdHung,
        Self::EtcdCrashLooping,
        Self::EtcdDown,
        Self::KubeletDown,
        Self::CertificateExpired,
        Self::CertificateNotYetValid,
        Self::CertificateWrongCa,
        Self::CertificateWrongName,
        Self::CertificateWrongUsage,
        Self::CertificateKeyMismatch,
        Self::PeerTls,
        Self::OwnTls,
        Self::ClockSkew,
        Self::SlowDisk,
        Self::DiskHung,
        Self::DiskFull,
        Self::NoSpace,
        Self::Corrupt,
        Self::Learner,
        Self::MemberRemoved,
        Self::IdMismatch,
        Self::AddressChanged,
        Self::SnapshotReverted,
        Self::TooFewMembers,
        Self::HostStarved,
        Self::HostPaused,
        Self::LeaderFlapping,
        Self::Unknown,
    ];

    /// Its name for programs, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::PeersUnreachable => "peers_unreachable",
            Self::PeerUnreachable => "peer_unreachable",
            Self::NodeIsolated => "node_isolated",
            Self::InboundBlocked => "inbound_blocked",
            Self::OutboundBlocked => "outbound_blocked",
            Self::PeerPortBlocked => "peer_port_blocked",
            Self::ClientPortBlocked => "client_port_blocked",
            Self::MtuBlackHole => "mtu_black_hole",
            Self::LinkDown => "link_down",
            Self::PeerEtcdDown => "peer_etcd_down",
            Self::PeerEtcdHung => "peer_etcd_hung",
            Self::PeerHostDown => "peer_host_down",
            Self::DuplicateAddress => "duplicate_address",
            Self::TwoInterfaces => "two_interfaces",
            Self::NameUnresolved => "name_unresolved",
            Self::HostFirewall => "host_firewall",
            Self::EtcdHung => "etcd_hung",
            Self::EtcdCrashLooping => "etcd_crash_looping",
            Self::EtcdDown => "etcd_down",
            Self::KubeletDown => "kubelet_down",
            Self::CertificateExpired => "certificate_expired",
            Self::CertificateNotYetValid => "certificate_not_yet_valid",
            Self::CertificateWrongCa => "certificate_wrong_ca",
            Self::CertificateWrongName => "certificate_wrong_name",
            Self::CertificateWrongUsage => "certificate_wrong_usage",
            Self::CertificateKeyMismatch => "certificate_key_mismatch",
            Self::PeerTls => "peer_tls",
            Self::OwnTls => "own_tls",
            Self::ClockSkew => "clock_skew",
            Self::SlowDisk => "slow_disk",
            Self::DiskHung => "disk_hung",
            Self::DiskFull => "disk_full",
            Self::NoSpace => "no_space",
            Self::Corrupt => "corrupt",
            Self::Learner => "learner",
            Self::MemberRemoved => "member_removed",
            Self::IdMismatch => "id_mismatch",
            Self::AddressChanged => "address_changed",
            Self::SnapshotReverted => "snapshot_reverted",
            Self::TooFewMembers => "too_few_members",
            Self::HostStarved => "host_starved",
            Self::HostPaused => "host_paused",
            Self::LeaderFlapping => "leader_flapping",
            Self::Unknown => "unknown",
        }
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// ✓
    Good,
    /// ✗
    Bad,
    /// ? it could not be seen.
    Unseen,
    /// ! it works, and somebody should look before it does not: a certificate's last days, two members.
    Warn,
}

/// A line of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at, a stable word for programs: `peer_port cp2`.
    pub name: String,
    /// How it ended.
    pub mark: Mark,
    /// What was seen.
    pub seen: String,
    /// What that means; empty when it is plain.
    pub means: String,
    /// The command by which a person sees the same, or goes on; empty when there is none.
    pub by_hand: String,
}

/// A direction between two members that does not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Who calls.
    pub from: String,
    /// Who is called.
    pub to: String,
    /// The called address.
    pub address: Option<IpAddr>,
    /// The called port.
    pub port: u16,
    /// How it shows at the caller; `None` when it is inferred from what the called side does not see.
    pub shows: Option<Connect>,
}
