//! Sentences about links between members.

use super::etcd_here;
use crate::diagnose::evidence::Connect;
use crate::diagnose::tree::network;
use crate::diagnose::tree::reach::{Inbound, Kind, Reach};
use crate::diagnose::tree::sight::{Etcd, Sight};
use crate::diagnose::tree::words;

/// Peers of these kinds, with name and address.
pub(super) fn peers(sight: &Sight<'_>, kinds: &[Kind]) -> String {
    let named = |reach: &Reach<'_>| words::who(&reach.peer.member.name, reach.peer.member.address);
    words::list(&of(sight, kinds).iter().map(|reach| named(reach)).collect::<Vec<_>>())
}

/// Their names alone.
fn names(sight: &Sight<'_>, kinds: &[Kind]) -> String {
    let named = |reach: &Reach<'_>| words::name(&reach.peer.member.name, reach.peer.member.address);
    words::list(&of(sight, kinds).iter().map(|reach| named(reach)).collect::<Vec<_>>())
}

fn of<'a, 'e>(sight: &'a Sight<'e>, kinds: &[Kind]) -> Vec<&'a Reach<'e>> {
    sight.reaches.iter().filter(|reach| kinds.contains(&reach.kind)).collect()
}

/// How the calls show, each way of failing once.
fn shows(reaches: &[&Reach<'_>], of: impl Fn(&Reach<'_>) -> Option<Connect>) -> String {
    let mut ways: Vec<String> = Vec::new();
    for way in reaches
        .iter()
        .filter_map(|reach| of(reach))
        .filter(|connect| *connect != Connect::Open)
        .map(|connect| words::shows(&connect))
    {
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    words::list(&ways)
}

fn out(reach: &Reach<'_>) -> Option<Connect> {
    reach.out().or_else(|| reach.client()).cloned()
}

/// Since when, where etcd's log says so.
fn since(reaches: &[&Reach<'_>]) -> String {
    let longest = reaches.iter().filter_map(|reach| reach.since_ms).max();
    longest.map(|since| format!(", for {} by etcd's log", words::ms(since))).unwrap_or_default()
}

/// The ports of etcd, for whom to ask.
fn ports(reaches: &[&Reach<'_>]) -> String {
    let client_fails = reaches.iter().any(|reach| reach.client().is_some_and(|client| *client != Connect::Open));
    let peer_port = reaches.first().map_or(2380, |reach| reach.peer.member.peer_port);
    let client_port = reaches.first().map_or(2379, |reach| reach.peer.member.client_port);
    if client_fails { format!("{peer_port} and {client_port}") } else { peer_port.to_string() }
}

/// What the sentences about unreachable peers have in common.
struct Cut {
    me: String,
    those: String,
    ports: String,
    how: String,
    since: String,
    heard: String,
    etcd: String,
    two: &'static str,
}

impl Cut {
    fn new(sight: &Sight<'_>, kinds: &[Kind]) -> Self {
        let reaches = of(sight, kinds);
        let heard = match reaches.len() {
            _ if !reaches.iter().all(|reach| reach.inbound == Inbound::Silent) => String::new(),
            0 | 1 => format!(", and it holds no live connection to {}", sight.node),
            2 => format!(", and neither holds a live connection to {}", sight.node),
            _ => format!(", and none holds a live connection to {}", sight.node),
        };
        let two = sight.voters() == Some(2);
        Self {
            me: sight.me(),
            those: peers(sight, kinds),
            ports: ports(&reaches),
            how: shows(&reaches, out),
            since: since(&reaches),
            heard,
            etcd: etcd_here(sight),
            two: if two { " A cluster of two members cannot lose one: without the other there is no quorum." } else { "" },
        }
    }
}

/// This node alone is cut off, by what the others shared.
pub(super) fn isolated(sight: &Sight<'_>) -> String {
    let reaches = of(sight, &[Kind::Cut, Kind::HostDown]);
    let Cut { me, those, ports, how, since, etcd, .. } = Cut::new(sight, &[Kind::Cut, Kind::HostDown]);
    let none = if reaches.len() == 2 { "neither" } else { "none of them" };
    let (node, port) = (&sight.node, reaches.first().map_or(2380, |reach| reach.peer.member.peer_port));
    format!(
        "{those} reach each other on {port}; {me} can reach {none} and {none} can reach {node}, {how}{since}: {node} is cut off at the network; {etcd}. Nothing to heal here; \
         ask the network team about TCP {ports} to and from {me}."
    )
}

/// Nobody can be reached.
pub(super) fn all_unreachable(sight: &Sight<'_>) -> String {
    let Cut { me, those, ports, how, since, heard, etcd, two } = Cut::new(sight, &[Kind::Cut, Kind::HostDown]);
    let nsx = if dropped_all_ways(sight) {
        " (with NSX: whether a firewall group lost its subnets in an upgrade from 4.1 to 4.2)"
    } else {
        ""
    };
    let which = if sight.reaches.len() > 1 {
        "Either this node is cut off or all are cut off from each other: run `fip-watchdog diagnose` on another one to tell."
    } else {
        "Run `fip-watchdog diagnose` there too."
    };
    format!(
        "As seen from {me}, {those} cannot be reached on {ports}, {how}{since}{heard}; {etcd}. {which}{two} Nothing to heal here; ask the network team about TCP {ports} between \
         these addresses, both ways{nsx}."
    )
}

/// Both ports of all are dropped or rejected, nothing comes in, and our own etcd is well.
fn dropped_all_ways(sight: &Sight<'_>) -> bool {
    let dropped =
        |connect: Option<&Connect>| connect.is_none_or(|connect| matches!(connect, Connect::TimedOut | Connect::Rejected));
    let both_ways = |reach: &Reach<'_>| dropped(reach.out()) && dropped(reach.client()) && reach.inbound != Inbound::Alive;
    matches!(sight.etcd, Etcd::Answers | Etcd::Waits) && sight.reaches.iter().all(both_ways)
}

/// Some can, some cannot.
pub(super) fn some_unreachable(sight: &Sight<'_>) -> String {
    let kinds = [Kind::Cut, Kind::HostDown];
    let Cut { me, those, ports, how, since, heard, etcd, two } = Cut::new(sight, &kinds);
    let rest = of(sight, &[Kind::Fine, Kind::InFails, Kind::ClientPort]);
    let well = if rest.is_empty() {
        String::new()
    } else {
        format!(", while {} can be", names(sight, &[Kind::Fine, Kind::InFails, Kind::ClientPort]))
    };
    let views = third_party(sight, &of(sight, &kinds));
    format!(
        "As seen from {me}, {those} cannot be reached on {ports}, {how}{since}{heard}{views}{well}; {etcd}.{two} Nothing to heal here; ask the network team about TCP {ports} between \
         {me} and {those}, both ways."
    )
}

/// Nobody has the address.
pub(super) fn host_down(sight: &Sight<'_>) -> String {
    let Cut { me, those, since, etcd, two, .. } = Cut::new(sight, &[Kind::HostDown]);
    format!(
        "As seen from {me}, nobody answers ARP for {those}{since}: the virtual machine is off, or cut off from this segment; {etcd}.{two} Nothing to heal here; look whether that \
         machine runs and is connected, then ask the network team."
    )
}

/// What other peers share of the one that we do not reach. That it was reached may be from before the fault, so it is told with its age.
fn third_party(sight: &Sight<'_>, cut: &[&Reach<'_>]) -> String {
    let addresses: Vec<_> = cut.iter().filter_map(|reach| reach.peer.member.address).collect();
    let of_cut = sight.views().flat_map(|(reach, view)| {
        view.peer_ports.iter().filter(|(address, _)| addresses.contains(address)).map(move |(_, seen)| (reach, view, seen))
    });
    let mut said: Vec<String> = of_cut
        .map(|(reach, view, seen)| {
            let node = words::name(&reach.peer.member.name, reach.peer.member.address);
            if *seen == Connect::Open {
                format!("{node} reached it {} ago", words::ms(view.age_ms))
            } else {
                format!("{node} cannot reach it either")
            }
        })
        .collect();
    said.dedup();
    if said.is_empty() { String::new() } else { format!(" ({}, by what was shared)", words::list(&said)) }
}

/// We do not reach them, they reach us.
pub(super) fn outbound(sight: &Sight<'_>) -> String {
    let kinds = [Kind::OutFails];
    let reaches = of(sight, &kinds);
    let Cut { me, those, ports, how, since, etcd, .. } = Cut::new(sight, &kinds);
    let own_port = sight.own.map_or(2380, |own| own.peer_port);
    let inward = if reaches.iter().any(|reach| reach.inbound == Inbound::HalfOpen) {
        format!("SYNs from there arrive here on {own_port} and our answers do not arrive there")
    } else {
        let hold = if reaches.len() > 1 { "hold" } else { "holds" };
        format!("{} {hold} live connections to {}'s {own_port}", names(sight, &kinds), sight.node)
    };
    format!(
        "One way only: as seen from {me}, calls to {those} on {ports} fail, {how}{since}, while {inward}: what {} sends to there is blocked, the other way passes; {etcd}. Nothing \
         to heal here; ask the network team about TCP {ports} from {me} to {those}.",
        sight.node
    )
}

/// We reach them, they do not reach us.
pub(super) fn inbound(sight: &Sight<'_>) -> String {
    let kinds = [Kind::InFails];
    let reaches = of(sight, &kinds);
    let Cut { me, those, since, etcd, .. } = Cut::new(sight, &kinds);
    let port = reaches.first().map_or(2380, |reach| reach.peer.member.peer_port);
    let own_port = sight.own.map_or(2380, |own| own.peer_port);
    let half_open = reaches.iter().any(|reach| reach.inbound == Inbound::HalfOpen);
    let told = reaches.iter().all(|reach| reach.peer.inbound.yes().is_none());
    let inward = if told {
        "no call from there arrives, as was shared from there"
    } else if half_open {
        "their SYNs arrive and our answers do not arrive there"
    } else {
        "no live connection from there is to be seen"
    };
    format!(
        "One way only: {me} reaches {those} on {port}, but on its own {own_port} {inward}{since}: calls from {} to {} are blocked; {etcd}. Nothing to heal here; ask the network \
         team about TCP {own_port} from {those} to {me}.",
        names(sight, &kinds),
        sight.node,
    )
}

/// 2380 alone.
pub(super) fn peer_port(sight: &Sight<'_>) -> String {
    let reaches = of(sight, &[Kind::PeerPort]);
    let Cut { me, those, how, since, etcd, .. } = Cut::new(sight, &[Kind::PeerPort]);
    let (raft, client) = port_numbers(&reaches);
    let silent = reaches.iter().all(|reach| reach.inbound == Inbound::Silent);
    let both = if silent { ", and no live connection comes from there either" } else { "" };
    format!(
        "As seen from {me}, {those} cannot be reached on {raft} (between members), {how}{since}{both}, while {client} (for clients) opens: only port {raft} is blocked, so a test \
         of {client} alone would mislead; {etcd}. Nothing to heal here; ask the network team about TCP {raft} between these addresses."
    )
}

/// 2379 alone.
pub(super) fn client_port(sight: &Sight<'_>) -> String {
    let reaches = of(sight, &[Kind::ClientPort]);
    let Cut { me, those, etcd, .. } = Cut::new(sight, &[Kind::ClientPort]);
    let (raft, client) = port_numbers(&reaches);
    let how = shows(&reaches, |reach| reach.client().cloned());
    format!(
        "As seen from {me}, {those} cannot be reached on {client} (for clients), {how}, while {raft} (between members) opens: only port {client} is blocked, which etcd itself does \
         not need between members; {etcd}. Nothing to heal here; ask the network team about TCP {client} between these addresses."
    )
}

fn port_numbers(reaches: &[&Reach<'_>]) -> (u16, u16) {
    reaches.first().map_or((2380, 2379), |reach| (reach.peer.member.peer_port, reach.peer.member.client_port))
}

/// A peer's etcd is not there.
pub(super) fn etcd_down(sight: &Sight<'_>) -> String {
    let Cut { me, those, since, etcd, two, .. } = Cut::new(sight, &[Kind::Down]);
    let reaches = of(sight, &[Kind::Down]);
    let (refuse, its) = if reaches.len() > 1 { ("refuse", "their") } else { ("refuses", "its") };
    let (raft, _) = port_numbers(&reaches);
    format!(
        "As seen from {me}, {those} {refuse} at once on {raft}{since}: the host is there and {its} etcd is not (or a filter answers with a reset); {etcd}.{two} Go on there: \
         `fip-watchdog diagnose`, `crictl ps -a --name etcd`."
    )
}

/// A peer's etcd does not answer.
pub(super) fn etcd_hung(sight: &Sight<'_>) -> String {
    let Cut { me, those, etcd, two, .. } = Cut::new(sight, &[Kind::Hung]);
    let reaches = of(sight, &[Kind::Hung]);
    let (accept, answer, its) = if reaches.len() > 1 { ("accept", "answer", "their") } else { ("accepts", "answers", "its") };
    let (raft, _) = port_numbers(&reaches);
    format!(
        "As seen from {me}, {those} {accept} connections on {raft} and then {answer} nothing: {its} etcd, or {its} disk, hangs; {etcd}.{two} Go on there: `fip-watchdog diagnose`, \
         `crictl ps -a --name etcd`."
    )
}

/// Large packets alone are lost.
pub(super) fn black_hole(sight: &Sight<'_>) -> String {
    let mtu = network::own_interface(sight)
        .map(|own| format!(" ({} has an MTU of {})", words::quote(&own.name), own.mtu))
        .unwrap_or_default();
    format!(
        "Large packets between {}{mtu} and {} are lost while small ones pass: the connection opens, a large exchange or the handshake stalls; a link on the way has a smaller MTU and \
         does not say so; {}. Nothing to heal here; ask the network team about the MTU on the way (overlay, VLAN, jumbo frames).",
        sight.me(),
        peers(sight, &[Kind::Large]),
        etcd_here(sight),
    )
}
