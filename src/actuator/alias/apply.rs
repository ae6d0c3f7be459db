//! `apply_alias`: put the FIP up on the proven leader, so that it can be undone and ends by itself.
//!
//! ```text
//! prove ─► link, not held ─► probe ──silent──► prove again if old ─► add with lease ─► listed?
//!            ▲                 │ answered                                   │
//!            └── prove ◄─ wait ┘  (one worst round, then on_conflict)       ▼
//!                                                announce ─► prove again ──lost──► remove
//! ```
//!
//! Somebody who answers is most often the old leader's healthy loop, which lets go within its next
//! round and serves clients until then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::{AliasSettings, AliasSteps, Ended, chain, failed, refused, timed};
use crate::actuator::arp::{ArpWire, Mac, ProbeOutcome};
use crate::decision::step::StepOutcome;
use crate::policy::OnConflict;
use crate::runtime::clock;
use crate::sensor::alias::{Added, AddressTable};
use crate::sensor::etcd::{LeadershipProver, Proof};

/// How long nobody may answer before the FIP counts as free. A holder on the segment was measured to
/// answer within 0.1 ms, at worst 10 ms; three probes 50 ms apart leave room for a busy hypervisor.
const SILENCE: Duration = Duration::from_millis(150);

/// Time between the starts of two probes while somebody answers.
const PROBE_AGAIN: Duration = Duration::from_millis(200);

/// A proof older than this is made again right before the add: a leader can change within 7 ms of
/// any proof, so it should be as young as a few milliseconds of work allow.
const PROOF_AGE_AT_ADD: Duration = Duration::from_millis(200);

/// Bound of all that follows the probe: two proofs and four kernel operations, each at its deadline.
const COMMIT_LIMIT: Duration = Duration::from_secs(10);

/// Time for the first proof, the first look and one probe, on top of the wait for a conflict's end.
const MARGIN: Duration = Duration::from_secs(5);

/// How many worst rounds `on_conflict: wait` waits in one step; the decision may start it again.
const WAIT_ROUNDS: u32 = 3;

/// How the way to the add became free.
struct Cleared {
    proof: Proof,
    how: String,
    /// The loop put the FIP up while we probed.
    held_meanwhile: bool,
}

impl<P: LeadershipProver, T: AddressTable, W: ArpWire> AliasSteps<P, T, W> {
    /// Put the FIP up with a lease. Takes about 160 ms when nobody answers for it.
    ///
    /// Refused, with nothing changed: not proven to lead, no link, there already. Failed: somebody goes
    /// on answering and the policy says not to take over; the kernel refused; or leadership was lost
    /// meanwhile, and the alias was taken off again. After a success start an
    /// [`AnnounceSchedule`](super::AnnounceSchedule).
    pub async fn apply(&self) -> StepOutcome {
        let started = clock::now();
        timed(self.apply_untimed().await, started)
    }

    async fn apply_untimed(&self) -> StepOutcome {
        let rounds = if self.settings.on_conflict == OnConflict::Wait { WAIT_ROUNDS } else { 1 };
        let patience = self.settings.worst_round.saturating_mul(rounds).saturating_add(MARGIN);
        let cleared = match tokio::time::timeout(patience, self.clear_the_way()).await {
            Ok(Ok(cleared)) => cleared,
            Ok(Err(ended)) => return ended,
            Err(_elapsed) => {
                return failed(format!("no clear way within {} s; nothing was changed", patience.as_secs()));
            }
        };
        let ours = AtomicBool::new(false);
        let committed = tokio::time::timeout(COMMIT_LIMIT, self.commit(cleared, &ours)).await;
        let (ended, undo) = match committed {
            Ok(Ok(text)) => return StepOutcome::Succeeded(text),
            Ok(Err(ended)) => (ended, ours.load(Ordering::Relaxed)),
            Err(_elapsed) => (failed("gave up at the step's time limit"), ours.load(Ordering::Relaxed)),
        };
        if undo { failed(format!("{}; {}", text_of(ended), self.undo().await)) } else { ended }
    }

