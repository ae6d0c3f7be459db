//! Each other member: its ports, and the connections with it.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::asker::Asker;
use super::ports::{Target, or, probe};
use super::sockets::{self, Row};
use crate::diagnose::evidence::{Connect, Member, Members, Peer, Seen};
use crate::diagnose::tree::HEARD_MS_MAX;

/// Most peers that are looked at. etcd's own advice is seven members at most.
const PEERS_MAX: usize = 16;
/// Of the deadline, for the second look at the connections. What is left is longer than three SYNs take.
const AGAIN_TIME: Duration = Duration::from_millis(150);

/// A peer for each member but `own`, within `deadline` in all.
pub(super) async fn look(members: &Seen<Members>, own: Option<&Member>, asker: &Asker, deadline: Duration) -> Vec<Peer> {
    let begun = Instant::now();
    let list = members.yes().map(|members| members.list.as_slice()).unwrap_or_default();
    let others: Vec<&Member> = list.iter().filter(|member| Some(*member) != own).take(PEERS_MAX).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let own_port = or(own.map_or(0, |own| own.peer_port), 2380);
    let ports = others.iter().map(|member| or(member.peer_port, 2380)).chain([own_port]).collect();
    // Before our own connections are in it.
    let table = sockets::table(ports).await;
    let left = deadline.saturating_sub(AGAIN_TIME).saturating_sub(begun.elapsed());
    let mut peers = join_all(others.into_iter().map(|member| one(member, own_port, &table, asker, left))).await;
    if table.is_ok() && peers.iter().any(fails) {
        heard_since(&mut peers, own_port, begun, deadline).await;
    }
    peers
}

/// Its peer port was tried, and did not open.
fn fails(peer: &Peer) -> bool {
    peer.peer_port.yes().is_some_and(|port| port.connect != Connect::Open)
}

/// What came in just before a drop began would stand beside calls that fail in it as if those from there still passed. So the connections
/// from there, where there are any, are looked at again when that would be too long ago. None of them is our own.
async fn heard_since(peers: &mut [Peer], own_port: u16, begun: Instant, deadline: Duration) {
    let listed = |peer: &Peer| fails(peer) && peer.inbound.yes().is_some_and(|sockets| sockets.established > 0);
    if !peers.iter().any(listed) {
        return;
    }
    let outlived = Duration::from_millis(HEARD_MS_MAX) + AGAIN_TIME;
    sleep_until(begun + outlived.min(deadline.saturating_sub(AGAIN_TIME))).await;
    let Ok(Ok(rows)) = timeout_at(begun + deadline, sockets::table(vec![own_port])).await else { return };
    for peer in peers.iter_mut().filter(|peer| listed(peer)) {
        if let Some(address) = peer.member.address {
            peer.inbound = Seen::Yes(sockets::inbound(&rows, address, own_port));
        }
    }
}

async fn one(member: &Member, own_port: u16, table: &Result<Vec<Row>, String>, asker: &Asker, deadline: Duration) -> Peer {
    let Some(address) = member.address else {
        let why = || "the member list has no address for it".to_owned();
        let (inbound, outbound) = (Seen::No(why()), Seen::No(why()));
        return Peer {
            member: member.clone(),
            peer_port: Seen::No(why()),
            client_port: Seen::No(why()),
            inbound,
            outbound,
            ..Peer::default()
        };
    };
    let port = async |port: u16| {
        let target = Target { address: SocketAddr::new(address, port), host: address.to_string(), remote: true };
        Seen::Yes(probe(&target, asker, deadline).await)
    };
    let count = |count: &dyn Fn(&[Row]) -> _| match table {
        Ok(rows) => Seen::Yes(count(rows)),
        Err(why) => Seen::No(why.clone()),
    };
    let peer_port_number = or(member.peer_port, 2380);
    let (peer_port, client_port) = tokio::join!(port(peer_port_number), port(or(member.client_port, 2379)));
    Peer {
        member: member.clone(),
        peer_port,
        client_port,
        inbound: count(&|rows| sockets::inbound(rows, address, own_port)),
        outbound: count(&|rows| sockets::outbound(rows, address, peer_port_number)),
        ..Peer::default()
    }
}
