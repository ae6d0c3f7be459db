//! `apply`: every order in which the world can change around it.

use std::time::Duration;

use super::fake::{ANSWER, Fake, LOOPS, OURS, SILENT, Says, assert_refused, assert_succeeded, text};
use crate::decision::step::StepOutcome;
use crate::policy::OnConflict;

#[tokio::test(start_paused = true)]
async fn apply_on_a_free_address_proves_adds_announces_and_proves_again() {
    let fake = Fake::new(&[Says::Here], &[SILENT], &[]);
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert_succeeded(&outcome);
    assert!(text(&outcome).contains("term 4") && text(&outcome).contains(" ms)"), "{outcome:?}");
    assert_eq!(fake.world().log, ["prove", "read", "probe", "add", "read", "announce", "prove"]);
    assert_eq!(fake.world().entries, [OURS]);
}

#[tokio::test(start_paused = true)]
async fn an_old_proof_is_made_again_right_before_the_add() {
    let fake = Fake::new(&[Says::HereAgo(Duration::from_secs(1)), Says::Here], &[SILENT], &[]);
    assert_succeeded(&fake.steps(OnConflict::TakeOver).apply().await);
    assert_eq!(fake.world().log, ["prove", "read", "probe", "prove", "add", "read", "announce", "prove"]);

    let lost = Fake::new(&[Says::HereAgo(Duration::from_secs(1)), Says::Elsewhere], &[SILENT], &[]);
    assert_refused(&lost.steps(OnConflict::TakeOver).apply().await, &lost);
}

#[tokio::test(start_paused = true)]
async fn a_denied_proof_or_another_leader_refuses_and_touches_nothing() {
    for says in [Says::Nothing, Says::Elsewhere] {
        let fake = Fake::new(&[says], &[SILENT], &[]);
        assert_refused(&fake.steps(OnConflict::TakeOver).apply().await, &fake);
        assert_eq!(fake.world().did("probe"), 0, "not even a packet is sent");
    }
}

#[tokio::test(start_paused = true)]
async fn no_link_an_unreadable_interface_or_an_alias_in_place_refuse_and_touch_nothing() {
    let down = Fake::new(&[Says::Here], &[SILENT], &[]);
    down.world().link = false;
    assert_refused(&down.steps(OnConflict::TakeOver).apply().await, &down);

    let missing = Fake::new(&[Says::Here], &[SILENT], &[]);
    missing.world().unreadable = true;
    let outcome = missing.steps(OnConflict::TakeOver).apply().await;
    assert_refused(&outcome, &missing);
    assert!(text(&outcome).starts_with("interface eth0 does not exist"), "{outcome:?}");

    let held = Fake::new(&[Says::Here], &[SILENT], &[LOOPS]);
    assert_refused(&held.steps(OnConflict::TakeOver).apply().await, &held);
}

