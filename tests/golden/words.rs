//! Values as the case files spell them: spans of time, windows, verdicts and steps, and what a decision waits for.

use std::fmt;
use std::time::Duration;

use fip_watchdog::decision::plan::WaitingOn;
use fip_watchdog::runtime::ledger::PauseKind;
use serde::{Deserialize, Deserializer, de::Error};

/// A span of time with its unit: `250ms`, `5s`, `1m 30s`. As a point in time it counts from the begin of the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Length(pub Duration);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        length(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

fn length(text: &str) -> Result<Length, String> {
    let text = text.trim();
    humantime::parse_duration(text).map(Length).map_err(|error| format!("`{text}` is no span of time: {error}"))
}

/// From one point in time to another, both included: `20s..27s`, or one point: `20s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Not before.
    pub from: Length,
    /// Not after.
    pub to: Length,
}

impl Window {
    /// Whether the point lies within.
    pub fn holds(self, at: Duration) -> bool {
        self.from.0 <= at && at <= self.to.0
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let (from, to) = text.split_once("..").unwrap_or((&text, &text));
        let window = Self { from: length(from).map_err(D::Error::custom)?, to: length(to).map_err(D::Error::custom)? };
        if window.from > window.to {
            return Err(D::Error::custom(format!("the window `{text}` ends before it begins")));
        }
        Ok(window)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", spell(self.from.0), spell(self.to.0))
    }
}

/// What the pause ledger holds, by its name in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The machine was suspended.
    Suspended,
    /// The daemon did not run.
    Late,
    /// The wall clock was set forward.
    ClockSteppedForward,
    /// The wall clock was set back.
    ClockSteppedBack,
}

impl Entry {
    /// The entry of a kind of pause.
    pub const fn of(kind: PauseKind) -> Self {
        match kind {
            PauseKind::Suspended => Self::Suspended,
            PauseKind::Late => Self::Late,
            PauseKind::SteppedForward => Self::ClockSteppedForward,
            PauseKind::SteppedBack => Self::ClockSteppedBack,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Late => "late",
            Self::ClockSteppedForward => "clock_stepped_forward",
            Self::ClockSteppedBack => "clock_stepped_back",
        }
    }
}

/// A point in time as the case files spell it.
pub fn spell(at: Duration) -> String {
    humantime::format_duration(at).to_string()
}

/// One thing that is waited for, as a sentence.
pub fn waiting(on: &WaitingOn) -> String {
    match on {
        WaitingOn::Lane { step, running } => format!("{} waits for {} to end", step.name(), running.name()),
        WaitingOn::Refused { step, reason } => format!("{} is refused: {reason}", step.name()),
        WaitingOn::Confirm { step, .. } => format!("{} waits for the verdict to hold", step.name()),
        WaitingOn::Cooldown { step, .. } => format!("{} waits for its cooldown", step.name()),
        WaitingOn::Budget { step, .. } => format!("{} waits for the hour's budget", step.name()),
        WaitingOn::ObserveMode { step } => format!("{} would be started, but the policy only observes", step.name()),
        WaitingOn::StableLeader { .. } => "the leadership must be stable for a while".to_owned(),
        WaitingOn::LoopsOwnRound { .. } => "the loop gets the time of one worst round".to_owned(),
    }
}
