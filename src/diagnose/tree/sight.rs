//! What follows from the evidence, once, for the table, the checks and the sentence alike, so that they cannot disagree.

use std::net::IpAddr;

use super::reach::{Kind, Reach, VIEW_MS_MAX};
use super::words;
use crate::diagnose::evidence::{
    Connect, Container, ContainerState, Evidence, LogClass, LogLine, Member, MemberId, Peer, PeerView, Port, Seen, StatusAnswer,
    Tls,
};

/// A line of etcd's log that is older than this says nothing of now, in milliseconds. etcd repeats what goes on within 30 s.
const FRESH_MS: u64 = 60_000;

/// A shared view that says that its node does not reach us was made in this fault, if it is not older than this, in milliseconds.
const SAME_FAULT_MS: u64 = 300_000;

/// A peer needs this long to call an etcd that has just started, in milliseconds.
const SETTLED_MS: u64 = 10_000;

/// Starts of etcd in its log that make a crash loop. The kubelet waits longer each time, so they are minutes apart.
const STARTS: u32 = 3;

/// How the local etcd takes questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Etcd<'a> {
    /// It answers.
    Answers,
    /// Nothing listens.
    Refuses,
    /// It takes the connection and says nothing, or does not even take it.
    Silent,
    /// It serves its peers, and no client yet: after a start etcd waits until a quorum has heard of it (`EtcdServer.ReadyNotify`).
    Waits,
    /// It and this watchdog do not agree on TLS.
    Tls(&'a str),
    /// It failed in another way.
    Fails(&'a str),
    /// It could not be asked.
    Unseen,
}

/// Whether a quorum stands behind the local member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quorum {
    Yes,
    No,
    Unseen,
}

/// The evidence, and what follows from it.
#[derive(Debug)]
pub(super) struct Sight<'a> {
    pub evidence: &'a Evidence,
    /// This node, as a sentence names it.
    pub node: String,
    /// This node's member, where the list has it.
    pub own: Option<&'a Member>,
    pub etcd: Etcd<'a>,
    pub quorum: Quorum,
    pub reaches: Vec<Reach<'a>>,
}