#[tokio::test(start_paused = true)]
async fn leadership_lost_after_the_add_takes_the_alias_off_again_and_says_so() {
    for says in [Says::Nothing, Says::Elsewhere] {
        let fake = Fake::new(&[Says::Here, says], &[SILENT], &[]);
        let outcome = fake.steps(OnConflict::TakeOver).apply().await;
        assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
        assert!(text(&outcome).contains("the alias was removed again"), "{outcome:?}");
        assert!(fake.world().entries.is_empty());
        assert_eq!(fake.world().log.last(), Some(&"remove"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_says_that_the_lease_ends() {
    let fake = Fake::new(&[Says::Here, Says::Nothing], &[SILENT], &[]);
    fake.world().remove_fails = true;
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert!(text(&outcome).contains("lease ends within 10 s"), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn an_add_that_hangs_after_it_took_effect_is_undone() {
    let fake = Fake::new(&[Says::Here], &[SILENT], &[]);
    fake.world().add_hangs = true;
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
    assert!(fake.world().entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_is_dropped_after_the_add_leaves_a_lease_and_nothing_more() {
    let fake = Fake::new(&[Says::Here], &[SILENT], &[]);
    fake.world().add_hangs = true;
    let steps = fake.steps(OnConflict::TakeOver);
    assert!(tokio::time::timeout(Duration::from_secs(1), steps.apply()).await.is_err());
    assert_eq!(fake.world().entries, [OURS]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_add_fails_and_announces_nothing() {
    let fake = Fake::new(&[Says::Here], &[SILENT], &[]);
    fake.world().add_fails = true;
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
    assert!(text(&outcome).contains("operation not permitted"), "{outcome:?}");
    assert_eq!(fake.world().did("announce"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_announcement_leaves_the_alias_up_and_says_so() {
    let fake = Fake::new(&[Says::Here], &[SILENT], &[]);
    fake.world().announce_fails = true;
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert_succeeded(&outcome);
    assert!(text(&outcome).contains("not announced (cannot announce the FIP on eth0: permission denied"), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_ends_is_waited_out_with_a_proof_between_probes_whatever_the_policy() {
    for on_conflict in [OnConflict::TakeOver, OnConflict::Wait, OnConflict::Alarm] {
        let fake = Fake::new(&[Says::Here], &[ANSWER, ANSWER, SILENT], &[]);
        let outcome = fake.steps(on_conflict).apply().await;
        assert_succeeded(&outcome);
        assert!(text(&outcome).contains("fell silent after 400 ms"), "{outcome:?}");
        assert_eq!(fake.world().did("probe"), 3);
        assert_eq!(fake.world().did("prove"), 4, "once, once after each answer, once after the add");
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_lost_while_waiting_out_a_conflict_refuses_and_touches_nothing() {
    let fake = Fake::new(&[Says::Here, Says::Here, Says::Elsewhere], &[ANSWER], &[]);
    assert_refused(&fake.steps(OnConflict::TakeOver).apply().await, &fake);
}

#[tokio::test(start_paused = true)]
async fn an_endless_conflict_is_taken_over_after_one_worst_round_with_the_mac_as_evidence() {
    let fake = Fake::new(&[Says::Here], &[ANSWER], &[]);
    let started = tokio::time::Instant::now();
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert_succeeded(&outcome);
    assert!(text(&outcome).contains("taken over from 02:00:00:00:00:09"), "{outcome:?}");
    assert!(started.elapsed() >= Duration::from_secs(16));
    assert_eq!(fake.world().entries, [OURS]);
}

#[tokio::test(start_paused = true)]
async fn an_endless_conflict_alarms_or_waits_to_the_limit_and_touches_nothing_when_the_policy_says_so() {
    for (on_conflict, at_least) in [(OnConflict::Alarm, 16), (OnConflict::Wait, 48)] {
        let fake = Fake::new(&[Says::Here], &[ANSWER], &[]);
        let started = tokio::time::Instant::now();
        let outcome = fake.steps(on_conflict).apply().await;
        assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
        assert!(text(&outcome).contains("nothing was changed"), "{outcome:?}");
        assert!(!fake.world().touched());
        assert!(started.elapsed() >= Duration::from_secs(at_least));
    }
}

#[tokio::test(start_paused = true)]
async fn an_alias_that_the_loop_puts_up_meanwhile_is_announced_and_never_undone() {
    // While a conflict is waited out, and between the probe and the add.
    for (probes, at_probe) in [(vec![ANSWER], 2), (vec![SILENT], 1)] {
        let kept = Fake::new(&[Says::Here], &probes, &[]);
        kept.world().loop_adds_after_probes = Some(at_probe);
        let outcome = kept.steps(OnConflict::TakeOver).apply().await;
        assert_succeeded(&outcome);
        assert!(text(&outcome).contains("put up by the loop meanwhile"), "{outcome:?}");
        assert_eq!(kept.world().entries, [LOOPS]);
        assert_eq!(kept.world().did("announce"), 1);
    }
    let lost = Fake::new(&[Says::Here, Says::Nothing], &[SILENT], &[]);
    lost.world().loop_adds_after_probes = Some(1);
    let outcome = lost.steps(OnConflict::TakeOver).apply().await;
    assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
    assert_eq!(lost.world().did("remove"), 0);
    assert_eq!(lost.world().entries, [LOOPS]);
}
