//! The steps on a real kernel and wire; only etcd is scripted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fip_watchdog::actuator::alias::{AliasSettings, AliasSteps};
use fip_watchdog::actuator::arp::PacketWire;
use fip_watchdog::decision::observation::AliasEntry;
use fip_watchdog::decision::step::StepOutcome;
use fip_watchdog::decision::time::Moment;
use fip_watchdog::policy::Policy;
use fip_watchdog::runtime::clock;
use fip_watchdog::sensor::alias::AliasTable;
use fip_watchdog::sensor::etcd::{LeadershipProver, NotProven, Proof};

use crate::segment::{Segment, eventually};
use crate::{FIP, FIP_TEXT, view};

/// Leads for so many proofs, and then no longer. Each is a second old, so that `apply` asks for
/// exactly one more before the add, however slow the machine.
struct LeadsFor(AtomicUsize);

impl LeadershipProver for LeadsFor {
    async fn prove(&self) -> Result<Proof, NotProven> {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        let leader = if left > 0 { 1 } else { 2 };
        let at = Moment::from_origin(clock::now().since_origin().saturating_sub(Duration::from_secs(1)));
        Ok(Proof { member_id: 1, leader, raft_term: 3, at })
    }
}

fn steps(table: &Arc<AliasTable>, proofs: usize) -> AliasSteps<LeadsFor, Arc<AliasTable>, PacketWire> {
    let settings = AliasSettings::from(&Policy::with_defaults(FIP, "eth0"));
    AliasSteps::new(LeadsFor(AtomicUsize::new(proofs)), Arc::clone(table), PacketWire, settings)
}

#[track_caller]
fn assert_succeeded(outcome: &StepOutcome) {
    assert!(matches!(outcome, StepOutcome::Succeeded(_)), "{outcome:?}");
}

async fn carrier(table: &AliasTable) {
    eventually("carrier", async || view(table).await, |view| view.carrier).await;
}

#[test]
fn apply_renew_hand_over_and_release_follow_each_other_and_the_neighbour_reaches_the_fip() {
    Segment::new().inside(async |segment| {
        let table = Arc::new(AliasTable::open().unwrap());
        carrier(&table).await;
        let leads = steps(&table, usize::MAX);
        assert_succeeded(&leads.apply().await);
        assert!(view(&table).await.lease().is_some());
        assert!(segment.neighbour_reaches(FIP));

        let proof = Proof { member_id: 1, leader: 1, raft_term: 3, at: clock::now() };
        assert_succeeded(&leads.renew(proof).await);
        assert_succeeded(&leads.hand_over().await);
        assert_eq!(view(&table).await.entries, [AliasEntry { prefix_len: 32, valid_for: None, lent: false }]);
        assert_succeeded(&leads.lease().await);
        let lent = view(&table).await;
        assert!(lent.is_lent() && lent.lease().is_some(), "{lent:?}");
        assert_succeeded(&leads.renew(proof).await);
        assert!(view(&table).await.is_lent(), "a renewal keeps the mark");
        assert!(segment.neighbour_reaches(FIP));
        assert_succeeded(&leads.hand_over().await);
        assert_eq!(view(&table).await.entries, [AliasEntry { prefix_len: 32, valid_for: None, lent: false }]);
        assert_succeeded(&leads.announce().await);
        assert!(matches!(leads.release().await, StepOutcome::Refused(_)), "it leads");

        // Spawned, as an executor would.
        let follows = steps(&table, 0);
        let released = tokio::spawn(async move { (follows.apply().await, follows.release().await) }).await.unwrap();
        assert!(matches!(released.0, StepOutcome::Refused(_)), "{released:?}");
        assert_succeeded(&released.1);
        assert!(!view(&table).await.is_held());
    });
}

#[test]
fn leadership_lost_after_the_add_leaves_no_alias() {
    Segment::new().inside(async |_| {
        let table = Arc::new(AliasTable::open().unwrap());
        carrier(&table).await;
        let before_add = steps(&table, 1).apply().await;
        assert!(matches!(before_add, StepOutcome::Refused(_)), "{before_add:?}");
        let after_add = steps(&table, 2).apply().await;
        assert!(matches!(&after_add, StepOutcome::Failed(text) if text.contains("the alias was removed again")), "{after_add:?}");
        assert!(!view(&table).await.is_held());
    });
}

#[test]
fn apply_waits_for_the_holder_to_let_go_and_adds_at_the_first_silence() {
    Segment::new().inside(async |segment| {
        let table = Arc::new(AliasTable::open().unwrap());
        carrier(&table).await;
        segment.on_neighbour(&["address", "add", FIP_TEXT, "dev", "eth0"]);
        let leads = steps(&table, usize::MAX);
        let mut apply = Box::pin(leads.apply());
        let early = tokio::time::timeout(Duration::from_secs(1), &mut apply).await;
        assert!(early.is_err(), "{early:?}");
        assert!(!view(&table).await.is_held());
        segment.on_neighbour(&["address", "delete", FIP_TEXT, "dev", "eth0"]);
        let outcome = apply.await;
        assert_succeeded(&outcome);
        assert!(matches!(&outcome, StepOutcome::Succeeded(text) if text.contains("fell silent after")), "{outcome:?}");
    });
}
