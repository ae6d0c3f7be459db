//! What a scenario file may say. Strict: an unknown key, a missing limit or a misspelt name is refused at its line.
//!
//! `docs/scenarios.md` explains each word; `check` holds what the types cannot say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::diagnosis::Wish;
use super::expect::Expect;
use super::names::{DiagnosisName, EventName, FaultName, Length, NodeRef, StepName, VerdictName};

/// A whole run may take this long unless the file says otherwise.
const RUN_LIMIT: Duration = Duration::from_mins(10);

/// One scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is called; the file's name without `.yaml`.
    pub name: Spanned<String>,
    /// What happens in it, in a sentence or two.
    pub story: String,
    /// Which incidents it replays, by the numbers of `tests/cases/`.
    #[serde(default)]
    pub cases: BTreeSet<u8>,
    /// What the lab should be like.
    #[serde(default)]
    pub lab: LabWishes,
    /// The longest that the steps may take together.
    #[serde(default = "run_limit")]
    pub limit: Length,
    /// What is done, one after the other.
    pub steps: Vec<Spanned<Step>>,
    /// What must be true afterwards.
    pub expect: Spanned<Vec<Spanned<Expect>>>,
}

impl Scenario {
    /// Whether a fault of it sets the wall clock of a watchdog, which then needs one of its own from its begin on.
    #[must_use]
    pub fn sets_wall_clock(&self) -> bool {
        let sets = |fault: &FaultStep| {
            let clock = fault.args.get("clock");
            fault.name.0 == "clock-jump" && clock.is_none_or(|clock| clock == "realtime")
        };
        self.steps.iter().any(|step| matches!(&step.value, Step::Fault(fault) if sets(fault)))
    }
}

const fn run_limit() -> Length {
    Length(RUN_LIMIT)
}

/// How this scenario's lab differs from a plain one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LabWishes {
    /// Whether the watchdog runs on the nodes.
    pub watchdog: bool,
    /// `terminationGracePeriodSeconds` of the loop's pod; a plain lab has the kubelet's 30 s.
    pub grace: Option<Length>,
    /// How often the loop runs.
    pub loop_interval: Length,
    /// After how long without its leader a follower of etcd calls for an election.
    pub election_timeout: Length,
    /// How many nodes there are.
    pub nodes: u8,
    /// Merged over the default policy, key by key.
    pub policy: serde_json::Value,
}

impl Default for LabWishes {
    fn default() -> Self {
        Self {
            watchdog: true,
            grace: None,
            loop_interval: Length(Duration::from_secs(5)),
            election_timeout: Length(Duration::from_secs(1)),
            nodes: 3,
            policy: serde_json::Value::Object(serde_json::Map::new()),
        }
    }
}

/// One step.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Binds variables to nodes as they are now.
    Let(BTreeMap<Role, String>),
    /// Waits for a condition.
    Wait(Box<Wait>),
    /// Injects a fault.
    Fault(FaultStep),
    /// Heals a fault.
    Heal(FaultStep),
    /// Names this moment.
    Mark(String),
    /// Watches for this long.
    Hold(Length),
}

/// What a variable can be bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The node whose etcd leads.
    Leader,
    /// The first node whose etcd does not lead.
    Follower,
    /// The other one.
    OtherFollower,
}

/// A fault, where, and with what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultStep {
    /// Its name in the catalogue.
    pub name: FaultName,
    /// Where.
    pub node: NodeRef,
    /// Its arguments; `$F` in a value becomes the node's name.
    #[serde(default)]
    pub args: BTreeMap<String, String>,
}

/// Exactly one condition, and how long it may take. Events count from the last fault or heal on; states as they are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The longest that it may take.
    pub limit: Length,
    /// Where, for the conditions that need a node.
    pub node: Option<NodeRef>,
    /// One leader, which alone holds the FIP and answers the client; the watchdogs of these nodes say `healthy`.
    pub healthy: Option<NodeRef>,
    /// The verdict of `node`.
    pub verdict: Option<VerdictName>,
    /// A step began on `node`.
    pub step_started: Option<StepName>,
    /// A step succeeded on `node`.
    pub step_succeeded: Option<StepName>,
    /// A step was refused on `node`.
    pub step_refused: Option<StepName>,
    /// Any audit event on `node`.
    pub audit: Option<EventName>,
    /// The FIP on `node`.
    pub fip: Option<FipState>,
    /// The manifest on `node`.
    pub manifest: Option<Presence>,
    /// The loop's container on `node`.
    pub container: Option<ContainerState>,
    /// The client is answered by this node.
    pub answered_by: Option<NodeRef>,
    /// The client has heard nobody for this long.
    pub silence: Option<Length>,
    /// This node's etcd is the only reachable leader.
    pub leader: Option<NodeRef>,
    /// Another node's etcd is the only reachable leader.
    pub leader_other_than: Option<NodeRef>,
    /// As `healthy`, and without a remedy of the watchdogs'.
    pub recovered: Option<NodeRef>,
    /// `fip-watchdog diagnose`, run on `node` again and again, says this.
    pub diagnosis: Option<Wish>,
    /// The daemon on `node` found this cause.
    pub diagnosed: Option<DiagnosisName>,
}

/// The FIP on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FipState {
    /// It is there.
    Held,
    /// It is there, forever.
    Forever,
    /// It is there, leased.
    Leased,
    /// It is not there.
    Gone,
}

/// The manifest in its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// It is there.
    Present,
    /// It is not.
    Absent,
}

/// The loop's container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerState {
    /// It runs.
    Running,
    /// It runs, and is another one than at the last fault.
    New,
    /// None runs.
    Gone,
}
