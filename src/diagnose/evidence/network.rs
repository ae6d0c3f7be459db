//! What the network between the members shows.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Member, Seen};

/// One TCP port, tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Port {
    /// How connecting ended.
    pub connect: Connect,
    /// Time until then, in microseconds.
    pub took_us: u64,
    /// What TLS with the policy's client certificate came to; `None` when it was not tried.
    pub tls: Option<Tls>,
    /// Whether a request of several segments was answered (`Some(false)`: small ones pass, this one stalled); `None` when it was not tried.
    pub large_passes: Option<bool>,
    /// The answerer's clock against ours, from its `Date` header: positive when it is ahead. Resolution one second.
    pub clock_offset_ms: Option<i64>,
}

/// How `connect(2)` ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connect {
    /// It was accepted.
    Open,
    /// ECONNREFUSED: the host is there, nothing listens.
    Refused,
    /// Our deadline passed: SYNs or their answers are dropped.
    #[default]
    TimedOut,
    /// EHOSTUNREACH at once: a filter on the way rejects.
    Rejected,
    /// EHOSTUNREACH after some seconds: nobody answers ARP for the address.
    NoHost,
    /// ENETUNREACH: no route, or our own link is down.
    NoRoute,
    /// Anything else.
    Other(String),
}

/// How TLS ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// Shaken hands, and a request was answered.
    Answered,
    /// The handshake or the answer did not come: the process hangs, or large packets are lost.
    TimedOut,
    /// Our side does not trust the peer's certificate: the text of the error.
    Untrusted(String),
    /// The peer closed after the handshake: it does not take our certificate.
    RefusedOurs(String),
    /// Anything else.
    Failed(String),
}

/// Another member, seen from here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Peer {
    /// Which.
    pub member: Member,
    /// Its peer port, 2380.
    pub peer_port: Seen<Port>,
    /// Its client port, 2379.
    pub client_port: Seen<Port>,
    /// Established connections between its address and our peer port (it called us).
    pub inbound: Seen<Sockets>,
    /// Established connections between us and its peer port (we called it).
    pub outbound: Seen<Sockets>,
    /// Bytes that etcd received from it between two samples of its metrics, a second apart. Two followers have little to say to each other:
    /// nothing is usual between them.
    pub received_bytes: Option<u64>,
    /// Bytes that etcd sent to it between two samples.
    pub sent_bytes: Option<u64>,
    /// What its own watchdog last shared, where that is switched on.
    pub view: Option<PeerView>,
}

/// Connections of one kind, from the kernel's table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sockets {
    /// How many are established.
    pub established: u32,
    /// How many of those have retransmitted: what they send is not acknowledged.
    pub retransmitting: u32,
    /// Unacknowledged bytes in them.
    pub unacknowledged_bytes: u64,
    /// The shortest time since anything came in on one of them (`tcpi_last_data_recv`, `tcpi_last_ack_recv`), in milliseconds; `None` when
    /// the kernel did not say. etcd writes on its streams every 1.7 s at least, so in a sound link this is under 2 s: it tells a live
    /// connection from one that outlived its link.
    pub heard_ms: Option<u64>,
    /// How many are half open from there (SYN received, our answer is not).
    pub syn_received: u32,
}

/// What another node's watchdog shared of its own sight of the peers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PeerView {
    /// Its node.
    pub node: String,
    /// Its verdict.
    pub verdict: String,
    /// How old it is by that node's stamp and our clock.
    pub age_ms: u64,
    /// What it sees of each member's peer port, by address.
    pub peer_ports: Vec<(IpAddr, Connect)>,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Up, with a carrier.
    pub running: bool,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Its addresses with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// Another station that answers for an address of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// The address.
    pub address: IpAddr,
    /// Its MAC.
    pub mac: String,
}

/// A rule of the local packet filter that stands in etcd's way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilterRule {
    /// Table and chain.
    pub place: String,
    /// The rule, or `policy drop`, as the tool prints it, clipped.
    pub rule: String,
    /// Packets that it has counted; `None` without a counter.
    pub packets: Option<u64>,
}
