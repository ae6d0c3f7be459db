//! What one look at the local node saw. Plain data: the tree judges it, `--json` prints it, the cases in `tests/diagnose` are made of it.
//!
//! Invariant: what could not be seen says why ([`Seen::No`]); nothing here is a guess. Durations are milliseconds unless the name says
//! otherwise. Every list is bounded by whoever fills it.

mod etcd;
mod network;
mod node;

use std::fmt;
use std::net::IpAddr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use etcd::{Container, ContainerState, EtcdLog, LocalStatus, LogClass, LogLine, Metrics, StatusAnswer};
pub use network::{Connect, Duplicate, FilterRule, Interface, Peer, PeerView, Port, Sockets, Tls};
pub use node::{Certificate, CertificateFile, Host, Pause, Unit};

/// Something that was looked at: seen, or why not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen<T> {
    /// This was seen.
    Yes(T),
    /// It could not be seen, and why, as part of a sentence.
    No(String),
}

impl<T> Seen<T> {
    /// What was seen, if anything was.
    pub const fn yes(&self) -> Option<&T> {
        match self {
            Self::Yes(value) => Some(value),
            Self::No(_) => None,
        }
    }
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self::No("nobody looked".to_owned())
    }
}

/// A member's id. Spelt in hexadecimal, as etcdctl does: a 64-bit number does not survive JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl Serialize for MemberId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MemberId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Self).map_err(|error| D::Error::custom(format!("member id {text:?}: {error}")))
    }
}

/// All that was seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Evidence {
    /// The node's name in etcd, or its host name.
    pub node: String,
    /// When, in milliseconds since the Unix epoch.
    pub wall_ms: u64,
    /// Who should be in the cluster.
    pub members: Seen<Members>,
    /// What the local member says of itself.
    pub status: Seen<LocalStatus>,
    /// etcd's container or process.
    pub container: Seen<Container>,
    /// The kubelet's unit.
    pub kubelet: Seen<Unit>,
    /// What etcd's own log says.
    pub log: Seen<EtcdLog>,
    /// The local member's own ports: client (2379) and peer (2380).
    pub own_client_port: Seen<Port>,
    /// See `own_client_port`.
    pub own_peer_port: Seen<Port>,
    /// Each other member.
    pub peers: Vec<Peer>,
    /// The certificates that etcd and this watchdog use.
    pub certificates: Seen<Vec<CertificateFile>>,
    /// etcd's metrics, two samples.
    pub metrics: Seen<Metrics>,
    /// The node's interfaces.
    pub interfaces: Seen<Vec<Interface>>,
    /// Addresses of this node for which another station answers by ARP.
    pub duplicates: Seen<Vec<Duplicate>>,
    /// Packet filters of this node that drop or reject, as far as they can be read.
    pub filters: Seen<Vec<FilterRule>>,
    /// Pressure and pauses of the node.
    pub host: Seen<Host>,
}

/// The member list, and where it is from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Members {
    /// Where the list is from.
    pub source: MemberSource,
    /// The members, by id.
    pub list: Vec<Member>,
    /// The local member's id, when it is known.
    pub own_id: Option<MemberId>,
    /// Addresses in peer URLs that are names and did not resolve.
    pub unresolved: Vec<String>,
}

/// Where a member list is from, best first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberSource {
    /// The local member said it just now.
    #[default]
    Etcd,
    /// A peer said it just now (`GET /members` on its peer port).
    Peer,
    /// The daemon kept it from a time when etcd answered.
    Remembered,
    /// `--initial-cluster` in etcd's manifest or command line: from the day of its making.
    InitialCluster,
}

/// A member of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Member {
    /// Its id; zero when only its name is known.
    pub id: MemberId,
    /// Its name.
    pub name: String,
    /// The address in its peer URL.
    pub address: Option<IpAddr>,
    /// The port in its peer URL, 2380 by default.
    pub peer_port: u16,
    /// The port in its client URL, 2379 by default.
    pub client_port: u16,
    /// A learner has no vote.
    pub learner: bool,
}
