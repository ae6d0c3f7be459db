//! Expectations, judged on timelines made by hand.

use super::*;
use crate::probe::outage::{Heard, Segment};
use crate::scenario::check;
use crate::scenario::event::Container;
use crate::scenario::measure::HEALTHY;

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn ev(at: f64, node: u8, what: What) -> Event {
    Event { at: s(at), node: (node > 0).then(|| Node::new(node)), what }
}

fn audit(at: f64, node: u8, event: &str, verdict: Option<&str>, step: Option<&str>) -> Event {
    let audit =
        Audit { event: event.to_owned(), verdict: verdict.map(str::to_owned), step: step.map(str::to_owned), ..Audit::default() };
    ev(at, node, What::Audit(audit))
}

fn container(at: f64, node: u8, id: &str, running: bool) -> Event {
    ev(at, node, What::Container(Container { id: id.to_owned(), attempt: 0, running }))
}

fn evidence(mut events: Vec<Event>) -> Evidence {
    events.push(ev(5.0, 0, What::Mark(HEALTHY.to_owned())));
    let client = vec![
        Segment { from: s(0.0), to: s(20.0), heard: Heard::Node(Node::new(1)), answers: 1 },
        Segment { from: s(20.0), to: s(23.0), heard: Heard::Silence, answers: 0 },
        Segment { from: s(23.0), to: s(60.0), heard: Heard::Node(Node::new(2)), answers: 1 },
    ];
    Evidence {
        timeline: Timeline::new(3, s(0.0), s(60.0), events, client),
        variables: BTreeMap::from([("F".to_owned(), Node::new(2))]),
        directories: BTreeMap::new(),
        deeds: BTreeMap::new(),
    }
}

fn judge(evidence: &Evidence, expect: &str) -> (bool, String) {
    let text = format!("name: t\nstory: s\nsteps:\n- let: {{ follower: F }}\n- mark: m\nexpect:\n- {expect}\n");
    let scenario = check::parse(&text, std::path::Path::new("t.yaml")).unwrap();
    let finding = evidence.judge(&scenario.expect.value[0].value);
    (finding.passed, finding.measured)
}

#[test]
fn outages_are_held_against_both_bounds() {
    let run =
        evidence(vec![ev(0.0, 1, What::Leads { term: 1 }), ev(20.0, 1, What::LeadsNoMore), ev(21.5, 2, What::Leads { term: 2 })]);
    assert!(judge(&run, "outage: { at_most: 3s }").0);
    assert_eq!(judge(&run, "outage: { at_most: 2s }"), (false, "3.00 s".to_owned()));
    assert!(judge(&run, "outage: { at_most: 2s, beyond_election: true }").0);
    assert!(!judge(&run, "outage: { at_least: 4s }").0);
}

#[test]
fn verdicts_are_a_subsequence_and_the_forbidden_ones_are_found() {
    let run = evidence(vec![
        audit(1.0, 2, "verdict_changed", Some("starting"), None),
        audit(10.0, 2, "verdict_changed", Some("loop_stalled_follower"), None),
        audit(20.0, 2, "verdict_changed", Some("loop_stalled_fip_missing"), None),
        audit(30.0, 2, "verdict_changed", Some("healthy"), None),
    ]);
    assert!(judge(&run, "verdicts: { node: $F, in_order: [loop_stalled_follower, healthy] }").0);
    assert!(!judge(&run, "verdicts: { node: $F, in_order: [healthy, loop_stalled_follower] }").0);
    assert!(!judge(&run, "verdicts: { node: $F, never: [loop_stalled_follower] }").0);
    assert!(judge(&run, "verdicts: { node: $F, never: [starting] }").0, "what came before the lab was healthy does not count");
}

#[test]
fn steps_that_began_break_only_and_never_and_those_that_succeeded_make_the_order() {
    let run = evidence(vec![
        audit(10.0, 2, "step_started", None, Some("apply_alias")),
        audit(11.0, 2, "step_succeeded", None, Some("apply_alias")),
        audit(12.0, 2, "step_started", None, Some("cycle_manifest")),
    ]);
    assert!(judge(&run, "steps: { node: $F, in_order: [apply_alias] }").0);
    assert!(!judge(&run, "steps: { node: $F, in_order: [apply_alias, cycle_manifest] }").0);
    assert!(!judge(&run, "steps: { node: $F, never: [cycle_manifest] }").0);
    assert!(!judge(&run, "steps: { node: all, only: [apply_alias] }").0);
    assert!(judge(&run, "steps: { node: $F, only: [apply_alias, cycle_manifest] }").0);
    assert_eq!(judge(&run, "steps: { node: cp3, only: [] }"), (true, "nothing".to_owned()));
}