impl<'a> Sight<'a> {
    pub(super) fn new(evidence: &'a Evidence) -> Self {
        let own = own(evidence);
        let etcd = etcd(evidence);
        let listens = etcd == Etcd::Answers || evidence.own_peer_port.yes().is_some_and(|port| port.connect == Connect::Open);
        let young = evidence.container.yes().and_then(|container| container.age_ms).is_some_and(|age| age < SETTLED_MS);
        let address = own.and_then(|own| own.address);
        let reach = |peer: &'a Peer| {
            let since_ms = since(evidence, peer.member.id);
            let said = peer.view.as_ref().filter(|view| is_of_now(view, peer, since_ms)).and_then(|view| seen_by(view, address));
            Reach::new(peer, listens && !young, said, since_ms)
        };
        let mut reaches: Vec<Reach<'a>> = evidence.peers.iter().map(reach).collect();
        all_hang(&mut reaches, etcd);
        Self {
            evidence,
            node: words::name(
                own.map_or(&evidence.node, |own| if evidence.node.is_empty() { &own.name } else { &evidence.node }),
                address,
            ),
            own,
            etcd,
            quorum: quorum(evidence),
            reaches,
        }
    }

    /// This node's address among the members.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.own.and_then(|own| own.address)
    }

    /// This node with its address.
    pub(super) fn me(&self) -> String {
        words::who(&self.node, self.address())
    }

    pub(super) fn container(&self) -> Option<&'a Container> {
        self.evidence.container.yes()
    }

    /// etcd does not serve: it refuses, or it ended.
    pub(super) fn down(&self) -> bool {
        match self.etcd {
            Etcd::Answers | Etcd::Waits | Etcd::Tls(_) | Etcd::Silent => false,
            Etcd::Refuses => true,
            Etcd::Fails(_) | Etcd::Unseen if self.listens() => false,
            Etcd::Fails(_) | Etcd::Unseen => self.container().is_some_and(|container| container.state != ContainerState::Running),
        }
    }

    /// Its client port opens, or it shows its metrics: whatever a runtime lists, it is there.
    fn listens(&self) -> bool {
        let opens = self.evidence.own_client_port.yes().is_some_and(|port| port.connect == Connect::Open);
        opens || self.evidence.metrics.yes().is_some()
    }

    /// It starts and ends again and again.
    pub(super) fn crash_loops(&self) -> bool {
        let by_container = self.container().is_some_and(|container| {
            container.state == ContainerState::CrashLooping || (container.restarted_while_looking && self.etcd != Etcd::Answers)
        });
        by_container || (self.down() && self.recent(LogClass::Start).is_some_and(|line| line.count >= STARTS))
    }

    /// It is stopped by a signal, or its cgroup is frozen.
    pub(super) fn frozen(&self) -> bool {
        self.etcd != Etcd::Answers
            && self.container().is_some_and(|container| container.frozen || matches!(container.process_state, Some('T' | 't')))
    }

    /// Packets to its own client port are lost while its peer port answers: a filter on this node, for a stopped process still accepts.
    pub(super) fn own_client_filtered(&self) -> bool {
        let answers = self.evidence.own_peer_port.yes().is_some_and(|port| port.tls == Some(Tls::Answered));
        let lost = self.evidence.own_client_port.yes().is_some_and(|port| port.connect == Connect::TimedOut);
        self.etcd == Etcd::Silent && answers && lost
    }

    /// Its disk does not come back. Status is answered from memory: a member that waits for its log answers it, and has no quorum.
    pub(super) fn disk_hangs(&self) -> bool {
        let waits = self.container().is_some_and(|container| container.process_state == Some('D'));
        self.evidence.host.yes().is_some_and(|host| host.etcd_disk_hangs)
            || (waits && (self.etcd == Etcd::Silent || self.quorum == Quorum::No))
    }

    /// A line of a class that is not older than a minute, or has no stamp.
    pub(super) fn recent(&self, class: LogClass) -> Option<&'a LogLine> {
        self.lines(class).find(|line| is_recent(line))
    }

    /// All lines of a class.
    pub(super) fn lines(&self, class: LogClass) -> impl Iterator<Item = &'a LogLine> {
        self.evidence.log.yes().into_iter().flat_map(|log| &log.lines).filter(move |line| line.class == class)
    }

    /// A line by which etcd said why it ended, however old: it has said nothing since.
    pub(super) fn last_words(&self, class: LogClass) -> Option<&'a LogLine> {
        if self.down() || self.crash_loops() { self.lines(class).next() } else { None }
    }

    /// This node's address among the members is on none of its interfaces.
    pub(super) fn address_gone(&self) -> Option<IpAddr> {
        let address = self.address().filter(|address| !address.is_loopback() && !address.is_unspecified())?;
        let interfaces = self.evidence.interfaces.yes()?;
        let mut held = interfaces.iter().flat_map(|interface| &interface.addresses).peekable();
        held.peek()?;
        held.all(|(held, _)| *held != address).then_some(address)
    }

    /// Peers whose watchdog shared its sight, and what it says of another peer and of us: they reach each other, and not us.
    pub(super) fn others_reach_each_other(&self) -> bool {
        let Some(own) = self.address() else { return false };
        let views = self.evidence.peers.iter().filter_map(|peer| peer.view.as_ref());
        views.into_iter().any(|view| {
            let us = seen_by(view, Some(own)).filter(|_| view.age_ms <= SAME_FAULT_MS);
            let others = view.peer_ports.iter().filter(|(address, _)| *address != own);
            us.is_some_and(|us| *us != Connect::Open) && others.into_iter().any(|(_, connect)| *connect == Connect::Open)
        })
    }

    /// Peers with shared views that are young enough to stand beside what is seen now.
    pub(super) fn views(&self) -> impl Iterator<Item = (&Reach<'a>, &'a PeerView)> {
        let young = |reach: &'_ Reach<'a>| reach.peer.view.as_ref().filter(|view| view.age_ms <= VIEW_MS_MAX);
        self.reaches.iter().filter_map(move |reach| Some((reach, young(reach)?)))
    }

    /// How far this node's own clock is from the others': all peers' clocks are apart from it to the same side, by at least
    /// so much. Positive when it is behind.
    pub(super) fn own_clock_offset_ms(&self) -> Option<i64> {
        let mut offsets: Vec<i64> = self.reaches.iter().filter_map(Reach::clock_offset_ms).collect();
        offsets.sort_unstable();
        // One peer alone does not tell whose clock is at fault.
        if offsets.len() < 2 {
            return None;
        }
        let (first, last) = (offsets.first()?, offsets.last()?);
        let nearest = if *first > 0 { *first } else { *last };
        ((*first > 0) == (*last > 0)).then_some(nearest)
    }

    /// Members with a vote.
    pub(super) fn voters(&self) -> Option<usize> {
        self.evidence.members.yes().map(|members| members.list.iter().filter(|member| !member.learner).count())
    }
}

/// It is not older than a minute, or has no stamp.
pub(super) fn is_recent(line: &LogLine) -> bool {
    line.newest_age_ms.is_none_or(|age| age <= FRESH_MS)
}

/// It tells how the peer's calls to us go now: it is young, and if we do not reach the peer, it was made after that began.
fn is_of_now(view: &PeerView, peer: &Peer, since_ms: Option<u64>) -> bool {
    let we_reach_it = peer.peer_port.yes().is_some_and(|port| port.connect == Connect::Open);
    view.age_ms <= VIEW_MS_MAX && (we_reach_it || since_ms.is_some_and(|since| view.age_ms < since))
}

