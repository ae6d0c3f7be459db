//! The loop's part in a diagnosis: beginning one in a trouble, saying what is new in it, and that the trouble is over; and
//! sharing what this node sees, where that is switched on.
//!
//! Invariant: nothing here changes what the loop decides, and nothing here waits.

use super::supervisor::Supervisor;
use super::trouble::{Finding, Look};
use super::world::World;
use crate::audit::{AuditEvent, EventKind};
use crate::control::diagnosis::LastDiagnosis;
use crate::decision::observation::Observation;
use crate::decision::plan::Decision;
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::diagnose::Diagnosed;

impl<W: World> Supervisor<W> {
    /// Looks at a round for a trouble of etcd.
    pub(super) fn attend_to_etcd(&mut self, observation: &Observation, decision: &Decision, now: Moment) {
        let refused = self.parts.audit.count(EventKind::StepRefused);
        let look = Look::of(observation, decision.verdict, refused);
        if let Some(recovery) = self.trouble.note(look, self.parts.policy.etcd.stable_for, now) {
            self.parts.audit.emit(&AuditEvent::Recovered(Box::new(recovery)));
            if let Some(last) = &mut self.diagnosis {
                last.recovered_at.get_or_insert(now);
            }
        }
        if let Some((verdict, finding)) = self.trouble.settled(now) {
            self.say_finding(verdict, finding);
        }
        if !self.parts.executor.is_diagnosing() && self.trouble.is_due(now) {
            self.parts.executor.diagnose(&self.parts.policy, self.pauses.last_pause());
        }
        if let Some(share) = self.sharing.due(observation, decision.verdict, &self.parts.policy, now) {
            self.parts.executor.share(&self.parts.policy, self.parts.world.prover(), share);
        }
    }

    /// A diagnosis that ended.
    pub(super) fn take_diagnosed(&mut self, diagnosed: Box<Diagnosed>) {
        if let Some((verdict, finding)) = self.trouble.found(diagnosed) {
            self.say_finding(verdict, finding);
        }
    }

    /// For `status`, and for the audit if it is news.
    fn say_finding(&mut self, verdict: Verdict, finding: Finding) {
        let Finding { diagnosed, is_new } = finding;
        if is_new {
            self.parts.audit.emit(&AuditEvent::Diagnosed { verdict, diagnosed: diagnosed.clone() });
        }
        self.diagnosis = Some(LastDiagnosis { diagnosed, recovered_at: None });
    }
}
