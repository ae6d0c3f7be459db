//! The abstract etcd: one leader with a quorum at most; who lost touch goes on saying what it said for a while.
//!
//! A proof succeeds only with a quorum and names the one true leader, at the instant at which it is made: what
//! `docs/decisions/0002-confirmation.md` measured. Terms are not kept: the decision core reads none.

use crate::node::Said;
use crate::scale::STALE_CLAIM;
use crate::sense::{Asked, EtcdSeen};
use crate::world::World;

impl World {
    /// Whether enough members can talk to each other.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.nodes.iter().filter(|node| node.is_connected()).count() >= 2
    }

    /// The true leader.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.leads)
    }

    /// After the network or a member changed: who lost touch keeps its opinion for a while, and a leader without a
    /// quorum is none.
    pub fn settle_etcd(&mut self) {
        let quorum = self.has_quorum();
        for i in 0..self.nodes.len() {
            let in_touch = quorum && self.nodes[i].is_connected();
            if in_touch || self.nodes[i].stale.is_some() {
                continue;
            }
            let said = if self.nodes[i].leads { Said::Itself } else { Said::Other };
            let knew = self.nodes[i].leads || self.leader().is_some();
            if knew && self.nodes[i].etcd_up {
                self.edit(i).stale = Some((said, STALE_CLAIM));
            }
        }
        if let Some(leader) = self.leader()
            && !(quorum && self.nodes[leader].is_connected())
        {
            self.edit(leader).leads = false;
            self.leaderless = 0;
        }
    }

    /// The leadership goes to `to`, or to nobody.
    pub fn set_leader(&mut self, to: Option<usize>) {
        for i in 0..self.nodes.len() {
            if self.nodes[i].leads != (to == Some(i)) {
                self.edit(i).leads = to == Some(i);
            }
            if to == Some(i) {
                self.edit(i).stale = None;
            }
        }
        self.leaderless = 0;
    }

    /// What the member of node `i` answers.
    #[must_use]
    pub fn ask(&self, i: usize, quorum: bool) -> EtcdSeen {
        let node = &self.nodes[i];
        if !node.etcd_up {
            return EtcdSeen::Unreachable;
        }
        let in_touch = self.has_quorum() && node.is_connected();
        let truth = match self.leader() {
            Some(leader) if in_touch && node.stale.is_none() => Some(if leader == i { Said::Itself } else { Said::Other }),
            Some(_) | None => None,
        };
        let said = truth.or(node.stale.map(|(said, _)| said)).unwrap_or(Said::Nobody);
        let asked = match (quorum, truth) {
            (false, _) => Asked::No,
            (true, Some(_)) => Asked::Confirmed(0),
            (true, None) => Asked::Denied,
        };
        EtcdSeen::Answered(said, asked)
    }

    /// Whether a quorum confirms now that node `i` leads.
    #[must_use]
    pub fn proves(&self, i: usize) -> bool {
        self.ask(i, true) == EtcdSeen::Answered(Said::Itself, Asked::Confirmed(0))
    }
}
