//! The steps against a scripted etcd, kernel and wire.

mod apply;
mod fake;

use crate::decision::step::StepOutcome;
use crate::runtime::clock;
use std::time::Duration;

use crate::decision::observation::AliasEntry;
use crate::policy::OnConflict;
use fake::{Fake, LENT, LOOPS, OURS, Says, assert_refused, assert_succeeded, proof};

#[tokio::test(start_paused = true)]
async fn renew_needs_a_lease_and_makes_a_new_proof_when_the_given_one_is_old() {
    let fresh = Fake::new(&[Says::Nothing], &[], &[OURS]);
    assert_succeeded(&fresh.steps(OnConflict::TakeOver).renew(proof(1, Duration::from_millis(500))).await);
    assert_eq!(fresh.world().log, ["read", "set_lifetime", "read"]);

    let old = Fake::new(&[Says::Nothing], &[], &[OURS]);
    assert_refused(&old.steps(OnConflict::TakeOver).renew(proof(1, Duration::from_secs(3))).await, &old);

    let again = Fake::new(&[Says::Here], &[], &[OURS]);
    assert_succeeded(&again.steps(OnConflict::TakeOver).renew(proof(1, Duration::from_secs(3))).await);

    let elsewhere = Fake::new(&[Says::Here], &[], &[OURS]);
    assert_refused(&elsewhere.steps(OnConflict::TakeOver).renew(proof(2, Duration::ZERO)).await, &elsewhere);

    for entries in [&[LOOPS][..], &[]] {
        let fake = Fake::new(&[Says::Here], &[], entries);
        assert_refused(&fake.steps(OnConflict::TakeOver).renew(proof(1, Duration::ZERO)).await, &fake);
    }
}

#[tokio::test(start_paused = true)]
async fn hand_over_makes_the_alias_last_for_ever_on_a_proven_leader_alone() {
    let fake = Fake::new(&[Says::Here], &[], &[OURS]);
    assert_succeeded(&fake.steps(OnConflict::TakeOver).hand_over().await);
    assert_eq!(fake.world().entries, [LOOPS]);

    let again = Fake::new(&[Says::Here], &[], &[LOOPS]);
    assert_succeeded(&again.steps(OnConflict::TakeOver).hand_over().await);
    assert!(!again.world().touched());

    for (says, entries) in [(Says::Nothing, &[OURS][..]), (Says::Elsewhere, &[OURS]), (Says::Here, &[])] {
        let fake = Fake::new(&[says], &[], entries);
        assert_refused(&fake.steps(OnConflict::TakeOver).hand_over().await, &fake);
    }
}

#[tokio::test(start_paused = true)]
async fn the_loops_alias_is_leased_renewed_as_such_and_goes_back_as_it_was() {
    let fake = Fake::new(&[Says::Here], &[], &[LOOPS]);
    let steps = fake.steps(OnConflict::TakeOver);
    assert_succeeded(&steps.lease().await);
    assert_eq!(fake.world().entries, [LENT]);
    assert_succeeded(&steps.renew(proof(1, Duration::ZERO)).await);
    assert_eq!(fake.world().entries, [LENT]);
    assert_succeeded(&steps.hand_over().await);
    assert_eq!(fake.world().entries, [LOOPS]);
}

#[tokio::test(start_paused = true)]
async fn no_alias_is_leased_or_handed_over_without_a_young_proof() {
    for says in [Says::Nothing, Says::Elsewhere, Says::HereAgo(Duration::from_secs(3))] {
        let fake = Fake::new(&[says], &[], &[LOOPS]);
        assert_refused(&fake.steps(OnConflict::TakeOver).lease().await, &fake);
        let fake = Fake::new(&[says], &[], &[LENT]);
        assert_refused(&fake.steps(OnConflict::TakeOver).hand_over().await, &fake);
    }
}

#[tokio::test(start_paused = true)]
async fn release_removes_unless_the_local_member_is_proven_to_lead() {
    for says in [Says::Nothing, Says::Elsewhere] {
        let odd = AliasEntry { prefix_len: 24, valid_for: None, lent: false };
        let fake = Fake::new(&[says], &[], &[LOOPS, odd]);
        assert_succeeded(&fake.steps(OnConflict::TakeOver).release().await);
        assert!(fake.world().entries.is_empty());
        // Once more: absence is success.
        assert_succeeded(&fake.steps(OnConflict::TakeOver).release().await);
    }
    let leads = Fake::new(&[Says::Here], &[], &[LOOPS]);
    assert_refused(&leads.steps(OnConflict::TakeOver).release().await, &leads);
}

#[tokio::test(start_paused = true)]
async fn announce_speaks_only_where_the_alias_is_and_the_member_leads() {
    let fake = Fake::new(&[Says::Here], &[], &[LOOPS]);
    assert_succeeded(&fake.steps(OnConflict::TakeOver).announce().await);
    for (says, entries) in [(Says::Nothing, &[LOOPS][..]), (Says::Elsewhere, &[LOOPS]), (Says::Here, &[])] {
        let fake = Fake::new(&[says], &[], entries);
        assert_refused(&fake.steps(OnConflict::TakeOver).announce().await, &fake);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lifetime_that_was_given_by_a_machine_that_stood_still_is_proved_again_or_taken_back() {
    for (then, left) in [(Says::Here, 1), (Says::Elsewhere, 0), (Says::Nothing, 0)] {
        for hands_over in [false, true] {
            let proofs = if hands_over { &[Says::Here, then][..] } else { &[then] };
            let fake = Fake::new(proofs, &[], &[OURS]);
            fake.world().stands_still = Some(Duration::from_secs(6));
            let steps = fake.steps(OnConflict::TakeOver);
            let outcome = if hands_over { steps.hand_over().await } else { steps.renew(proof(1, Duration::ZERO)).await };
            clock::simulate(None);
            assert_eq!(fake.world().entries.len(), left, "{outcome:?}");
            assert_eq!(matches!(outcome, StepOutcome::Succeeded(_)), left == 1, "{outcome:?}");
        }
    }
}
