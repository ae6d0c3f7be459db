//! What is said beside the sentence: peers with another fault than the one that it is about, and links between two others, of which only
//! they can tell.

use crate::diagnose::diagnosis::Cause;
use crate::diagnose::evidence::Connect;
use crate::diagnose::tree::reach::{Kind, Reach};
use crate::diagnose::tree::sight::Sight;
use crate::diagnose::tree::words;

/// Which peers a sentence is about.
const TOLD: [(Cause, &[Kind]); 11] = [
    (Cause::PeersUnreachable, &[Kind::Cut, Kind::HostDown]),
    (Cause::NodeIsolated, &[Kind::Cut, Kind::HostDown]),
    (Cause::PeerUnreachable, &[Kind::Cut, Kind::HostDown]),
    (Cause::PeerHostDown, &[Kind::HostDown]),
    (Cause::OutboundBlocked, &[Kind::OutFails]),
    (Cause::InboundBlocked, &[Kind::InFails]),
    (Cause::PeerPortBlocked, &[Kind::PeerPort]),
    (Cause::ClientPortBlocked, &[Kind::ClientPort]),
    (Cause::PeerEtcdDown, &[Kind::Down]),
    (Cause::PeerEtcdHung, &[Kind::Hung]),
    (Cause::MtuBlackHole, &[Kind::Large]),
];

/// Peers with another fault than the one that the sentence is about.
pub(super) fn peers(cause: Cause, sight: &Sight<'_>) -> String {
    let Some((_, told)) = TOLD.iter().find(|(of, _)| *of == cause) else { return String::new() };
    let words = [
        (Kind::Cut, "cannot be reached"),
        (Kind::OutFails, "cannot be called from here"),
        (Kind::PeerPort, "cannot be reached on its peer port"),
        (Kind::HostDown, "answers no ARP"),
        (Kind::Down, "refuses: its etcd is down"),
        (Kind::Large, "loses large packets"),
        (Kind::Hung, "accepts connections and answers nothing"),
        (Kind::Tls, "fails in TLS"),
        (Kind::InFails, "does not reach this node"),
        (Kind::ClientPort, "cannot be reached on its client port"),
    ];
    let others = sight.reaches.iter().filter(|reach| !told.contains(&reach.kind));
    let others = others.filter_map(|reach| {
        let (_, what) = words.iter().find(|(kind, _)| *kind == reach.kind)?;
        Some(format!("{} {what}", words::who(&reach.peer.member.name, reach.peer.member.address)))
    });
    let others: Vec<String> = others.collect();
    if others.is_empty() { String::new() } else { format!(" Besides, {}.", words::list(&others)) }
}

/// Links between two peers, both of which this node reaches, that do not work by what they shared.
pub(super) fn between_peers(sight: &Sight<'_>) -> String {
    let said: Vec<String> = sight.views().flat_map(|(from, _)| broken_from(sight, from)).collect();
    if said.is_empty() {
        return String::new();
    }
    format!(" By what was shared, {}: run `fip-watchdog diagnose` there.", words::list(&said))
}

/// What one peer shared of its calls to the others, and what those shared of theirs to it. A link that fails both ways is told once.
fn broken_from(sight: &Sight<'_>, from: &Reach<'_>) -> Vec<String> {
    let failing =
        sight.reaches.iter().filter_map(|to| Some((to, call(sight, from, to).filter(|(call, _)| **call != Connect::Open)?)));
    let said = failing.filter(|(to, _)| reached(from) && reached(to)).filter_map(|(to, (how, age_ms))| {
        let [a, b] = [from, to].map(|reach| words::name(&reach.peer.member.name, reach.peer.member.address));
        let back = call(sight, to, from).map(|(back, _)| back);
        let told_there = back.is_some_and(|back| *back != Connect::Open) && to.peer.member.id < from.peer.member.id;
        let (port, how, ago) = (to.peer.member.peer_port, words::shows(how), words::ms(age_ms));
        let text = match back {
            None => format!("{a} could not reach {b} on {port} {ago} ago ({how})"),
            Some(Connect::Open) => format!("{a} could not reach {b} on {port} {ago} ago ({how}), while {b} reached {a}"),
            Some(_) => format!("{a} and {b} could not reach each other on {port} {ago} ago ({how})"),
        };
        (!told_there).then_some(text)
    });
    said.collect()
}

/// How a peer's call to another ended, and how long ago.
fn call<'a>(sight: &Sight<'a>, from: &Reach<'a>, to: &Reach<'a>) -> Option<(&'a Connect, u64)> {
    let (_, view) = sight.views().find(|(of, _)| of.peer.member.id == from.peer.member.id)?;
    let (_, seen) = view.peer_ports.iter().find(|(address, _)| to.peer.member.address == Some(*address))?;
    Some((seen, view.age_ms))
}

/// Of one that this node does not reach either, the sentence tells; one that is down is no fault of a link.
fn reached(reach: &Reach<'_>) -> bool {
    matches!(reach.kind, Kind::Fine | Kind::InFails | Kind::ClientPort)
}
