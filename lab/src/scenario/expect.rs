//! What a scenario file may expect: the words under `expect:`. `judge` holds each of them against a run.

use serde::Deserialize;

use super::event::Lifetime;
use super::names::{CauseName, Length, NodeRef, StepName, VerdictName};

/// What must be true of the run. Times count from the first `healthy` wait, or from the mark in `since`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// The client's longest outage.
    Outage(OutageBound),
    /// The longest time with two holders.
    TwoHolders(TwoHoldersBound),
    /// Who holds the FIP at the end, alone.
    HolderAtEnd(HolderAtEnd),
    /// Nobody answers and nobody reachable holds the FIP, to the end.
    FipGoneToEnd(GoneToEnd),
    /// These nodes do not hold the FIP.
    NeverHolds(NodeSince),
    /// The verdicts of these nodes.
    Verdicts(VerdictsBound),
    /// The steps of these nodes.
    Steps(StepsBound),
    /// These nodes hold the FIP for no longer at a stretch.
    Holds(HoldsBound),
    /// The loop runs in another container than at the begin.
    NewContainer(NodeSince),
    /// The manifest directory is as it was: names, content, mode, owner.
    ManifestIntact(NodeSince),
    /// The watchdogs of these nodes changed nothing, counted from outside: no file, no address, no announcement. From their first
    /// instruction on, unless there is a mark.
    WroteNothing(NodeSince),
    /// The watchdogs of these nodes did, counted in the same way: the counting can fail.
    ChangedSomething(NodeSince),
    /// An audit entry of each of these nodes contains a text.
    Says(SaysBound),
    /// How much the watchdogs of these nodes log.
    JournalQuiet(QuietBound),
    /// What the autopsies on these nodes found.
    Autopsy(AutopsyBound),
}

impl Expect {
    /// Whether the watchdogs have to be watched from outside for it.
    #[must_use]
    pub const fn counts(&self) -> bool {
        matches!(self, Self::WroteNothing(_) | Self::ChangedSomething(_))
    }

    /// The nodes and the mark that it refers to.
    #[must_use]
    pub const fn node_and_since(&self) -> (Option<&NodeRef>, Option<&String>) {
        match self {
            Self::Outage(bound) => (None, bound.since.as_ref()),
            Self::TwoHolders(bound) => (None, bound.since.as_ref()),
            Self::HolderAtEnd(bound) => (Some(&bound.node), None),
            Self::FipGoneToEnd(bound) => (None, bound.since.as_ref()),
            Self::NeverHolds(bound)
            | Self::NewContainer(bound)
            | Self::ManifestIntact(bound)
            | Self::WroteNothing(bound)
            | Self::ChangedSomething(bound) => (Some(&bound.node), bound.since.as_ref()),
            Self::Holds(bound) => (Some(&bound.node), bound.since.as_ref()),
            Self::Verdicts(bound) => (Some(&bound.node), bound.since.as_ref()),
            Self::Steps(bound) => (Some(&bound.node), bound.since.as_ref()),
            Self::Says(bound) => (Some(&bound.node), bound.since.as_ref()),
            Self::JournalQuiet(bound) => (Some(&bound.node), bound.since.as_ref()),
            Self::Autopsy(bound) => (Some(&bound.node), bound.since.as_ref()),
        }
    }
}

/// Bounds on the client's longest outage.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageBound {
    /// No longer than this.
    pub at_most: Option<Length>,
    /// At least this long: the fault was reproduced.
    pub at_least: Option<Length>,
    /// Without the time in which no reachable etcd led.
    #[serde(default)]
    pub beyond_election: bool,
    /// From this mark on.
    pub since: Option<String>,
}

/// A bound on double holding.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoHoldersBound {
    /// No longer than this.
    pub at_most: Length,
    /// Also count holders whom the client cannot reach.
    #[serde(default)]
    pub unreachable_too: bool,
    /// From this mark on.
    pub since: Option<String>,
}

/// Who holds the FIP at the end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HolderAtEnd {
    /// This node, and no other that the client could reach.
    pub node: NodeRef,
    /// With this lifetime.
    pub lifetime: Option<Lifetime>,
}

/// A time without the FIP.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoneToEnd {
    /// At least this long.
    pub at_least: Length,
    /// From this mark on.
    pub since: Option<String>,
}

/// Nodes, from a moment on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSince {
    /// Which.
    pub node: NodeRef,
    /// From this mark on.
    pub since: Option<String>,
}

/// A bound on holding.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldsBound {
    /// Which.
    pub node: NodeRef,
    /// No longer than this.
    pub at_most: Length,
    /// From this mark on.
    pub since: Option<String>,
}

/// What the verdicts must be like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictsBound {
    /// Whose.
    pub node: NodeRef,
    /// These, in this order; others may lie between.
    #[serde(default)]
    pub in_order: Vec<VerdictName>,
    /// None of these.
    #[serde(default)]
    pub never: Vec<VerdictName>,
    /// From this mark on.
    pub since: Option<String>,
}

/// What the steps must be like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepsBound {
    /// Whose.
    pub node: NodeRef,
    /// These succeeded, in this order; others may lie between.
    #[serde(default)]
    pub in_order: Vec<StepName>,
    /// None of these began.
    #[serde(default)]
    pub never: Vec<StepName>,
    /// None but these began; `[]` is no action at all.
    pub only: Option<Vec<StepName>>,
    /// From this mark on.
    pub since: Option<String>,
}

/// What must be in the audit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaysBound {
    /// Whose.
    pub node: NodeRef,
    /// In the message or the reason of one entry.
    pub text: String,
    /// From this mark on.
    pub since: Option<String>,
}

/// How much may be logged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuietBound {
    /// Whose watchdog.
    pub node: NodeRef,
    /// Entries on each node.
    pub at_most: usize,
    /// Entries about these steps do not count.
    #[serde(default)]
    pub except_steps: Vec<StepName>,
    /// From this mark on.
    pub since: Option<String>,
}

/// What autopsies must have found.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutopsyBound {
    /// Whose loop was examined.
    pub node: NodeRef,
    /// There was an autopsy, and each found this.
    pub cause: CauseName,
    /// From this mark on.
    pub since: Option<String>,
}
