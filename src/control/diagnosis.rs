//! The last diagnosis of etcd, as `status` and `explain` show it. Bounded; pure.

use serde::{Deserialize, Serialize};

use crate::audit::text::{ITEMS_MAX, clip, millis, sentence};
use crate::decision::time::Moment;
use crate::diagnose::evidence::Connect;
use crate::diagnose::{Cause, Check, Diagnosed, Link, Outcome};

/// Checks and links that are kept of each, for a cluster of seven with some to spare.
const PARTS_MAX: usize = 96;

/// Longest sentence, in bytes.
const SENTENCE_BYTES_MAX: usize = 1500;

/// A diagnosis that the daemon made, and whether its trouble is over.
#[derive(Debug, Clone, PartialEq)]
pub struct LastDiagnosis {
    /// It, and when it was made.
    pub diagnosed: Box<Diagnosed>,
    /// When etcd was well again.
    pub recovered_at: Option<Moment>,
}

/// The last diagnosis of etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosisReport {
    /// How long ago it was made.
    pub age_ms: u64,
    /// How long it took.
    pub took_ms: u64,
    /// How long ago its trouble was over; absent while it lasts.
    pub recovered_age_ms: Option<u64>,
    /// What kind of fault it is.
    pub outcome: Outcome,
    /// What it is.
    pub cause: Cause,
    /// What else is wrong.
    #[serde(default)]
    pub also: Vec<Cause>,
    /// The same in a sentence or two.
    pub sentence: String,
    /// A line a check.
    pub checks: Vec<Check>,
    /// Links that do not work.
    pub links: Vec<Link>,
    /// Commands for a person, the next one first.
    pub next: Vec<String>,
}

impl DiagnosisReport {
    /// As of `now`.
    pub(super) fn of(last: &LastDiagnosis, now: Moment) -> Self {
        let Diagnosed { diagnosis, took, ended_at } = &*last.diagnosed;
        Self {
            age_ms: millis(now.since(*ended_at)),
            took_ms: millis(*took),
            recovered_age_ms: last.recovered_at.map(|at| millis(now.since(at))),
            outcome: diagnosis.outcome,
            cause: diagnosis.cause,
            also: diagnosis.also.iter().take(ITEMS_MAX).copied().collect(),
            sentence: clip(&diagnosis.sentence, SENTENCE_BYTES_MAX),
            checks: diagnosis.checks.iter().take(PARTS_MAX).map(check).collect(),
            links: diagnosis.links.iter().take(PARTS_MAX).map(link).collect(),
            next: diagnosis.next.iter().take(ITEMS_MAX).map(|command| sentence(command)).collect(),
        }
    }
}

fn check(check: &Check) -> Check {
    Check {
        name: sentence(&check.name),
        mark: check.mark,
        seen: sentence(&check.seen),
        means: sentence(&check.means),
        by_hand: sentence(&check.by_hand),
    }
}

fn link(link: &Link) -> Link {
    let shows = match &link.shows {
        Some(Connect::Other(text)) => Some(Connect::Other(sentence(text))),
        known => known.clone(),
    };
    Link { from: sentence(&link.from), to: sentence(&link.to), shows, ..link.clone() }
}
