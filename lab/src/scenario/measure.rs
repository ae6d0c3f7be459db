//! A finished run, and what can be measured in it. Pure: a timeline in, intervals and lengths out.

use std::time::Duration;

use serde::Serialize;

use super::clock::seconds;
use super::event::{Event, Lifetime, What};
use super::node::Node;
use super::view::View;
use crate::probe::outage::{Heard, Segment};

/// The mark that the runner sets when the lab was healthy for the first time: what comes before is set-up.
pub const HEALTHY: &str = "healthy";

/// A half-open stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Its begin.
    #[serde(serialize_with = "seconds")]
    pub from: Duration,
    /// Its end.
    #[serde(serialize_with = "seconds")]
    pub to: Duration,
}

impl Span {
    /// How long it is.
    #[must_use]
    pub const fn length(self) -> Duration {
        self.to.saturating_sub(self.from)
    }

    /// How much of it lies in `other`.
    #[must_use]
    pub fn overlap(self, other: Self) -> Duration {
        self.to.min(other.to).saturating_sub(self.from.max(other.from))
    }

    /// What of it lies after `from`; none if nothing does.
    #[must_use]
    pub fn after(self, from: Duration) -> Option<Self> {
        let cut = Self { from: self.from.max(from), to: self.to };
        (cut.from < cut.to).then_some(cut)
    }
}

/// An outage of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Outage {
    /// From the last answer to the next one.
    #[serde(flatten)]
    pub span: Span,
    /// The part of it in which no reachable etcd led: nobody could have served.
    #[serde(serialize_with = "seconds")]
    pub election: Duration,
}

impl Outage {
    /// What is left when the election is taken off.
    #[must_use]
    pub const fn beyond_election(&self) -> Duration {
        self.span.length().saturating_sub(self.election)
    }
}

/// Everything that was seen in one run.
#[derive(Debug, Clone, Serialize)]
pub struct Timeline {
    /// How many nodes the lab had.
    pub nodes: usize,
    /// When watching began.
    #[serde(serialize_with = "seconds")]
    pub began: Duration,
    /// When watching ended.
    #[serde(serialize_with = "seconds")]
    pub ended: Duration,
    /// In the order of their stamps.
    pub events: Vec<Event>,
    /// What the client heard.
    pub client: Vec<Segment>,
}

impl Timeline {
    /// Puts the events in order.
    #[must_use]
    pub fn new(nodes: usize, began: Duration, ended: Duration, mut events: Vec<Event>, client: Vec<Segment>) -> Self {
        events.sort_by_key(|event| event.at);
        Self { nodes, began, ended, events, client }
    }

    /// When the mark was set. Without a name: when the lab was healthy for the first time, or the begin.
    #[must_use]
    pub fn since(&self, mark: Option<&str>) -> Duration {
        let wanted = mark.unwrap_or(HEALTHY);
        let set = self.events.iter().find(|event| matches!(&event.what, What::Mark(name) if name == wanted));
        set.map_or(self.began, |event| event.at)
    }

    /// The events of `node` (or of the whole run) from `since` on.
    pub fn events_of(&self, node: Node, since: Duration) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.node == Some(node) && event.at >= since)
    }

    /// The maximal stretches in which `holds` is true, between begin and end.
    #[must_use]
    pub fn spans(&self, holds: impl Fn(&View) -> bool) -> Vec<Span> {
        let mut view = View::new(self.nodes);
        let mut spans = Vec::new();
        let mut open = None;
        let mut events = self.events.iter().peekable();
        while let Some(event) = events.next() {
            view.apply(event);
            // Events of one instant are one change.
            if events.peek().is_some_and(|next| next.at == event.at) {
                continue;
            }
            let at = event.at.clamp(self.began, self.ended);
            match (open, holds(&view)) {
                (None, true) => open = Some(at),
                (Some(from), false) => {
                    spans.extend(Span { from, to: at }.after(Duration::ZERO));
                    open = None;
                }
                (None, false) | (Some(_), true) => {}
            }
        }
        if let Some(from) = open {
            spans.extend(Span { from, to: self.ended }.after(Duration::ZERO));
        }
        spans
    }

    /// The state at the end.
    #[must_use]
    pub fn view_at_end(&self) -> View {
        let mut view = View::new(self.nodes);
        for event in &self.events {
            view.apply(event);
        }
        view
    }

    /// Stretches in which no etcd led that anybody could reach.
    #[must_use]
    pub fn leaderless(&self) -> Vec<Span> {
        self.spans(|view| !view.nodes().any(|(_, node)| node.leads_reachably()))
    }

    /// The client's outages after `since`, longest first.
    #[must_use]
    pub fn outages(&self, since: Duration) -> Vec<Outage> {
        let leaderless = self.leaderless();
        let silences = self.client.iter().filter(|segment| segment.heard == Heard::Silence);
        let mut outages: Vec<Outage> = silences
            .filter_map(|segment| Span { from: segment.from, to: segment.to }.after(since))
            .map(|span| Outage { span, election: leaderless.iter().map(|gap| gap.overlap(span)).sum() })
            .collect();
        outages.sort_by_key(|outage| std::cmp::Reverse(outage.span.length()));
        outages
    }

    /// The longest time in which two nodes held the FIP; `serving` counts only those whom the client could reach.
    #[must_use]
    pub fn two_holders(&self, since: Duration, serving: bool) -> Duration {
        let holds = |view: &View| view.nodes().filter(|(_, n)| if serving { n.serves() } else { n.fip.is_some() }).count() > 1;
        longest(&self.spans(holds), since)
    }

    /// How long, up to the end, the client heard nobody and no node that it could reach held the FIP.
    #[must_use]
    pub fn gone_to_end(&self, since: Duration) -> Duration {
        let nobody = self.spans(|view| !view.nodes().any(|(_, node)| node.serves()));
        let quiet_from = self.client.last().filter(|last| last.heard == Heard::Silence).map(|last| last.from);
        match (nobody.last().filter(|span| span.to == self.ended), quiet_from) {
            (Some(nobody), Some(quiet)) => self.ended.saturating_sub(nobody.from.max(quiet).max(since)),
            (Some(_) | None, None) | (None, Some(_)) => Duration::ZERO,
        }
    }

    /// The stretches in which `node` held the FIP with this lifetime.
    #[must_use]
    pub fn held(&self, node: Node, lifetime: Lifetime) -> Vec<Span> {
        self.spans(|view| view.node(node).is_some_and(|state| state.fip == Some(lifetime)))
    }
}

/// The longest of the spans after `since`.
#[must_use]
pub fn longest(spans: &[Span], since: Duration) -> Duration {
    spans.iter().filter_map(|span| span.after(since)).map(Span::length).max().unwrap_or_default()
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
