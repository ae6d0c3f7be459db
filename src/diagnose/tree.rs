//! The decision tree of the second article, and further: from what was seen to what it is. Pure.

use super::diagnosis::{Cause, Diagnosis, Outcome};
use super::evidence::Evidence;

/// What the evidence comes to.
#[must_use]
pub fn judge(evidence: Evidence) -> Diagnosis {
    Diagnosis {
        outcome: Outcome::Unknown,
        cause: Cause::Unknown,
        sentence: "What was seen does not tell what is wrong.".to_owned(),
        checks: Vec::new(),
        links: Vec::new(),
        next: Vec::new(),
        evidence,
    }
}