fn seen_by(view: &PeerView, address: Option<IpAddr>) -> Option<&Connect> {
    let address = address?;
    view.peer_ports.iter().find(|(of, _)| *of == address).map(|(_, connect)| connect)
}

/// All of several peers open a connection and never finish a handshake, while our own etcd does: not all of them hang, large packets are
/// lost. A disk that hangs does not hold up a handshake.
fn all_hang(reaches: &mut [Reach<'_>], etcd: Etcd<'_>) {
    if etcd == Etcd::Answers && reaches.len() > 1 && reaches.iter().all(|reach| matches!(reach.kind, Kind::Hung | Kind::Large)) {
        reaches.iter_mut().for_each(|reach| reach.kind = Kind::Large);
    }
}

fn own(evidence: &Evidence) -> Option<&Member> {
    let members = evidence.members.yes()?;
    let by_id = |id: MemberId| members.list.iter().find(|member| id != MemberId(0) && member.id == id);
    let by_name = || members.list.iter().find(|member| !member.name.is_empty() && member.name == evidence.node);
    let by_status = || evidence.status.yes().and_then(|status| by_id(status.member_id));
    members.own_id.and_then(by_id).or_else(by_status).or_else(by_name)
}

/// A handshake on its peer port is answered and one on its client port is not: the process runs, and has not begun to serve clients. One that
/// is stopped answers neither; one whose disk hangs answers both.
fn waits(evidence: &Evidence) -> bool {
    let tls = |port: &Seen<Port>| port.yes().and_then(|port| port.tls.clone());
    tls(&evidence.own_client_port) == Some(Tls::TimedOut) && tls(&evidence.own_peer_port) == Some(Tls::Answered)
}

fn etcd(evidence: &Evidence) -> Etcd<'_> {
    match asked(evidence) {
        Etcd::Silent if waits(evidence) => Etcd::Waits,
        other @ (Etcd::Answers | Etcd::Refuses | Etcd::Silent | Etcd::Waits | Etcd::Tls(_) | Etcd::Fails(_) | Etcd::Unseen) => {
            other
        }
    }
}

fn asked(evidence: &Evidence) -> Etcd<'_> {
    if let Some(status) = evidence.status.yes() {
        return match &status.answer {
            StatusAnswer::Answered => Etcd::Answers,
            StatusAnswer::Refused => Etcd::Refuses,
            StatusAnswer::TimedOut => Etcd::Silent,
            StatusAnswer::Tls(text) => Etcd::Tls(text),
            StatusAnswer::Other(text) => Etcd::Fails(text),
        };
    }
    let Some(port) = evidence.own_client_port.yes() else { return Etcd::Unseen };
    match (&port.connect, &port.tls) {
        (Connect::Refused, _) => Etcd::Refuses,
        (Connect::Open, Some(Tls::Answered)) => Etcd::Answers,
        (Connect::Open, Some(Tls::TimedOut)) | (Connect::TimedOut, _) => Etcd::Silent,
        (Connect::Open, Some(Tls::Untrusted(text) | Tls::RefusedOurs(text) | Tls::Failed(text))) => Etcd::Tls(text),
        (Connect::Open | Connect::Rejected | Connect::NoHost | Connect::NoRoute | Connect::Other(_), _) => Etcd::Unseen,
    }
}

fn quorum(evidence: &Evidence) -> Quorum {
    let has_leader = evidence.metrics.yes().and_then(|metrics| metrics.has_leader);
    let from_metrics = match has_leader {
        Some(true) => Quorum::Yes,
        Some(false) => Quorum::No,
        // It would serve if it had one.
        None if waits(evidence) => Quorum::No,
        None => Quorum::Unseen,
    };
    let Some(status) = evidence.status.yes().filter(|status| status.answer == StatusAnswer::Answered) else {
        return from_metrics;
    };
    match status.quorum_read {
        Some(true) => Quorum::Yes,
        _ if status.leader == MemberId(0) => Quorum::No,
        // A learner may not answer such a read.
        Some(false) if !status.learner => Quorum::No,
        Some(false) | None => {
            if has_leader == Some(false) {
                Quorum::No
            } else {
                Quorum::Yes
            }
        }
    }
}

/// For how long etcd's log has said that a peer does not answer.
fn since(evidence: &Evidence, peer: MemberId) -> Option<u64> {
    let failing = [LogClass::PeerTimedOut, LogClass::PeerRefused, LogClass::PeerNoRoute];
    let lines = evidence.log.yes().into_iter().flat_map(|log| &log.lines);
    let fresh = |line: &&LogLine| line.newest_age_ms.is_some_and(|age| age <= FRESH_MS);
    let about =
        lines.filter(|line| peer != MemberId(0) && line.peer == Some(peer) && failing.contains(&line.class)).filter(fresh);
    about.filter_map(|line| line.oldest_age_ms).max()
}