    /// Everything before the add; changes nothing.
    async fn clear_the_way(&self) -> Result<Cleared, Ended> {
        let mut proof = self.prove_here().await?;
        let view = self.view().await?;
        if !view.up || !view.carrier {
            return Err(refused(format!("{} has no link", self.settings.interface)));
        }
        if view.is_held() {
            return Err(refused("the alias is on the interface already"));
        }
        let mut conflict: Option<Instant> = None;
        loop {
            let asked = Instant::now();
            let Some(mac) = self.probe().await? else {
                let how = conflict.map_or_else(
                    || "nobody answered for it".to_owned(),
                    |since| format!("its holder fell silent after {} ms", since.elapsed().as_millis()),
                );
                return Ok(Cleared { proof, how, held_meanwhile: false });
            };
            let since = *conflict.get_or_insert(asked);
            if let Some(how) = self.answer_to_conflict(mac, since)? {
                return Ok(Cleared { proof, how, held_meanwhile: false });
            }
            tokio::time::sleep_until(asked + PROBE_AGAIN).await;
            proof = self.prove_here().await?;
            if self.view().await?.is_held() {
                return Ok(Cleared { proof, how: "the loop put it up itself".to_owned(), held_meanwhile: true });
            }
        }
    }

    async fn probe(&self) -> Result<Option<Mac>, Ended> {
        let AliasSettings { interface, fip, .. } = &self.settings;
        match self.wire.probe(interface, *fip, SILENCE).await {
            Ok(ProbeOutcome::Silent) => Ok(None),
            Ok(ProbeOutcome::Answered { mac }) => Ok(Some(mac)),
            Err(error) => Err(refused(chain(&error))),
        }
    }

    /// What to do about an answer: `None` is probe again, a text is go on with the add.
    fn answer_to_conflict(&self, mac: Mac, since: Instant) -> Result<Option<String>, Ended> {
        let held_for = since.elapsed();
        if held_for < self.settings.worst_round {
            return Ok(None);
        }
        match self.settings.on_conflict {
            OnConflict::Wait => Ok(None),
            OnConflict::TakeOver => Ok(Some(format!("taken over from {mac}, which answered for {} ms", held_for.as_millis()))),
            OnConflict::Alarm => Err(failed(format!(
                "{mac} still answers for the FIP after {} ms and the policy says not to take over; nothing was changed",
                held_for.as_millis()
            ))),
        }
    }

    /// The add and all that follows. `ours` says, also after an early end, whether there may be an
    /// entry that this attempt added.
    async fn commit(&self, cleared: Cleared, ours: &AtomicBool) -> Result<String, Ended> {
        let AliasSettings { interface, fip, lease, .. } = &self.settings;
        let Cleared { mut proof, how, held_meanwhile } = cleared;
        if clock::now().since(proof.at) > PROOF_AGE_AT_ADD {
            proof = self.prove_here().await?;
        }
        if !held_meanwhile {
            ours.store(true, Ordering::Relaxed);
            let added = self.table.add(interface, *fip, *lease).await.map_err(failed)?;
            ours.store(added == Added::New, Ordering::Relaxed);
        }
        if !self.view().await?.is_held() {
            return Err(failed("the kernel does not list the alias after the add"));
        }
        let announced = match self.wire.announce(interface, *fip).await {
            Ok(()) => "announced".to_owned(),
            // The alias serves all who ask anew; the repeats try again.
            Err(error) => format!("not announced ({})", chain(&error)),
        };
        let after = match self.prove_here().await {
            Ok(after) => after,
            Err(lost) => return Err(failed(format!("leadership was lost after the add: {}", text_of(lost)))),
        };
        let what = if ours.load(Ordering::Relaxed) {
            format!("alias {fip}/32 added to {interface} with a lease of {} s", lease.as_secs())
        } else {
            format!("alias {fip} is on {interface}, put up by the loop meanwhile")
        };
        Ok(format!("{what}, {announced}; {how}; before: {proof}; after: {after}"))
    }

    /// Take off what this attempt added, or gave a lifetime, and say how that went.
    pub(super) async fn undo(&self) -> String {
        let AliasSettings { interface, fip, lease, .. } = &self.settings;
        match tokio::time::timeout(COMMIT_LIMIT, self.table.remove(interface, *fip)).await {
            Ok(Ok(0)) => "there was no alias left to remove".to_owned(),
            Ok(Ok(_removed)) => "the alias was removed again".to_owned(),
            Ok(Err(error)) => format!("{error}; its lease ends within {} s", lease.as_secs()),
            Err(_elapsed) => format!("removing it took too long; its lease ends within {} s", lease.as_secs()),
        }
    }
}

pub(super) fn text_of(outcome: StepOutcome) -> String {
    match outcome {
        StepOutcome::Succeeded(text) | StepOutcome::Refused(text) | StepOutcome::Failed(text) | StepOutcome::PodStuck(text) => {
            text
        }
    }
}
