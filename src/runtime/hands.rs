//! What the steps are carried out with, and the looks that nothing waits for.
//!
//! [`NodeHands`] are the real ones; a simulation has its own. They decide nothing.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::attend::attended;
use super::clock;
use super::executor::NewPodBeats;
use super::ledger::PauseRecord;
use super::sharing::{Share, Sharer};
use crate::actuator::alias::{AliasSettings, AliasSteps};
use crate::actuator::arp::{ArpWire, PacketWire};
use crate::actuator::manifest_cycle::{CycleError, CycleExecutor, CycleSettings, ProcCgroupWatch, Recovered};
use crate::autopsy::{Autopsy, Case, Examiner};
use crate::decision::observation::CycleView;
use crate::decision::step::{StepKind, StepOutcome};
use crate::diagnose::evidence::Pause;
use crate::diagnose::{self, Diagnosed, Diagnosis};
use crate::policy::Policy;
use crate::sensor::alias::{AddressTable, AliasTable};
use crate::sensor::etcd::{EtcdProver, LeadershipProver};

/// A diagnosis that this process did not run in for so long is about timeouts of its own making.
const OWN_PAUSE: Duration = Duration::from_secs(1);

/// One that a gap fell into is made once more. On a starved node that will not do either, and then it counts.
const TRIES: usize = 2;

/// Beyond its own patience, for the scheduler: a diagnosis that overruns it is given up.
const SLACK: Duration = Duration::from_millis(500);

/// What the steps are carried out with. A trait so that a simulation can take the node's place.
pub trait Hands {
    /// Proves leadership for the alias steps.
    type Prover: LeadershipProver;

    /// A step of the alias lane. May be dropped at any await.
    fn alias(&self, step: StepKind, policy: &Policy, prover: Self::Prover) -> impl Future<Output = StepOutcome> + Send + 'static;

    /// The step of the loop lane. It is stopped through `stop`, and not dropped.
    fn cycle(
        &self,
        policy: &Policy,
        verification: NewPodBeats,
        stop: watch::Receiver<bool>,
    ) -> impl Future<Output = StepOutcome> + Send + 'static;

    /// Looks at a hung loop, and says on `saved` when it has seen all; none where nothing can be looked at.
    fn autopsy(&self, case: Case, saved: oneshot::Sender<()>) -> impl Future<Output = Option<Autopsy>> + Send + 'static;

    /// Looks for what is wrong with etcd, changing nothing; none where nothing can be looked at. Bounded; may be dropped at any await.
    fn diagnose(
        &self,
        policy: &Policy,
        last_pause: Option<PauseRecord>,
    ) -> impl Future<Output = Option<Diagnosed>> + Send + 'static;

    /// Puts what this node sees of its peers where the others can read it. Bounded; may be dropped at any await.
    fn share(
        &self,
        policy: &Policy,
        prover: Self::Prover,
        share: Share,
    ) -> impl Future<Output = Result<(), String>> + Send + 'static;

    /// Finishes a cycle that an earlier run left open.
    fn recover(&self) -> impl Future<Output = Result<Option<Recovered>, CycleError>> + Send + 'static;

    /// How long ago earlier runs started cycles.
    fn ages_of_past_cycles(&self) -> impl Future<Output = Result<Vec<Duration>, CycleError>>;

    /// The open cycle, if there is one.
    fn open_cycle(&self) -> Option<CycleView>;
}

/// The node's own kernel, wire and disk.
pub struct NodeHands {
    table: Arc<AliasTable>,
    cycles: Arc<CycleExecutor>,
    examiner: Examiner,
    sharer: Sharer,
}

impl NodeHands {
    /// Hands that keep their journal and their autopsies in `state_dir`.
    #[must_use]
    pub fn new(table: Arc<AliasTable>, state_dir: &Path) -> Self {
        Self {
            table,
            cycles: Arc::new(CycleExecutor::new(state_dir)),
            examiner: Examiner::new(state_dir),
            sharer: Sharer::default(),
        }
    }
}

impl Hands for NodeHands {
    type Prover = EtcdProver;

