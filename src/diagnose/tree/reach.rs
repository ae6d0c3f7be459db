//! One peer as seen from here: whether we reach it, whether it reaches us, and how that shows.
//!
//! Invariant: a connection that may have outlived its link is not taken for a live one. etcd closes a silent stream after 5 s, so for some
//! seconds after a drop begins the kernel still lists it as established; what tells is when something last came in.

use crate::diagnose::evidence::{Connect, Peer, Port, Sockets, Tls};

/// A connection on which nothing came in for longer than this is not live, in milliseconds. etcd writes on a stream at least every third of
/// its read time-out of 5 s (rafthttp's `ConnReadTimeout`), and the other end acknowledges.
pub(in crate::diagnose) const HEARD_MS_MAX: u64 = 2_500;

/// For how long our own calls must have failed before a connection without a stamp counts as live, in milliseconds: etcd closes a silent one
/// after 5 s, so it would be gone.
const OUTLIVED_MS: u64 = 10_000;

/// Above this a shared view is from another time, in milliseconds.
pub(super) const VIEW_MS_MAX: u64 = 15_000;

/// More unacknowledged bytes than one segment of a small MTU: what does not pass is large.
const LARGE_BYTES: u64 = 1_000;

/// Whether a peer reaches our peer port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inbound {
    /// It holds a live connection, or says so itself.
    Alive,
    /// Connections are listed, and whether they live cannot be told.
    Doubtful,
    /// None is live.
    Silent,
    /// Its SYNs arrive here, and our answers do not arrive there.
    HalfOpen,
    /// It could not be seen.
    Unseen,
}

/// What a peer's ports and connections come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// All that was seen of it works.
    Fine,
    /// Nothing was seen of its peer port.
    Unseen,
    /// Nothing passes from here, and nothing is known to come.
    Cut,
    /// It reaches us, we do not reach it.
    OutFails,
    /// Its peer port does not pass, its client port does.
    PeerPort,
    /// Nobody has its address.
    HostDown,
    /// Its host refuses: nothing listens.
    Down,
    /// It accepts, and small packets pass, and large ones do not.
    Large,
    /// It accepts, and answers nothing.
    Hung,
    /// TLS fails.
    Tls,
    /// We reach it, it does not reach us.
    InFails,
    /// Only its client port does not pass.
    ClientPort,
}

/// A peer, judged.
#[derive(Debug)]
pub(super) struct Reach<'a> {
    /// The evidence.
    pub peer: &'a Peer,
    /// Whether it reaches us.
    pub inbound: Inbound,
    /// What that comes to.
    pub kind: Kind,
    /// For how long etcd's log has said so, in milliseconds.
    pub since_ms: Option<u64>,
}

impl<'a> Reach<'a> {
    /// Judges one peer. `listens` is whether etcd listens on our own peer port, and has for long enough to be called; `said` is what the
    /// peer's own watchdog lately said of its call to us; `since_ms` for how long etcd's log has said that it does not answer.
    pub(super) fn new(peer: &'a Peer, listens: bool, said: Option<&Connect>, since_ms: Option<u64>) -> Self {
        let inbound = if listens { inbound(peer, said, since_ms) } else { Inbound::Unseen };
        Self { peer, inbound, kind: kind(peer, inbound), since_ms }
    }

    /// How connecting to its peer port ended.
    pub(super) fn out(&self) -> Option<&'a Connect> {
        self.peer.peer_port.yes().map(|port| &port.connect)
    }

    /// How connecting to its client port ended.
    pub(super) fn client(&self) -> Option<&'a Connect> {
        self.peer.client_port.yes().map(|port| &port.connect)
    }

    /// The first failure of TLS on one of its ports.
    pub(super) fn tls(&self) -> Option<&'a str> {
        tls(self.peer)
    }

    /// The clock there against ours.
    pub(super) fn clock_offset_ms(&self) -> Option<i64> {
        ports(self.peer).find_map(|port| port.clock_offset_ms)
    }
}

fn ports(peer: &Peer) -> impl Iterator<Item = &Port> {
    [peer.peer_port.yes(), peer.client_port.yes()].into_iter().flatten()
}

