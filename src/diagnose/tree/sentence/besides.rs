//! What is said beside the sentence: peers with another fault than the one that it is about.

use crate::diagnose::diagnosis::Cause;
use crate::diagnose::tree::reach::Kind;
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