    fn alias(&self, step: StepKind, policy: &Policy, prover: EtcdProver) -> impl Future<Output = StepOutcome> + Send + 'static {
        let hands = AliasSteps::new(prover.clone(), Arc::clone(&self.table), PacketWire, AliasSettings::from(policy));
        alias_step(step, hands, prover)
    }

    fn cycle(
        &self,
        policy: &Policy,
        verification: NewPodBeats,
        stop: watch::Receiver<bool>,
    ) -> impl Future<Output = StepOutcome> + Send + 'static {
        let (cycles, settings, watched) = (Arc::clone(&self.cycles), CycleSettings::from(policy), policy.watched_loop.clone());
        async move {
            let old = verification.old;
            match tokio::task::spawn_blocking(move || ProcCgroupWatch::find(&watched, old)).await {
                Ok(pod) => cycles.run(&settings, &pod, &verification, stop).await,
                Err(failed) => StepOutcome::Refused(format!("looking for the loop's pod broke off: {failed}")),
            }
        }
    }

    fn autopsy(&self, case: Case, saved: oneshot::Sender<()>) -> impl Future<Output = Option<Autopsy>> + Send + 'static {
        let examiner = self.examiner.clone();
        // A cycle that waited too long is not there any more to be told.
        async move { Some(examiner.examine(case, || saved.send(()).unwrap_or_default()).await) }
    }

    fn diagnose(
        &self,
        policy: &Policy,
        last_pause: Option<PauseRecord>,
    ) -> impl Future<Output = Option<Diagnosed>> + Send + 'static {
        let policy = policy.clone();
        async move { Some(diagnosed(&policy, last_pause).await) }
    }

    fn share(
        &self,
        policy: &Policy,
        prover: EtcdProver,
        share: Share,
    ) -> impl Future<Output = Result<(), String>> + Send + 'static {
        let (sharer, policy) = (self.sharer.clone(), policy.clone());
        async move { sharer.share(policy, prover, share).await }
    }

    fn recover(&self) -> impl Future<Output = Result<Option<Recovered>, CycleError>> + Send + 'static {
        let cycles = Arc::clone(&self.cycles);
        async move { cycles.recover().await }
    }

    async fn ages_of_past_cycles(&self) -> Result<Vec<Duration>, CycleError> {
        Ok(self.cycles.recent().await?.iter().map(|cycle| cycle.age).collect())
    }

    fn open_cycle(&self) -> Option<CycleView> {
        self.cycles.view()
    }
}

/// One step of the alias lane, by whatever hands.
pub async fn alias_step<P, T, W>(step: StepKind, hands: AliasSteps<P, T, W>, prover: P) -> StepOutcome
where
    P: LeadershipProver,
    T: AddressTable,
    W: ArpWire,
{
    match step {
        StepKind::ApplyAlias => hands.apply().await,
        StepKind::RenewAlias => match prover.prove().await {
            Ok(proof) => hands.renew(proof).await,
            Err(reason) => StepOutcome::Refused(format!("not renewed, so the lease ends by itself: {reason}")),
        },
        StepKind::HandOverAlias => hands.hand_over().await,
        StepKind::LeaseAlias => hands.lease().await,
        StepKind::ReleaseAlias => hands.release().await,
        StepKind::AnnounceAlias => hands.announce().await,
        StepKind::CycleManifest => StepOutcome::Refused("not a step of the alias lane".to_owned()),
    }
}

/// Asks, and asks again if this process did not run meanwhile.
async fn diagnosed(policy: &Policy, last_pause: Option<PauseRecord>) -> Diagnosed {
    let mut tries = 1;
    let mut last_pause = last_pause.map(|pause| (pause.length, pause.at));
    loop {
        let began = clock::now();
        let patience = diagnose::PATIENCE + SLACK;
        let pause = last_pause.map(|(length, ended_at)| Pause::new(length, began.since(ended_at)));
        let (answer, absence) = attended(tokio::time::timeout(patience, diagnose::diagnose(policy, pause))).await;
        let ended_at = clock::now();
        if absence.in_all <= OWN_PAUSE || tries == TRIES {
            let diagnosis = answer.unwrap_or_else(|_| Diagnosis::given_up(patience));
            return Diagnosed { diagnosis, took: ended_at.since(began), ended_at };
        }
        last_pause = Some((absence.in_all, ended_at));
        tries += 1;
    }
}
