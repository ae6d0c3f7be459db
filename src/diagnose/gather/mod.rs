//! Looks at everything side by side, each look with its own deadline inside [`PATIENCE`](super::PATIENCE).
//!
//! ```text
//!   members (1 s) ──► peers, own peer port, certificates, duplicates, filters (3.4 s)
//!   status, the others' views, container, kubelet, log, metrics, own client port, interfaces, host (4.4 s at most each)
//! ```
//!
//! Invariants: nothing is written, no packet is sent but questions. Whatever does not come in time is [`Seen::No`] with what was waited
//! for. Looks share one thread: what can block goes through [`aside::Aside`]. May be dropped at any await.

mod aside;
mod asker;
mod certificates;
mod command;
mod connect;
mod container;
mod diag;
mod duplicates;
mod filters;
mod flags;
mod host;
mod http;
mod interfaces;
mod kubelet;
mod log;
mod members;
mod metrics;
mod own;
mod peers;
mod ports;
mod prometheus;
mod sockets;
mod status;
mod tls;
mod unit;
mod views;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use aside::within;
use asker::Asker;
use futures_util::future::join_all;
use ports::Target;

use super::evidence::{CertificateFile, Connect, Evidence, Pause, Port, Seen, Sockets};
use crate::policy::{EtcdPolicy, Policy};
use crate::runtime::clock;

/// For the member list, with its fallbacks: all that is looked at per member waits for it.
const MEMBERS_TIME: Duration = Duration::from_millis(1000);
/// For what waits for the member list. An absent host shows after three SYNs, 3.1 s (`connect(2)`, EHOSTUNREACH).
const AFTER_MEMBERS: Duration = Duration::from_millis(3400);
/// For what waits for nothing. The rest of the patience is for putting it together.
const LONGEST: Duration = Duration::from_millis(4400);

/// What can be seen now.
pub(super) async fn gather(policy: &Policy, last_pause: impl Future<Output = Option<Pause>>) -> Evidence {
    let wall_ms = u64::try_from(clock::wall().as_millis()).unwrap_or(u64::MAX);
    let asker = Asker::new(&policy.etcd);
    let blank = Evidence { wall_ms, node: own::host_name(), ..Evidence::default() };
    let (mut of_members, views, status, container, kubelet, log, own_client_port, metrics, interfaces, host) = tokio::join!(
        of_members(policy, &asker, blank),
        views::look(policy),
        within("etcd's status", LONGEST, status::look(policy)),
        within("the container runtime", LONGEST, container::look(policy)),
        within("the kubelet's unit", LONGEST, kubelet::look(policy)),
        within("etcd's log", LONGEST, log::look(policy)),
        ports::own_client(policy, &asker, LONGEST),
        within("etcd's metrics", LONGEST, metrics::look(policy, &asker)),
        within("the list of interfaces", LONGEST, interfaces::look(policy)),
        within("the host", LONGEST, host::look(policy, last_pause)),
    );
    let metrics = metrics::spread(metrics, &mut of_members.peers);
    views::join(&mut of_members.peers, views);
    let container = container::with_log(container, &log);
    Evidence { status, container, kubelet, log, own_client_port, metrics, interfaces, host, ..of_members }
}

/// One port of another member, tried as in a diagnosis: its server is to show itself as `address`.
pub async fn try_port(policy: &EtcdPolicy, address: SocketAddr) -> Port {
    let target = Target { address, host: address.ip().to_string(), remote: true };
    ports::probe(&target, &Asker::new(policy), AFTER_MEMBERS).await
}

/// The connections between this node and a peer, as a diagnosis counts them: opened by it to `own_port`, by us to its `peer_port`.
///
/// # Errors
/// The kernel's table cannot be read; why, for people.
pub async fn connections(peer: IpAddr, own_port: u16, peer_port: u16) -> Result<(Sockets, Sockets), String> {
    let rows = sockets::table(vec![own_port, peer_port]).await?;
    Ok((sockets::inbound(&rows, peer, own_port), sockets::outbound(&rows, peer, peer_port)))
}

/// The certificate files alone.
pub(super) async fn certificate_files(policy: &Policy) -> Seen<Vec<CertificateFile>> {
    certificates::look(policy, None).await
}

/// How connecting to each of some members' ports ends, side by side, within `deadline`. TLS and all, as in a diagnosis: a connection that
/// is closed at once would be a line in the member's log.
pub async fn try_ports(policy: &EtcdPolicy, addresses: &[SocketAddr], deadline: Duration) -> Vec<Connect> {
    let asker = Asker::new(policy);
    let ports = addresses.iter().map(async |address| {
        let target = Target { address: *address, host: address.ip().to_string(), remote: true };
        ports::probe(&target, &asker, deadline).await.connect
    });
    join_all(ports).await
}

/// The members, and what needs them.
async fn of_members(policy: &Policy, asker: &Asker, blank: Evidence) -> Evidence {
    let members = within("the member list", MEMBERS_TIME, members::look(policy, asker)).await;
    let own = members.yes().and_then(|members| own::find(members, &blank.node));
    let (peers, own_peer_port, certificates, duplicates, filters) = tokio::join!(
        peers::look(&members, own, asker, AFTER_MEMBERS),
        ports::own_peer(own, asker, AFTER_MEMBERS),
        within("the certificate files", AFTER_MEMBERS, certificates::look(policy, own)),
        within("the look for duplicate addresses", AFTER_MEMBERS, duplicates::look(policy, own)),
        within("the packet filter", AFTER_MEMBERS, filters::look(&members, own)),
    );
    let node = own.map(|own| own.name.clone()).filter(|name| !name.is_empty()).unwrap_or(blank.node);
    Evidence { node, members, peers, own_peer_port, certificates, duplicates, filters, ..blank }
}
