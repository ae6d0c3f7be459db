//! The alias steps: apply, renew, hand over, lease, release, announce.
//!
//! Invariant I1: the FIP is put up, renewed or handed over only right after a quorum has confirmed
//! that the local member leads, and what is put up has a lease. Each step checks its preconditions
//! again, acts, and verifies by listing; its outcome carries the evidence.
//!
//! Any of these futures may be dropped at any await. What is left then: after a dropped `apply` at most
//! a leased alias, which the kernel removes by itself; after a dropped `renew` a lease one period
//! longer; after a dropped `hand_over` the loop's state of affairs (forever, on a leader proven
//! milliseconds before); after a dropped `release` or `announce` nothing new.

mod apply;
mod schedule;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::actuator::arp::ArpWire;
use crate::decision::observation::{AliasView, Reading};
use crate::decision::step::StepOutcome;
use crate::decision::time::Moment;
use crate::policy::{OnConflict, Policy};
use crate::runtime::clock;
use crate::sensor::alias::{AddressTable, Lifetime};
use crate::sensor::etcd::{LeadershipProver, Proof};

use apply::text_of;
pub use schedule::AnnounceSchedule;

/// The longest that a step other than `apply` may take: two proofs, three netlink operations and an
/// announcement, each with its own shorter deadline, all missed.
const STEP_LIMIT: Duration = Duration::from_secs(8);

/// The kernel counts leases in whole seconds and answers rounded down.
const LEASE_ROUNDING: Duration = Duration::from_secs(1);

/// What the alias steps take from the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasSettings {
    /// The FIP.
    pub fip: Ipv4Addr,
    /// Its interface.
    pub interface: String,
    /// What to do when somebody goes on answering for the FIP.
    pub on_conflict: OnConflict,
    /// `valid_lft` of what is put up.
    pub lease: Duration,
    /// The longest that a healthy loop elsewhere takes to let go of the FIP.
    pub worst_round: Duration,
    /// How old a proof may be that is handed to `renew`; an older one is replaced by a new one.
    pub proof_max_age: Duration,
}

impl From<&Policy> for AliasSettings {
    fn from(policy: &Policy) -> Self {
        Self {
            fip: policy.fip.address,
            interface: policy.fip.interface.clone(),
            on_conflict: policy.fip.on_conflict,
            lease: policy.limits.alias_lease,
            worst_round: policy.watched_loop.worst_round(),
            proof_max_age: policy.limits.proof_max_age,
        }
    }
}

/// The hands on the alias lane. The executor runs one step at a time.
#[derive(Debug)]
pub struct AliasSteps<P, T, W> {
    prover: P,
    table: T,
    wire: W,
    settings: AliasSettings,
}

/// How a step ends early.
type Ended = StepOutcome;

impl<P: LeadershipProver, T: AddressTable, W: ArpWire> AliasSteps<P, T, W> {
    /// Steps that prove, change and speak through the given parts.
    pub const fn new(prover: P, table: T, wire: W, settings: AliasSettings) -> Self {
        Self { prover, table, wire, settings }
    }

    /// Take over the settings of a new policy, between two steps.
    pub fn set_settings(&mut self, settings: AliasSettings) {
        self.settings = settings;
    }

    /// Give the alias that we put up a whole lease again. Needs a proof not older than the policy
    /// allows; a new one is made when it is. Refused if the alias is not leased: then it is the loop's.
    ///
    /// An address event follows each renewal. The alias outlives the proof by its age and one lease at most.
    pub async fn renew(&self, proof: Proof) -> StepOutcome {
        limited(STEP_LIMIT, async {
            let proof = if clock::now().since(proof.at) > self.settings.proof_max_age { self.prove_here().await? } else { proof };
            if !proof.leads_here() {
                return Err(refused(proof));
            }
            let view = self.held_alias().await?;
            if view.lease().is_none() {
                return Err(refused("the alias is the loop's, not leased by us"));
            }
            let lease = self.settings.lease;
            self.still_young(&proof)?;
            let lifetime = if view.is_lent() { Lifetime::Lent(lease) } else { Lifetime::Leased(lease) };
            let left = self.set_lease(lifetime, &proof).await?;
            Ok(format!("alias {}/32 leased for {} s again; {proof}", self.settings.fip, left.as_secs()))
        })
        .await
    }

    /// Give the loop's alias, or one that it knows of, a lease that can be told from one on an alias of ours.
    /// Proves leadership first: whoever is not proven to lead has no say in how long the FIP stays.
    pub async fn lease(&self) -> StepOutcome {
        limited(STEP_LIMIT, async {
            let proof = self.prove_here().await?;
            self.held_alias().await?;
            self.still_young(&proof)?;
            let left = self.set_lease(Lifetime::Lent(self.settings.lease), &proof).await?;
            Ok(format!("alias {}/32 of the loop leased for {} s; {proof}", self.settings.fip, left.as_secs()))
        })
        .await
    }

    /// Sets a finite lifetime and reads back what is left of it.
    async fn set_lease(&self, lifetime: Lifetime, proof: &Proof) -> Result<Duration, Ended> {
        let AliasSettings { interface, fip, lease, .. } = &self.settings;
        self.table.set_lifetime(interface, *fip, lifetime).await.map_err(failed)?;
        self.still_leads(proof).await?;
        match self.held_alias().await?.lease() {
            Some(left) if left + LEASE_ROUNDING >= *lease => Ok(left),
            other => Err(failed(format!("the lease was set to {} s and reads {other:?}", lease.as_secs()))),
        }
    }

