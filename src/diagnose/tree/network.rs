//! Predicates of the table about links between members.

use std::net::IpAddr;

use super::reach::{Inbound, Kind, Reach};
use super::sight::Sight;
use crate::diagnose::diagnosis::Link;
use crate::diagnose::evidence::{Connect, FilterRule, Interface, LogClass};

/// Some peer is of this kind.
pub(super) fn any(sight: &Sight<'_>, kind: Kind) -> bool {
    sight.reaches.iter().any(|reach| reach.kind == kind)
}

/// Nothing passes to any peer, and nothing is known to come from one.
pub(super) fn all_cut(sight: &Sight<'_>) -> bool {
    let cut = |reach: &Reach<'_>| matches!(reach.kind, Kind::Cut | Kind::HostDown);
    !sight.reaches.is_empty() && sight.reaches.iter().all(cut)
}

/// Some peer cannot be called, or does not call.
pub(super) fn any_unreachable(sight: &Sight<'_>) -> bool {
    use Kind::{Cut, HostDown, InFails, OutFails, PeerPort};
    sight.reaches.iter().any(|reach| matches!(reach.kind, Cut | OutFails | PeerPort | HostDown | InFails))
}

/// The interface that carries the members' traffic is down, or there is no route to any peer.
pub(super) fn link_down(sight: &Sight<'_>) -> bool {
    let tried: Vec<_> = sight.reaches.iter().filter_map(Reach::out).collect();
    let no_route = !tried.is_empty() && tried.iter().all(|connect| **connect == Connect::NoRoute);
    let interfaces = sight.evidence.interfaces.yes().into_iter().flatten();
    let mut others = interfaces.filter(|interface| interface.name != "lo").peekable();
    match own_interface(sight) {
        Some(own) => no_route || !own.running,
        // An address that is gone takes its route with it; some network services take the address away when the carrier is lost.
        None if sight.address_gone().is_some() => others.peek().is_some() && others.all(|interface| !interface.running),
        None => no_route,
    }
}

/// The interface with this node's address among the members.
pub(super) fn own_interface<'a>(sight: &Sight<'a>) -> Option<&'a Interface> {
    let address = sight.address().filter(|address| !address.is_loopback())?;
    sight.evidence.interfaces.yes()?.iter().find(|interface| interface.addresses.iter().any(|(held, _)| *held == address))
}

/// Names in peer URLs that do not resolve.
pub(super) fn unresolved(sight: &Sight<'_>) -> Option<Vec<String>> {
    let names = sight.evidence.members.yes().map(|members| members.unresolved.clone()).unwrap_or_default();
    if !names.is_empty() {
        return Some(names);
    }
    let failing = sight.reaches.iter().any(|reach| reach.kind != Kind::Fine);
    sight.recent(LogClass::PeerUnresolved).filter(|_| failing).map(|line| vec![line.example.clone()])
}

/// Two interfaces with addresses in one subnet, in which a peer is too.
pub(super) fn two_interfaces<'a>(sight: &Sight<'a>) -> Option<(&'a Interface, &'a Interface)> {
    let interfaces = sight.evidence.interfaces.yes()?;
    let peers: Vec<IpAddr> = sight.reaches.iter().filter_map(|reach| reach.peer.member.address).collect();
    let holds =
        |interface: &&Interface, peer: IpAddr| interface.addresses.iter().any(|(held, prefix)| in_subnet(*held, *prefix, peer));
    peers.iter().find_map(|peer| {
        let mut found = interfaces.iter().filter(|interface| interface.name != "lo").filter(|interface| holds(interface, *peer));
        Some((found.next()?, found.next()?))
    })
}

/// A host address (/32, /128) is in no subnet with others.
fn in_subnet(held: IpAddr, prefix: u8, other: IpAddr) -> bool {
    match (held, other) {
        (IpAddr::V4(held), IpAddr::V4(other)) => {
            (1..32).contains(&prefix) && (held.to_bits() ^ other.to_bits()).checked_shr(32 - u32::from(prefix)) == Some(0)
        }
        (IpAddr::V6(held), IpAddr::V6(other)) => {
            (1..128).contains(&prefix) && (held.to_bits() ^ other.to_bits()).checked_shr(128 - u32::from(prefix)) == Some(0)
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// A rule of this node's own filter that explains what fails: it stops packets of etcd (or it would not be in the evidence), in a direction
/// that fails, and has counted some.
pub(super) fn filter<'a>(sight: &Sight<'a>) -> Option<&'a FilterRule> {
    use Kind::{ClientPort, Cut, InFails, OutFails, PeerPort};
    let out = sight.reaches.iter().any(|reach| matches!(reach.kind, Cut | OutFails | PeerPort | ClientPort));
    let silent = |reach: &Reach<'_>| reach.inbound == Inbound::Silent && matches!(reach.kind, Cut | PeerPort | InFails);
    let inward = sight.reaches.iter().any(silent);
    let explains = |rule: &&FilterRule| rule.packets != Some(0) && ((out && stops_output(rule)) || (inward && stops_input(rule)));
    sight.evidence.filters.yes()?.iter().find(explains)
}

/// It stops what goes out: its chain, or the direction beside it, says so.
fn stops_output(rule: &FilterRule) -> bool {
    rule.place.to_ascii_lowercase().contains("output")
}

/// It stops what comes in.
pub(super) fn stops_input(rule: &FilterRule) -> bool {
    rule.place.to_ascii_lowercase().contains("input")
}

/// The directions that do not work.
pub(super) fn links(sight: &Sight<'_>) -> Vec<Link> {
    sight.reaches.iter().flat_map(|reach| links_of(sight, reach)).collect()
}

fn links_of(sight: &Sight<'_>, reach: &Reach<'_>) -> Vec<Link> {
    let member = &reach.peer.member;
    let there = super::words::name(&member.name, member.address);
    let from_here = |port: u16, shows: Option<Connect>| Link {
        from: sight.node.clone(),
        to: there.clone(),
        address: member.address,
        port,
        shows,
    };
    let own_port = sight.own.map_or(2380, |own| own.peer_port);
    let mut links = Vec::new();
    let failed = |connect: Option<&Connect>| connect.filter(|connect| **connect != Connect::Open).cloned();
    if let Some(connect) = failed(reach.out()) {
        links.push(from_here(member.peer_port, Some(connect)));
    } else if matches!(reach.kind, Kind::Large | Kind::Hung) {
        links.push(from_here(member.peer_port, reach.out().cloned()));
    }
    if let Some(connect) = failed(reach.client()) {
        links.push(from_here(member.client_port, Some(connect)));
    }
    let silent = matches!(reach.inbound, Inbound::Silent | Inbound::HalfOpen);
    if silent && !matches!(reach.kind, Kind::Fine | Kind::Unseen | Kind::Down | Kind::Hung | Kind::Tls | Kind::HostDown) {
        links.push(Link { from: there.clone(), to: sight.node.clone(), address: sight.address(), port: own_port, shows: None });
    }
    links
}
