//! After the last fault: the world must come to rest, by itself, as it should be.

use fip_watchdog::decision::verdict::Verdict;

use crate::fault::PolicyKind;
use crate::sim::{Event, Sim};
use crate::{Ms, NODES};

/// Between two looks.
const LOOK_EVERY: Ms = 500;

/// Looks in a row that make a rest: longer than a round of the loop.
const LOOKS: u32 = 14;

/// Beyond it, it will never rest: a budget is armed again within the hour, then a cycle and a back-off.
const PATIENCE: Ms = 75 * 60_000;

/// The end of a schedule.
#[derive(Debug, Default)]
pub struct Rest {
    /// All faults are healed from here on.
    pub healed_at: Ms,
    looks: u32,
    operator_was_here: bool,
    /// The run is over.
    pub over: bool,
}

impl Sim {
    /// Looks begin when the last fault is healed.
    pub fn rest_begins(&mut self) {
        let ends = self.plan.iter().map(|planned| planned.at + if planned.fault.is_state() { planned.lasts } else { 0 });
        self.rest.healed_at = ends.max().unwrap_or(0).max(30_000);
        self.after(self.rest.healed_at + LOOK_EVERY, Event::Look);
    }

    /// A look.
    pub fn look(&mut self) {
        if !self.rest.operator_was_here {
            self.rest.operator_was_here = true;
            for node in 0..NODES {
                self.nodes[node].armed = None;
                // The policy in force decides what is repaired; at rest it is the one as shipped.
                if self.nodes[node].daemon.policy.is_some_and(|kind| kind != PolicyKind::Default) {
                    self.policy_edited(node, PolicyKind::Default);
                }
            }
        }
        let unrest = self.unrest();
        self.rest.looks = if unrest.is_none() { self.rest.looks + 1 } else { 0 };
        let too_late = self.now > self.rest.healed_at + PATIENCE;
        if let Some(why) = unrest.filter(|_| too_late) {
            self.never_at_rest(why);
        }
        self.rest.over = self.rest.looks >= LOOKS || too_late;
        self.after(LOOK_EVERY, Event::Look);
    }

    /// What is not as it should be.
    fn unrest(&self) -> Option<String> {
        let Some(leader) = self.etcd.leader else { return Some("etcd has no leader".to_owned()) };
        for node in 0..NODES {
            let at = &self.nodes[node];
            let name = node + 1;
            let held = at.address.map(|address| address.until.is_none());
            let verdict = self.checks.verdict(node);
            let why = match (held, node == leader) {
                _ if self.etcd.members[node].view != Some(leader) => "does not know the leader",
                (None, true) => "leads without the FIP",
                (Some(false), true) => "leads with a lease",
                (Some(_), false) => "holds the FIP and does not lead",
                (None, false) | (Some(true), true) if !at.pod.runs() => "has a loop that does not run",
                _ if at.manifest.in_place != Some(at.manifest.newest) => "has no manifest",
                _ if at.daemon.open_cycle.is_some() => "has an open cycle",
                _ if at.frozen.is_some() => "stands still",
                _ if !at.daemon.running => "has no watchdog",
                _ if verdict != Some(Verdict::Healthy) => return Some(format!("cp{name} is {verdict:?}")),
                _ => continue,
            };
            return Some(format!("cp{name} {why}"));
        }
        self.client.unserved_since.map(|since| format!("the client is not served since {since} ms"))
    }
}
