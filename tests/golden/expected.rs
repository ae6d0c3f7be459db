//! `expected.yaml`: what the watchdog must make of a case. A file that expects nothing is refused.

use std::collections::{BTreeMap, BTreeSet};

use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::verdict::Verdict;
use serde::Deserialize;

use crate::words::{Entry, Length, Window};

/// One `expected.yaml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expected {
    /// Each verdict in its order, and the time in which it must begin. No other is given.
    pub verdicts: Vec<BTreeMap<Verdict, Window>>,
    /// Each step in its order, and the time in which it must be started. No other is started.
    pub steps: Option<Vec<BTreeMap<StepKind, Window>>>,
    /// Steps that must not be started whatever else changes: what the case is about, said once more.
    pub never: BTreeSet<StepKind>,
    /// Words of a reason, under the verdict that it is given for.
    pub reasons: Vec<Saying>,
    /// Words of what is waited for: why nothing is done.
    pub waits: Vec<Saying>,
    /// What is put into the pause ledger, in its order. Nothing else is.
    pub ledger: Vec<BTreeMap<Entry, Window>>,
    /// The watchdog looks at least so often.
    pub looks_every: Option<Length>,
    /// Whether the FIP is on the node at the end.
    pub held_at_end: Option<bool>,
    /// The policy is refused, in these words.
    pub policy_refused: Vec<String>,
    /// With `vary`: how many combinations end in which verdict.
    pub combinations_end_in: BTreeMap<Verdict, usize>,
    /// With `vary`: the verdicts under which each step is started; none is started under any other.
    pub acts_only_in: BTreeMap<StepKind, BTreeSet<Verdict>>,
}

/// Words that must be said while a verdict holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saying {
    /// The verdict.
    #[serde(rename = "in")]
    pub verdict: Verdict,
    /// A part of the sentence.
    pub says: String,
    /// When, if that matters.
    pub at: Option<Window>,
}

/// What a case is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its verdicts over time.
    Timeline,
    /// Its policy is refused.
    Policy,
    /// All combinations of states.
    Combinations,
}

impl Expected {
    /// What the case is judged by.
    ///
    /// # Errors
    /// It expects nothing, or two kinds of things at once.
    pub fn kind(&self) -> Result<Kind, String> {
        let timeline = !self.verdicts.is_empty();
        let (policy, combinations) = (!self.policy_refused.is_empty(), !self.combinations_end_in.is_empty());
        let steps = self.steps.iter().flatten().map(BTreeMap::len);
        let entries = self.ledger.iter().map(BTreeMap::len);
        if self.verdicts.iter().map(BTreeMap::len).chain(steps).chain(entries).any(|len| len != 1) {
            return Err("each verdict, step and entry of the ledger is an item of its own".to_owned());
        }
        match (timeline, policy, combinations) {
            (true, false, false) if self.steps.is_none() => Err("it does not say which steps are started (none: [])".to_owned()),
            (true, false, false) => Ok(Kind::Timeline),
            (false, true, false) => Ok(Kind::Policy),
            (false, false, true) => Ok(Kind::Combinations),
            (false, false, false) => Err("it expects nothing".to_owned()),
            (true, true, _) | (true, _, true) | (_, true, true) => {
                Err("verdicts, policy_refused and combinations_end_in exclude each other".to_owned())
            }
        }
    }

    /// Every verdict that the case asks for in its time.
    pub fn verdicts_named(&self) -> BTreeSet<Verdict> {
        self.verdicts.iter().flat_map(|entry| entry.keys().copied()).collect()
    }
}