    /// Between a proof and the act lie microseconds, unless the machine stood still there.
    fn still_young(&self, proof: &Proof) -> Result<(), Ended> {
        let age = clock::now().since(proof.at);
        if age <= self.settings.proof_max_age {
            return Ok(());
        }
        Err(refused(format!("the proof is {} ms old already", age.as_millis())))
    }

    /// A machine that stood still in the very act gave a lifetime under a proof that had grown old meanwhile: another may
    /// lead by now. Proved again, or the alias goes.
    async fn still_leads(&self, proof: &Proof) -> Result<(), Ended> {
        if self.still_young(proof).is_ok() {
            return Ok(());
        }
        match self.prove_here().await {
            Ok(_) => Ok(()),
            Err(lost) => {
                let lost = text_of(lost);
                Err(failed(format!("this machine stood still in the act: {lost}; {}", self.undo().await)))
            }
        }
    }

    /// The loop is healthy again: leave the alias as the loop would have, with lifetime forever.
    /// Proves leadership first, because nothing but the loop takes the alias off afterwards.
    pub async fn hand_over(&self) -> StepOutcome {
        limited(STEP_LIMIT, async {
            let proof = self.prove_here().await?;
            let AliasSettings { interface, fip, .. } = &self.settings;
            if is_forever(&self.held_alias().await?) {
                return Ok(format!("alias {fip} has lifetime forever already; {proof}"));
            }
            self.still_young(&proof)?;
            self.table.set_lifetime(interface, *fip, Lifetime::Forever).await.map_err(failed)?;
            self.still_leads(&proof).await?;
            if is_forever(&self.held_alias().await?) {
                Ok(format!("alias {fip}/32 handed over to the loop with lifetime forever; {proof}"))
            } else {
                Err(failed("the lifetime was set to forever and the kernel lists a lease"))
            }
        })
        .await
    }

    /// Take the FIP off the interface, whatever its prefix. Absence is success. Refused if a quorum
    /// confirms that the local member leads; any other answer, or none, does not hold it up.
    pub async fn release(&self) -> StepOutcome {
        limited(STEP_LIMIT, async {
            let why = match self.prover.prove().await {
                Ok(proof) if proof.leads_here() => return Err(refused(format!("the alias belongs here: {proof}"))),
                Ok(proof) => proof.to_string(),
                Err(reason) => format!("no leader is proven here: {reason}"),
            };
            let AliasSettings { interface, fip, .. } = &self.settings;
            let removed = self.table.remove(interface, *fip).await.map_err(failed)?;
            let left = self.view().await?.entries.len();
            match (removed, left) {
                (0, 0) => Ok(format!("alias {fip} was not on {interface}; {why}")),
                (_, 0) => Ok(format!("alias {fip} removed from {interface}; {why}")),
                (_, left) => Err(failed(format!("alias {fip} still has {left} entries on {interface}"))),
            }
        })
        .await
    }

    /// Tell the segment where the FIP is. Refused unless it is here and the local member is proven to
    /// lead: an announcement from anywhere else would steal the clients.
    pub async fn announce(&self) -> StepOutcome {
        limited(STEP_LIMIT, async {
            let proof = self.prove_here().await?;
            self.held_alias().await?;
            let AliasSettings { interface, fip, .. } = &self.settings;
            self.wire.announce(interface, *fip).await.map_err(|error| failed(chain(&error)))?;
            Ok(format!("announced {fip} on {interface}; {proof}"))
        })
        .await
    }

    /// A proof that the local member leads, or the refusal.
    async fn prove_here(&self) -> Result<Proof, Ended> {
        match self.prover.prove().await {
            Ok(proof) if proof.leads_here() => Ok(proof),
            Ok(proof) => Err(refused(proof)),
            Err(reason) => Err(refused(format!("leadership of the local member is not proven: {reason}"))),
        }
    }

    async fn view(&self) -> Result<AliasView, Ended> {
        match self.table.read(&self.settings.interface, self.settings.fip).await {
            Reading::Fresh { value, .. } => Ok(value),
            Reading::Stale { .. } => Err(refused("the addresses were not read")),
            Reading::Unknown(reason) => Err(refused(reason)),
        }
    }

    async fn held_alias(&self) -> Result<AliasView, Ended> {
        let view = self.view().await?;
        if view.is_held() { Ok(view) } else { Err(refused("the alias is not on the interface")) }
    }
}

/// Bound a step and put the time it took into its outcome.
async fn limited(limit: Duration, step: impl Future<Output = Result<String, Ended>>) -> StepOutcome {
    let started = clock::now();
    let outcome = match tokio::time::timeout(limit, step).await {
        Ok(Ok(text)) => StepOutcome::Succeeded(text),
        Ok(Err(ended)) => ended,
        Err(_elapsed) => StepOutcome::Failed("gave up at the step's time limit".to_owned()),
    };
    timed(outcome, started)
}

fn timed(outcome: StepOutcome, started: Moment) -> StepOutcome {
    let add = |text: String| format!("{text} ({} ms)", clock::now().since(started).as_millis());
    match outcome {
        StepOutcome::Succeeded(text) => StepOutcome::Succeeded(add(text)),
        StepOutcome::Refused(text) => StepOutcome::Refused(add(text)),
        StepOutcome::Failed(text) => StepOutcome::Failed(add(text)),
        StepOutcome::PodStuck(text) => StepOutcome::PodStuck(add(text)),
    }
}

fn is_forever(view: &AliasView) -> bool {
    view.entries.iter().any(|entry| entry.prefix_len == 32 && entry.valid_for.is_none())
}

fn refused(reason: impl ToString) -> Ended {
    StepOutcome::Refused(reason.to_string())
}

fn failed(reason: impl ToString) -> Ended {
    StepOutcome::Failed(reason.to_string())
}

/// An error with its causes, for an outcome's one sentence.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
