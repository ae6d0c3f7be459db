//! `observations.yaml`: a node that is well, how it differs from that, and what happens to it at which time.
//!
//! Everything has a default, so a case says only what it is about. Strict: a misspelt key is refused.

use std::collections::BTreeMap;

use fip_watchdog::decision::step::StepKind;
use serde::Deserialize;

use crate::state::Patch;
use crate::words::Length;

/// One `observations.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// What happens, in a line.
    pub title: String,
    /// The public report that it is taken from.
    pub source: String,
    /// What of the incident this case judges, and what judges the rest of it.
    #[serde(default)]
    pub note: String,
    /// How the node differs from a healthy follower at the begin.
    #[serde(default)]
    pub node: Patch,
    /// What happens, in order of time.
    #[serde(default)]
    pub events: Vec<Event>,
    /// How steps go; one that is not named succeeds.
    #[serde(default)]
    pub steps: BTreeMap<StepKind, Course>,
    /// The watchdog starts with the case; otherwise it has looked once, and announced what it found.
    #[serde(default)]
    pub watchdog_starts: bool,
    /// Cycles that a former process of the daemon began, before the begin of the case.
    #[serde(default)]
    pub past_cycles: Vec<Length>,
    /// Instead of a timeline: every combination of these states, each watched for `until`.
    #[serde(default)]
    pub vary: BTreeMap<String, Vec<Patch>>,
    /// When the case ends.
    pub until: Length,
}

/// Something that happens.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When.
    pub at: Length,
    /// What a person would say about it.
    pub what: String,
    /// What it changes on the node.
    #[serde(default)]
    pub set: Patch,
    /// How long it lasts: what it set goes back to what it was.
    pub lasts: Option<Length>,
    /// It happens again so often, counted from one begin to the next.
    pub every: Option<Length>,
    /// How often in all, with `every`.
    #[serde(default = "once")]
    pub times: u32,
    /// Who stands still meanwhile, for as long as it lasts.
    pub pause: Option<Pause>,
    /// The watchdog is killed and starts anew: what its journal and the kernel kept is all that it knows.
    #[serde(default)]
    pub watchdog_restarts: bool,
    /// The wall clock is set.
    pub wall_clock: Option<WallClock>,
}

const fn once() -> u32 {
    1
}

/// A step of the wall clock.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WallClock {
    /// It is set forward by so much.
    Forward(Length),
    /// It is set back by so much.
    Back(Length),
}

/// Something stands still.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// What.
    pub of: PauseOf,
    /// Whether `CLOCK_MONOTONIC` stands still too, as in a suspended machine.
    #[serde(default)]
    pub clock: PauseClock,
}

/// What stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseOf {
    /// The whole machine, as a snapshot stuns it.
    Node,
    /// The watchdog alone.
    Watchdog,
    /// The loop alone.
    Loop,
}

/// What the monotonic clock does in a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseClock {
    /// It runs on.
    #[default]
    Runs,
    /// It stands still; `CLOCK_BOOTTIME` runs on.
    StandsStill,
}

/// How a step goes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Course {
    /// From its start to its end.
    pub takes: Option<Length>,
    /// How it ends.
    #[serde(default)]
    pub ends: End,
    /// What changes on the node, and how long after the step's end.
    #[serde(default)]
    pub then: Vec<Then>,
}

/// A change after the end of a step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Then {
    /// After the step's end.
    pub after: Length,
    /// What changes.
    pub set: Patch,
}

/// How a step ends.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Done, and it shows on the node.
    #[default]
    Succeeded,
    /// Nothing was changed, and why.
    Refused(String),
    /// Tried and undone.
    Failed(String),
    /// A cycle whose old pod would not die, or after which no new one came; the manifest is back.
    PodStuck(String),
}