fn tls(peer: &Peer) -> Option<&str> {
    ports(peer).find_map(|port| match port.tls.as_ref()? {
        Tls::Untrusted(text) | Tls::RefusedOurs(text) | Tls::Failed(text) => Some(text.as_str()),
        Tls::Answered | Tls::TimedOut => None,
    })
}

fn inbound(peer: &Peer, said: Option<&Connect>, since_ms: Option<u64>) -> Inbound {
    let by_view = match said {
        Some(Connect::Open) => Inbound::Alive,
        Some(_) => Inbound::Silent,
        None => Inbound::Unseen,
    };
    let Some(sockets) = peer.inbound.yes() else { return by_view };
    if sockets.established > sockets.retransmitting {
        return lives(sockets, peer, by_view, since_ms);
    }
    if sockets.syn_received > 0 { Inbound::HalfOpen } else { Inbound::Silent }
}

/// Whether what the kernel lists as established is.
fn lives(sockets: &Sockets, peer: &Peer, by_view: Inbound, since_ms: Option<u64>) -> Inbound {
    match sockets.heard_ms {
        Some(heard) if heard <= HEARD_MS_MAX => return Inbound::Alive,
        Some(_) => return Inbound::Silent,
        None => {}
    }
    let we_reach_it = peer.peer_port.yes().is_some_and(|port| port.connect == Connect::Open);
    let outlived = since_ms.is_some_and(|since| since >= OUTLIVED_MS);
    if we_reach_it || outlived || peer.received_bytes.is_some_and(|bytes| bytes > 0) || by_view == Inbound::Alive {
        Inbound::Alive
    } else {
        Inbound::Doubtful
    }
}

fn kind(peer: &Peer, inbound: Inbound) -> Kind {
    let Some(port) = peer.peer_port.yes() else {
        return if peer.client_port.yes().is_some_and(|port| port.connect != Connect::Open) { Kind::Cut } else { Kind::Unseen };
    };
    let client = peer.client_port.yes().map(|port| &port.connect);
    let client_opens = client == Some(&Connect::Open);
    match port.connect {
        Connect::Open => kind_of_open(peer, inbound, client),
        // A filter that answers with a reset looks like a host on which nothing listens, but that the rest of it is alive.
        Connect::Refused if client_opens => Kind::PeerPort,
        Connect::Refused if inbound == Inbound::Alive => Kind::OutFails,
        Connect::Refused => Kind::Down,
        Connect::NoHost => Kind::HostDown,
        Connect::TimedOut | Connect::Rejected | Connect::NoRoute | Connect::Other(_) => match inbound {
            Inbound::Alive | Inbound::HalfOpen => Kind::OutFails,
            Inbound::Doubtful | Inbound::Silent | Inbound::Unseen if client_opens => Kind::PeerPort,
            Inbound::Doubtful | Inbound::Silent | Inbound::Unseen => Kind::Cut,
        },
    }
}

fn kind_of_open(peer: &Peer, inbound: Inbound, client: Option<&Connect>) -> Kind {
    let stalled = ports(peer).any(|port| port.large_passes == Some(false));
    let hangs = peer.peer_port.yes().is_some_and(|port| port.tls == Some(Tls::TimedOut));
    let works = peer.received_bytes.is_some_and(|bytes| bytes > 0);
    let backlog =
        peer.outbound.yes().is_some_and(|sockets| sockets.retransmitting > 0 && sockets.unacknowledged_bytes > LARGE_BYTES);
    // A process that hangs sends nothing; one that works and does not finish a handshake loses what is large in it: its certificate.
    if stalled || (hangs && (backlog || works)) {
        Kind::Large
    } else if hangs {
        Kind::Hung
    } else if tls(peer).is_some() {
        Kind::Tls
    } else if matches!(inbound, Inbound::Silent | Inbound::HalfOpen) {
        Kind::InFails
    } else if client.is_some_and(|client| *client != Connect::Open) {
        Kind::ClientPort
    } else {
        Kind::Fine
    }
}