#[test]
fn every_autopsy_must_find_the_cause_and_there_must_be_one() {
    let autopsy = |at: f64, cause: &str| {
        let audit = Audit { event: "hang_autopsied".to_owned(), cause: Some(cause.to_owned()), ..Audit::default() };
        ev(at, 2, What::Audit(audit))
    };
    let expect = "autopsy: { node: $F, cause: stopped }";
    assert_eq!(judge(&evidence(vec![autopsy(20.0, "stopped")]), expect), (true, "stopped".to_owned()));
    let both = evidence(vec![autopsy(20.0, "stopped"), autopsy(30.0, "unknown")]);
    assert_eq!(judge(&both, expect), (false, "stopped, unknown".to_owned()));
    assert_eq!(judge(&evidence(vec![]), expect), (false, "nothing".to_owned()));
    assert!(!judge(&evidence(vec![autopsy(1.0, "stopped")]), expect).0, "what came before the lab was healthy does not count");
}

#[test]
fn the_holder_at_the_end_is_alone_and_has_the_lifetime() {
    let lease = What::FipHeld(Lifetime::Lease);
    let run =
        evidence(vec![ev(1.0, 1, What::FipHeld(Lifetime::Forever)), ev(20.0, 1, What::FipGone), ev(22.0, 2, lease.clone())]);
    assert!(judge(&run, "holder_at_end: { node: $F }").0);
    assert_eq!(judge(&run, "holder_at_end: { node: $F, lifetime: forever }"), (false, "cp2, by a lease".to_owned()));
    let two = evidence(vec![ev(1.0, 1, lease.clone()), ev(22.0, 2, lease)]);
    assert!(!judge(&two, "holder_at_end: { node: $F }").0);
}

#[test]
fn a_new_container_has_another_id_and_runs() {
    assert!(judge(&evidence(vec![container(1.0, 2, "a", true), container(30.0, 2, "b", true)]), "new_container: { node: $F }").0);
    assert!(
        !judge(&evidence(vec![container(1.0, 2, "a", true), container(30.0, 2, "b", false)]), "new_container: { node: $F }").0
    );
    assert!(!judge(&evidence(vec![container(1.0, 2, "a", true)]), "new_container: { node: $F }").0);
    assert!(!judge(&evidence(vec![]), "new_container: { node: $F }").0);
}

#[test]
fn never_holds_and_quiet_look_only_at_the_time_from_their_mark() {
    let mut events = vec![ev(1.0, 2, What::FipHeld(Lifetime::Forever)), ev(10.0, 2, What::FipGone)];
    events.push(ev(15.0, 0, What::Mark("m".to_owned())));
    events.push(audit(12.0, 2, "verdict_changed", Some("healthy"), None));
    events.push(audit(16.0, 2, "step_succeeded", None, Some("announce_alias")));
    let run = evidence(events);
    assert!(!judge(&run, "never_holds: { node: $F }").0);
    assert!(judge(&run, "never_holds: { node: $F, since: m }").0);
    assert_eq!(judge(&run, "holds: { node: $F, at_most: 4s }"), (false, "5.00 s".to_owned()));
    assert!(judge(&run, "holds: { node: $F, at_most: 5s }").0);
    assert_eq!(judge(&run, "journal_quiet: { node: $F, at_most: 0 }"), (false, "2".to_owned()));
    assert!(judge(&run, "journal_quiet: { node: $F, at_most: 0, since: m, except_steps: [announce_alias] }").0);
}

#[test]
fn a_manifest_directory_that_was_not_read_is_not_intact() {
    assert!(!judge(&evidence(vec![]), "manifest_intact: { node: all }").0);
}

#[test]
fn a_variable_that_a_failed_run_never_bound_is_named() {
    let mut run = evidence(vec![]);
    run.variables.clear();
    assert_eq!(judge(&run, "never_holds: { node: $F }"), (false, "$F was never bound".to_owned()));
}

#[test]
fn what_is_said_may_stand_in_the_message_or_in_the_reason_and_not_before_the_mark() {
    let said = |at, message: &str, reason: Option<&str>| {
        let audit = Audit {
            event: "verdict_changed".to_owned(),
            message: message.to_owned(),
            reason: reason.map(str::to_owned),
            ..Audit::default()
        };
        ev(at, 2, What::Audit(audit))
    };
    let run = evidence(vec![said(1.0, "too early", None), said(10.0, "loop_blind", Some("the certificate has expired"))]);
    assert_eq!(judge(&run, "says: { node: $F, text: certificate }"), (true, "in verdict_changed".to_owned()));
    assert!(judge(&run, "says: { node: $F, text: blind }").0);
    assert!(!judge(&run, "says: { node: $F, text: early }").0);
    assert!(!judge(&run, "says: { node: all, text: certificate }").0, "only one node said it");
}

#[test]
fn a_watchdog_that_nobody_counted_is_neither_proven_quiet_nor_seen_to_act() {
    let run = evidence(Vec::new());
    assert!(!judge(&run, "wrote_nothing: { node: $F }").0);
    assert!(!judge(&run, "changed_something: { node: $F }").0);
}
