//! A diagnosis that the daemon made, with what it knows about its making.

use std::time::Duration;

use super::diagnosis::{Cause, Diagnosis, Outcome};
use super::evidence::Evidence;
use crate::audit::text::span;
use crate::decision::time::Moment;

/// A diagnosis, and when it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosed {
    /// What was found.
    pub diagnosis: Diagnosis,
    /// How long the look took.
    pub took: Duration,
    /// When it was over (own clock).
    pub ended_at: Moment,
}

impl Diagnosis {
    /// For a look that overran its own patience: nothing is known.
    #[must_use]
    pub fn given_up(after: Duration) -> Self {
        Self {
            outcome: Outcome::Unknown,
            cause: Cause::Unknown,
            sentence: format!("The look for what is wrong with etcd did not end within {} and was given up.", span(after)),
            checks: Vec::new(),
            links: Vec::new(),
            next: Vec::new(),
            also: Vec::new(),
            evidence: Evidence::default(),
        }
    }
}
