//! What a `wait` waits for: made from the file's words once, then asked again and again. Pure.

use std::time::Duration;

use super::diagnosis::Wish;
use super::event::{Event, Lifetime};
use super::file::{ContainerState, FipState, Presence, Wait};
use super::names::NodeRef;
use super::node::Node;
use super::view::View;
use crate::probe::outage::Heard;

/// Where a condition must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// On each of these nodes.
    pub node: NodeRef,
    /// What.
    pub kind: Kind,
}

/// What must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// One leader that alone holds the FIP and answers; the watchdogs, where they run, say `healthy`.
    Healthy,
    /// The same, and nobody had to help.
    Recovered,
    /// A diagnosis, which has to be asked for: no event tells.
    Diagnosis(Wish),
    /// The daemon found this cause since the last fault.
    Diagnosed(String),
    /// The last verdict is this, or it was since the last fault.
    Verdict(String),
    /// An audit entry since the last fault, with this step where one is named.
    Audit {
        /// `FIP_EVENT`.
        event: String,
        /// `FIP_STEP`.
        step: Option<String>,
    },
    /// The FIP.
    Fip(FipState),
    /// The manifest.
    Manifest(Presence),
    /// The container.
    Container(ContainerState),
    /// The client hears the node.
    AnsweredBy,
    /// The client hears nobody for this long.
    Silence(Duration),
    /// The node's etcd is the only reachable leader.
    Leader,
    /// Another node's etcd is.
    LeaderOtherThan,
}

/// What a condition is asked about.
pub struct Seen<'a> {
    /// The state now.
    pub view: &'a View,
    /// The state at the last fault or heal.
    pub view_before: &'a View,
    /// What came since.
    pub events: &'a [Event],
    /// Now.
    pub now: Duration,
    /// Since when the client has heard nobody.
    pub silent_since: Option<Duration>,
    /// Whether watchdogs run.
    pub watchdog: bool,
}

impl Wait {
    /// The one condition that the file gives.
    ///
    /// # Errors
    /// None or several are given, or the node is missing or makes no sense.
    pub fn condition(&self) -> Result<Condition, String> {
        let audit =
            |event: &str, step: &super::names::StepName| Kind::Audit { event: event.to_owned(), step: Some(step.0.clone()) };
        let on_node = [
            self.verdict.as_ref().map(|name| Kind::Verdict(name.0.clone())),
            self.step_started.as_ref().map(|step| audit("step_started", step)),
            self.step_succeeded.as_ref().map(|step| audit("step_succeeded", step)),
            self.step_refused.as_ref().map(|step| audit("step_refused", step)),
            self.audit.as_ref().map(|event| Kind::Audit { event: event.0.clone(), step: None }),
            self.fip.map(Kind::Fip),
            self.manifest.map(Kind::Manifest),
            self.diagnosis.clone().map(Kind::Diagnosis),
            self.diagnosed.as_ref().map(|cause| Kind::Diagnosed(cause.0.clone())),
            self.container.map(Kind::Container),
        ];
        let own_node = [
            self.healthy.as_ref().map(|node| (node, Kind::Healthy)),
            self.recovered.as_ref().map(|node| (node, Kind::Recovered)),
            self.answered_by.as_ref().map(|node| (node, Kind::AnsweredBy)),
            self.leader.as_ref().map(|node| (node, Kind::Leader)),
            self.leader_other_than.as_ref().map(|node| (node, Kind::LeaderOtherThan)),
        ];
        let mut found: Vec<(Option<NodeRef>, Kind)> = Vec::new();
        found.extend(on_node.into_iter().flatten().map(|kind| (self.node.clone(), kind)));
        found.extend(own_node.into_iter().flatten().map(|(node, kind)| (Some(node.clone()), kind)));
        found.extend(self.silence.map(|length| (Some(NodeRef::All), Kind::Silence(length.0))));
        let named_apart = found.iter().any(|(node, _)| *node != self.node);
        if found.len() > 1 {
            return Err(format!("a wait has one condition, this one has {}; write one wait for each", found.len()));
        }
        let Some((node, kind)) = found.pop() else { return Err("a wait needs a condition".to_owned()) };
        let Some(node) = node else { return Err("this condition needs a `node`".to_owned()) };
        if named_apart && self.node.is_some() {
            return Err("this condition names its node itself; `node` has no place here".to_owned());
        }
        if node == NodeRef::All && matches!(kind, Kind::AnsweredBy | Kind::Leader | Kind::LeaderOtherThan) {
            return Err("one node, not `all`".to_owned());
        }
        Ok(Condition { node, kind })
    }
}

impl Kind {
    /// Whether it holds on every one of `nodes`.
    #[must_use]
    pub fn holds(&self, nodes: &[Node], seen: &Seen<'_>) -> bool {
        nodes.iter().all(|node| self.holds_on(*node, seen))
    }

    fn holds_on(&self, node: Node, seen: &Seen<'_>) -> bool {
        let state = seen.view.node(node);
        let mut here = seen.events.iter().filter(|event| event.node == Some(node));
        match self {
            Self::Healthy | Self::Recovered => {
                serves_rightly(seen.view) && (!seen.watchdog || verdict(seen.view, node) == Some("healthy"))
            }
            Self::Verdict(wanted) => {
                verdict(seen.view, node) == Some(wanted) || here.any(|event| verdict_became(event) == Some(wanted))
            }
            Self::Diagnosis(_) => false,
            Self::Diagnosed(cause) => here.any(|event| {
                event.audit().is_some_and(|audit| audit.event == "diagnosed" && audit.cause.as_ref() == Some(cause))
            }),
            Self::Audit { event: name, step } => here
                .any(|event| event.audit().is_some_and(|audit| audit.event == *name && (step.is_none() || audit.step == *step))),
            Self::Fip(wanted) => state.is_some_and(|state| match wanted {
                FipState::Held => state.fip.is_some(),
                FipState::Forever => state.fip == Some(Lifetime::Forever),
                FipState::Leased => state.fip == Some(Lifetime::Lease),
                FipState::Gone => state.fip.is_none(),
            }),
            Self::Manifest(wanted) => state.and_then(|state| state.manifest) == Some(*wanted == Presence::Present),
            Self::Container(wanted) => {
                let now = state.and_then(|state| state.container.as_ref());
                let before = seen.view_before.node(node).and_then(|state| state.container.as_ref());
                let running = now.is_some_and(|container| container.running);
                match wanted {
                    ContainerState::Running => running,
                    ContainerState::New => running && now.map(|c| &c.id) != before.map(|c| &c.id),
                    ContainerState::Gone => !running,
                }
            }
            Self::AnsweredBy => seen.view.heard == Heard::Node(node),
            Self::Silence(length) => seen.silent_since.is_some_and(|since| seen.now.saturating_sub(since) >= *length),
            Self::Leader => seen.view.leader() == Some(node),
            Self::LeaderOtherThan => seen.view.leader().is_some_and(|leader| leader != node),
        }
    }
}

/// One leader, the FIP on it and nowhere else, the client answered by it.
fn serves_rightly(view: &View) -> bool {
    let holders: Vec<Node> = view.nodes().filter(|(_, state)| state.fip.is_some()).map(|(node, _)| node).collect();
    view.leader().is_some_and(|leader| holders == [leader] && view.heard == Heard::Node(leader))
}

fn verdict(view: &View, node: Node) -> Option<&str> {
    view.node(node)?.verdict.as_deref()
}

fn verdict_became(event: &Event) -> Option<&String> {
    event.audit().filter(|audit| audit.event == "verdict_changed")?.verdict.as_ref()
}
