//! What the records of a journal add up to: past cycles, and the open one. Pure.
//!
//! Ages after a restart ([`Log::recent`]). Within this boot an age is the difference of two boottime
//! stamps. A cycle of an earlier boot is at least as old as this boot, and the cycles of one earlier boot
//! keep their distance from its last stamp: the ages of such cycles are lower bounds, so a cooldown is
//! never cut short, and yet three cycles of last month, hours apart, do not spend the budget after
//! a reboot. Wall-clock stamps take no part: a clock that jumps must not free a budget (I4).

use std::time::Duration;

use super::record::{Intent, Outcome, PhaseMark, Record, Stamp};
use crate::decision::observation::CyclePhase;

/// A cycle that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedCycle {
    /// What was intended.
    pub intent: Intent,
    /// How it ended.
    pub outcome: Outcome,
    /// In words.
    pub detail: String,
    /// When.
    pub at: Stamp,
}

impl ClosedCycle {
    /// What a journal has to hold of it.
    pub(super) fn records(&self) -> Vec<Record> {
        let Self { intent, outcome, detail, at } = self.clone();
        let end = Record::Closed { id: intent.id, outcome, detail, at };
        vec![Record::Intent(Box::new(intent)), end]
    }
}

/// A cycle that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCycle {
    /// What is intended.
    pub intent: Intent,
    /// When the manifest went out, if that is journalled.
    pub out: Option<Stamp>,
    /// When it came back, if that is journalled.
    pub back: Option<Stamp>,
}

impl OpenCycle {
    /// What a journal has to hold of it.
    pub(super) fn records(&self) -> Vec<Record> {
        let id = self.intent.id;
        let mark = |phase, at: &Option<Stamp>| at.clone().map(|at| Record::Phase { id, phase, at });
        let marks = [mark(PhaseMark::Out, &self.out), mark(PhaseMark::Back, &self.back)];
        std::iter::once(Record::Intent(Box::new(self.intent.clone()))).chain(marks.into_iter().flatten()).collect()
    }

    /// The phase for the observation.
    #[must_use]
    pub const fn phase(&self) -> CyclePhase {
        match (&self.out, &self.back) {
            (_, Some(_)) => CyclePhase::Back,
            (Some(_), None) => CyclePhase::Out,
            (None, None) => CyclePhase::Intended,
        }
    }
}

/// An earlier cycle, for cooldown and budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCycle {
    /// Its number.
    pub id: u64,
    /// How long ago it began, at least.
    pub age: Duration,
    /// How it ended; `None` while it is open.
    pub outcome: Option<Outcome>,
    /// SHA-256 of the manifest that was cycled.
    pub sha256: String,
}

/// The journal's content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// Ended cycles, oldest first.
    pub closed: Vec<ClosedCycle>,
    /// The open one.
    pub open: Option<OpenCycle>,
}

impl Log {
    /// Adds a record, or says why it cannot follow what is there.
    pub(super) fn push(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Intent(intent) => {
                if let Some(open) = &self.open {
                    return Err(format!("cycle {} begins while cycle {} is open", intent.id, open.intent.id));
                }
                self.open = Some(OpenCycle { intent: *intent, out: None, back: None });
            }
            Record::Phase { id, phase, at } => {
                let open = self.open.as_mut().filter(|open| open.intent.id == id);
                let open = open.ok_or_else(|| format!("phase of cycle {id}, which is not open"))?;
                match phase {
                    PhaseMark::Out => open.out = Some(at),
                    PhaseMark::Back => open.back = Some(at),
                }
            }
            Record::Closed { id, outcome, detail, at } => {
                let open = self.open.take().filter(|open| open.intent.id == id);
                let intent = open.ok_or_else(|| format!("end of cycle {id}, which is not open"))?.intent;
                self.closed.push(ClosedCycle { intent, outcome, detail, at });
            }
        }
        Ok(())
    }

    /// The next cycle's number.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        let last = self.open.as_ref().map(|open| open.intent.id).max(self.closed.last().map(|closed| closed.intent.id));
        last.unwrap_or(0).saturating_add(1)
    }

    /// The cycles that disturbed the pod, newest first, with ages that are never too great.
    #[must_use]
    pub fn recent(&self, now_boottime: Duration, boot_id: &str) -> Vec<PastCycle> {
        let open = self.open.iter().map(|open| (&open.intent, None, open.back.as_ref().or(open.out.as_ref())));
        let closed = self.closed.iter().rev().map(|cycle| (&cycle.intent, Some(cycle.outcome), Some(&cycle.at)));
        let mut ages = Ages { boot_id: boot_id.to_owned(), end: now_boottime, base: Duration::ZERO };
        let mut past = Vec::new();
        for (intent, outcome, last) in open.chain(closed) {
            if let Some(last) = last {
                ages.of(last);
            }
            let age = ages.of(&intent.at);
            if outcome.is_none_or(Outcome::counts) {
                past.push(PastCycle { id: intent.id, age, outcome, sha256: intent.sha256.clone() });
            }
        }
        past
    }
}

/// Walks stamps from the newest to the oldest and adds up what is known for certain.
struct Ages {
    /// The boot that the walk is in.
    boot_id: String,
    /// The boottime of the newest stamp of that boot (or now).
    end: Duration,
    /// What has passed since that newest stamp, at least.
    base: Duration,
}

impl Ages {
    fn of(&mut self, stamp: &Stamp) -> Duration {
        if stamp.boot_id != self.boot_id {
            // Everything of an earlier boot lies before this boot's zero.
            self.base = self.base.saturating_add(self.end);
            self.boot_id.clone_from(&stamp.boot_id);
            self.end = stamp.boottime();
        }
        self.base.saturating_add(self.end.saturating_sub(stamp.boottime()))
    }
}
