//! What the looks of a trouble found, and what of that is said. Pure; it keeps one finding, and no more.
//!
//! Invariant: after the first, a finding is said only when etcd has stayed unwell for `HELD` after the look ended. A look that straddles
//! the repair sees half of what was wrong and half of what no longer is: its cause fits neither, and etcd gets well within an
//! election after it.

use super::HELD;
use super::substance::substance;
use crate::decision::time::Moment;
use crate::diagnose::{Cause, Diagnosed, Outcome};

/// A finding that stands.
#[derive(Debug)]
pub(in crate::runtime) struct Finding {
    /// It, and when it was made.
    pub(in crate::runtime) diagnosed: Box<Diagnosed>,
    /// Whether it says what was not said last.
    pub(in crate::runtime) is_new: bool,
}

/// Of one trouble.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Substance of what was said last.
    said: Option<String>,
    held: Option<Held>,
    /// The last one that was said. That nothing was found is none.
    cause: Option<Cause>,
}

/// A finding that waits until etcd has stayed unwell.
#[derive(Debug)]
struct Held {
    substance: String,
    diagnosed: Box<Diagnosed>,
}

impl Findings {
    /// A look that ended while etcd was unwell: the first stands at once, and one that says the same as was said last. Another is held, in
    /// the place of one that was.
    pub(super) fn take(&mut self, diagnosed: Box<Diagnosed>) -> Option<Finding> {
        self.held = None;
        let substance = substance(&diagnosed.diagnosis);
        match &self.said {
            None => Some(self.say(substance, diagnosed)),
            Some(said) if *said == substance => Some(Finding { diagnosed, is_new: false }),
            Some(_) => {
                self.held = Some(Held { substance, diagnosed });
                None
            }
        }
    }

    /// The held one, once its time is over.
    pub(super) fn settled(&mut self, now: Moment) -> Option<Finding> {
        let Held { substance, diagnosed } = self.held.take_if(|held| now >= held.diagnosed.ended_at + HELD)?;
        Some(self.say(substance, diagnosed))
    }

    /// Etcd is not unwell any more, or that cannot be told.
    pub(super) fn drop_held(&mut self) {
        self.held = None;
    }

    /// The last cause that was said.
    pub(super) const fn cause(&self) -> Option<Cause> {
        self.cause
    }

    fn say(&mut self, substance: String, diagnosed: Box<Diagnosed>) -> Finding {
        self.said = Some(substance);
        if diagnosed.diagnosis.outcome != Outcome::Healthy {
            self.cause = Some(diagnosed.diagnosis.cause);
        }
        Finding { diagnosed, is_new: true }
    }
}
