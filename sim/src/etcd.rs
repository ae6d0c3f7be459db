//! An etcd of three members, as far as its clients can tell: terms, elections, stale claims, a quorum.
//!
//! Figures as measured: a leader that was cut off claims to lead for 1 to 2 s more, an election ends 1 to 2 s after
//! the loss, a member that rejoins after it campaigned alone costs the others their leader for about a second.

use crate::sim::{Event, Sim};
use crate::{Ms, NODES};

/// Between the loss of a leader and what a member does about it.
const PATIENCE: (Ms, Ms) = (1_000, 2_000);

/// A member.
#[derive(Debug, Default, Clone, Copy)]
pub struct Member {
    /// The process is down.
    pub stopped: u8,
    /// The process hangs.
    pub hung: u8,
    /// It refuses every certificate.
    pub tls: u8,
    /// It answers slowly.
    pub slow: u8,
    /// Who leads, by its word.
    pub view: Option<usize>,
    /// In which term.
    pub view_term: u64,
    /// It campaigned while nobody heard it: its term will upset the others.
    campaigned: bool,
}

/// The cluster.
#[derive(Debug, Default)]
pub struct Etcd {
    /// The members, by node.
    pub members: [Member; NODES],
    /// The newest term.
    pub term: u64,
    /// Who leads in it, with a quorum.
    pub leader: Option<usize>,
    electing: bool,
}

impl Sim {
    /// A leader, and all agree.
    pub fn etcd_begins(&mut self) {
        let leader = self.rng.below(NODES);
        self.etcd.term = 2;
        self.etcd.leader = Some(leader);
        for member in &mut self.etcd.members {
            (member.view, member.view_term) = (Some(leader), 2);
        }
    }

    fn member_lives(&self, member: usize) -> bool {
        let Self { etcd, nodes, .. } = self;
        etcd.members[member].stopped == 0 && etcd.members[member].hung == 0 && nodes[member].frozen.is_none()
    }

    fn connected(&self, a: usize, b: usize) -> bool {
        self.member_lives(a) && self.member_lives(b) && (a == b || self.reach_each_other(a, b))
    }

    fn has_quorum(&self, member: usize) -> bool {
        (0..NODES).filter(|other| self.connected(member, *other)).count() * 2 > NODES
    }

    /// The leader that a member would follow if everybody knew everything.
    fn right_leader(&self, member: usize) -> Option<usize> {
        self.etcd.leader.filter(|leader| self.connected(member, *leader))
    }

    /// The term in which a quorum confirms what a member says of the leader.
    #[must_use]
    pub fn confirms(&self, member: usize) -> Option<u64> {
        let leader = self.right_leader(member)?;
        let agrees = self.etcd.members[member].view == Some(leader) && self.etcd.members[member].view_term == self.etcd.term;
        (agrees && self.has_quorum(leader)).then_some(self.etcd.term)
    }

    /// Links or members changed.
    pub fn etcd_reassess(&mut self) {
        if self.etcd.leader.is_some_and(|leader| !self.has_quorum(leader)) {
            self.etcd.leader = None;
        }
        for member in 0..NODES {
            let upsets = self.etcd.members[member].campaigned && self.right_leader(member).is_some();
            if upsets {
                self.etcd.members[member].campaigned = false;
                self.etcd.leader = None;
                for other in 0..NODES {
                    if self.connected(member, other) {
                        self.etcd.members[other].view = None;
                    }
                }
            }
        }
        if self.etcd.leader.is_none() && !self.etcd.electing {
            self.etcd.electing = true;
            let wait = self.rng.between(PATIENCE.0, PATIENCE.1);
            self.after(wait, Event::Elect);
        }
        for member in 0..NODES {
            let right = self.right_leader(member);
            let Member { view, view_term, .. } = self.etcd.members[member];
            let settled = view == right && (right.is_none() || view_term == self.etcd.term);
            if !self.member_lives(member) || settled {
                continue;
            }
            let wait = if right.is_some() { self.rng.between(1, 42) } else { self.rng.between(PATIENCE.0, PATIENCE.1) };
            self.after(wait, Event::View { member, gain: right.is_some() });
        }
    }

    /// A member learns who leads, or gives up on its leader.
    pub fn etcd_view(&mut self, member: usize, gain: bool) {
        let right = self.right_leader(member);
        if !self.member_lives(member) || right.is_some() != gain {
            return;
        }
        let (term, alone) = (self.etcd.term, !self.has_quorum(member));
        let view = &mut self.etcd.members[member];
        (view.view, view.view_term) = (right, if gain { term } else { view.view_term });
        if !gain {
            view.campaigned = alone;
        }
    }

    /// An election ends.
    pub fn etcd_elects(&mut self) {
        self.etcd.electing = false;
        let candidates: Vec<usize> = (0..NODES).filter(|member| self.has_quorum(*member)).collect();
        if self.etcd.leader.is_some() || candidates.is_empty() {
            return;
        }
        let leader = candidates[self.rng.below(candidates.len())];
        self.etcd_led_by(leader);
    }

    fn etcd_led_by(&mut self, leader: usize) {
        self.etcd.term += self.rng.between(1, 3);
        self.etcd.leader = Some(leader);
        let term = self.etcd.term;
        self.say(None, || format!("cp{} leads etcd in term {term}", leader + 1));
        (self.etcd.members[leader].view, self.etcd.members[leader].view_term) = (Some(leader), term);
        for member in 0..NODES {
            if member != leader && self.connected(member, leader) {
                self.etcd.members[member].campaigned = false;
                let wait = self.rng.between(1, 24);
                self.after(wait, Event::View { member, gain: true });
            }
        }
        self.etcd_reassess();
    }

    /// `etcdctl move-leader`; refused by a cluster that cannot.
    pub fn etcd_moves_to(&mut self, target: usize) {
        match self.etcd.leader {
            Some(leader) if leader != target && self.connected(leader, target) => self.etcd_led_by(target),
            Some(_) | None => self.say(Some(target), || "the leadership cannot be moved".to_owned()),
        }
    }

    /// A member starts anew.
    pub fn etcd_restarted(&mut self, member: usize) {
        self.etcd.members[member].view = None;
        self.etcd_reassess();
    }
}
