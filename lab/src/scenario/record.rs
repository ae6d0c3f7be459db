//! What a run has seen so far, and the state that it adds up to. Bounded; no I/O.

use std::collections::BTreeSet;
use std::time::Duration;

use super::condition::Seen;
use super::event::{Event, What};
use super::view::View;
use crate::probe::outage::Heard;

/// Far more than a run of ten minutes makes (a hundred events a second would be a fault of its own).
const EVENTS_MAX: usize = 60_000;

/// All events of a run, and views on them.
pub struct Record {
    events: Vec<Event>,
    /// The state now.
    pub view: View,
    /// The state at the last fault or heal.
    view_before: View,
    /// When that was.
    since: Duration,
    /// What was stamped after it.
    recent: Vec<Event>,
    heard_since: Duration,
    tokens: BTreeSet<String>,
    lost: Vec<String>,
    overflowed: bool,
}

impl Record {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(nodes: usize, now: Duration) -> Self {
        Self {
            events: Vec::new(),
            view: View::new(nodes),
            view_before: View::new(nodes),
            since: now,
            recent: Vec::new(),
            heard_since: now,
            tokens: BTreeSet::new(),
            lost: Vec::new(),
            overflowed: false,
        }
    }

    /// Takes one event in.
    pub fn take(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.overflowed = true;
            return;
        }
        match &event.what {
            What::JournalRead { token } => {
                self.tokens.insert(token.clone());
                return;
            }
            What::SourceLost(what) => {
                let node = event.node.map(|node| format!("{node}: ")).unwrap_or_default();
                self.lost.push(format!("{node}{what}"));
            }
            What::Client(_) => self.heard_since = event.at,
            What::Fault(_) | What::Heal(_) => {
                self.view_before = self.view.clone();
                self.since = event.at;
                self.recent.clear();
            }
            What::Audit(_)
            | What::Log(_)
            | What::Leads { .. }
            | What::LeadsNoMore
            | What::FipHeld(_)
            | What::FipGone
            | What::Link { .. }
            | What::Container(_)
            | What::Manifest { .. }
            | What::Diagnosis(_)
            | What::Mark(_)
            | What::Note(_) => {}
        }
        self.view.apply(&event);
        if event.at >= self.since {
            self.recent.push(event.clone());
        }
        self.events.push(event);
    }

    /// What a condition is asked about.
    #[must_use]
    pub fn seen(&self, now: Duration, watchdog: bool) -> Seen<'_> {
        let silent_since = (self.view.heard == Heard::Silence).then_some(self.heard_since);
        Seen { view: &self.view, view_before: &self.view_before, events: &self.recent, now, silent_since, watchdog }
    }

    /// Whether this mark has been set.
    #[must_use]
    pub fn marked(&self, name: &str) -> bool {
        self.events.iter().any(|event| matches!(&event.what, What::Mark(mark) if mark == name))
    }

    /// Whether the journal has been read up to this token.
    #[must_use]
    pub fn read_up_to(&self, token: &str) -> bool {
        self.tokens.contains(token)
    }

    /// Whether every source has been read without a gap so far.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.lost.is_empty() && !self.overflowed
    }

    /// Why the record is not complete, if it is not.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = self.lost.clone();
        gaps.extend(self.overflowed.then(|| format!("more than {EVENTS_MAX} events")));
        gaps
    }

    /// The events, in the order in which they arrived.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::scenario::condition::Kind;
    use crate::scenario::event::{Audit, Fault};
    use crate::scenario::node::Node;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn succeeded(at: u64) -> Event {
        let audit = Audit { event: "step_succeeded".to_owned(), step: Some("apply_alias".to_owned()), ..Audit::default() };
        Event { at: s(at), node: Some(Node::new(1)), what: What::Audit(audit) }
    }

    fn fault(at: u64) -> Event {
        let fault = Fault { name: "loop-stop".to_owned(), args: BTreeMap::new() };
        Event { at: s(at), node: Some(Node::new(1)), what: What::Fault(fault) }
    }

    #[test]
    fn what_happened_before_the_last_fault_does_not_end_a_wait_after_it_however_late_it_is_read() {
        let applied = Kind::Audit { event: "step_succeeded".to_owned(), step: Some("apply_alias".to_owned()) };
        let nodes = [Node::new(1)];
        let mut record = Record::new(3, s(0));
        record.take(succeeded(1));
        assert!(applied.holds(&nodes, &record.seen(s(1), true)));
        record.take(fault(10));
        assert!(!applied.holds(&nodes, &record.seen(s(10), true)));
        record.take(succeeded(9));
        assert!(!applied.holds(&nodes, &record.seen(s(11), true)));
        record.take(succeeded(12));
        assert!(applied.holds(&nodes, &record.seen(s(12), true)));
    }

    #[test]
    fn silence_is_counted_from_the_last_answer() {
        let mut record = Record::new(3, s(0));
        record.take(Event { at: s(5), node: None, what: What::Client(Heard::Node(Node::new(1))) });
        let silent = Kind::Silence(s(2));
        let all = [Node::new(1), Node::new(2)];
        assert!(!silent.holds(&all, &record.seen(s(20), true)));
        record.take(Event { at: s(20), node: None, what: What::Client(Heard::Silence) });
        assert!(!silent.holds(&all, &record.seen(s(21), true)));
        assert!(silent.holds(&all, &record.seen(s(22), true)));
    }

    #[test]
    fn healthy_means_served_by_the_leader_alone_and_said_by_the_watchdogs_where_they_run() {
        let event = |node, what| Event { at: s(1), node: Some(Node::new(node)), what };
        let mut record = Record::new(3, s(0));
        let healthy = Kind::Healthy;
        let nodes = [Node::new(1)];
        record.take(event(1, What::Leads { term: 2 }));
        record.take(event(1, What::FipHeld(crate::scenario::event::Lifetime::Forever)));
        assert!(!healthy.holds(&nodes, &record.seen(s(2), false)));
        record.take(Event { at: s(2), node: None, what: What::Client(Heard::Node(Node::new(1))) });
        assert!(healthy.holds(&nodes, &record.seen(s(2), false)));
        assert!(!healthy.holds(&nodes, &record.seen(s(2), true)));
        let audit = Audit { event: "verdict_changed".to_owned(), verdict: Some("healthy".to_owned()), ..Audit::default() };
        record.take(event(1, What::Audit(audit)));
        assert!(healthy.holds(&nodes, &record.seen(s(2), true)));
        record.take(event(2, What::FipHeld(crate::scenario::event::Lifetime::Forever)));
        assert!(!healthy.holds(&nodes, &record.seen(s(2), true)));
    }
}
