//! Outages, holders and elections, measured on timelines made by hand.

use super::*;
use crate::scenario::event::Fault;

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn ev(at: f64, node: u8, what: What) -> Event {
    Event { at: s(at), node: (node > 0).then(|| Node::new(node)), what }
}

fn seg(from: f64, to: f64, node: u8) -> Segment {
    let heard = if node > 0 { Heard::Node(Node::new(node)) } else { Heard::Silence };
    Segment { from: s(from), to: s(to), heard, answers: 1 }
}

fn fault(name: &str) -> Fault {
    Fault { name: name.to_owned(), args: std::collections::BTreeMap::new() }
}

const FOREVER: What = What::FipHeld(Lifetime::Forever);

#[test]
fn an_outage_without_an_election_counts_in_full() {
    let events = vec![ev(0.0, 1, What::Leads { term: 2 }), ev(0.0, 1, FOREVER)];
    let timeline = Timeline::new(3, s(0.0), s(20.0), events, vec![seg(0.0, 10.0, 1), seg(10.0, 13.0, 0), seg(13.0, 20.0, 1)]);
    let outage = timeline.outages(s(0.0))[0];
    assert_eq!((outage.span.length(), outage.beyond_election()), (s(3.0), s(3.0)));
}

#[test]
fn the_time_in_which_no_etcd_led_is_taken_off_the_outage() {
    let events = vec![ev(0.0, 1, What::Leads { term: 2 }), ev(9.9, 1, What::LeadsNoMore), ev(11.4, 2, What::Leads { term: 3 })];
    let timeline = Timeline::new(3, s(0.0), s(20.0), events, vec![seg(0.0, 10.0, 1), seg(10.0, 13.0, 0), seg(13.0, 20.0, 2)]);
    let outage = timeline.outages(s(0.0))[0];
    assert_eq!(outage.election, s(1.4));
    assert_eq!(outage.beyond_election(), s(1.6));
}

#[test]
fn a_leader_that_was_cut_off_counts_as_no_leader_although_it_goes_on_claiming() {
    let events = vec![
        ev(0.0, 1, What::Leads { term: 2 }),
        ev(10.0, 1, What::Link { up: false }),
        ev(11.2, 2, What::Leads { term: 3 }),
        ev(11.9, 1, What::LeadsNoMore),
    ];
    let timeline = Timeline::new(3, s(0.0), s(20.0), events, vec![seg(0.0, 10.0, 1), seg(10.0, 12.0, 0), seg(12.0, 20.0, 2)]);
    assert_eq!(timeline.outages(s(0.0))[0].election, s(1.2));
}

#[test]
fn a_killed_etcd_begins_an_election_at_the_kill() {
    let events = vec![
        ev(0.0, 1, What::Leads { term: 2 }),
        ev(10.0, 1, What::Fault(fault("etcd-kill"))),
        ev(11.0, 2, What::Leads { term: 3 }),
    ];
    let timeline = Timeline::new(3, s(0.0), s(20.0), events, vec![]);
    assert_eq!(timeline.leaderless(), [Span { from: s(10.0), to: s(11.0) }]);
}

#[test]
fn outages_before_the_lab_was_healthy_do_not_count() {
    let events = vec![ev(5.0, 0, What::Mark(HEALTHY.to_owned()))];
    let timeline = Timeline::new(3, s(0.0), s(20.0), events, vec![seg(0.0, 4.0, 0), seg(4.0, 20.0, 1)]);
    assert!(timeline.outages(timeline.since(None)).is_empty());
}

#[test]
fn two_holders_are_counted_between_the_second_add_and_the_first_delete() {
    let events =
        vec![ev(0.0, 1, FOREVER), ev(10.0, 2, What::FipHeld(Lifetime::Lease)), ev(11.0, 2, FOREVER), ev(11.5, 1, What::FipGone)];
    let timeline = Timeline::new(3, s(0.0), s(20.0), events, vec![]);
    assert_eq!(timeline.two_holders(s(0.0), true), s(1.5));
    assert_eq!(timeline.two_holders(s(11.0), true), s(0.5));
}

#[test]
fn a_holder_behind_a_dead_link_is_an_alias_but_not_a_second_server() {
    let events = vec![ev(0.0, 1, FOREVER), ev(9.0, 1, What::Link { up: false }), ev(10.0, 2, FOREVER)];
    let timeline = Timeline::new(3, s(0.0), s(20.0), events, vec![]);
    assert_eq!(timeline.two_holders(s(0.0), true), s(0.0));
    assert_eq!(timeline.two_holders(s(0.0), false), s(10.0));
}

#[test]
fn a_hand_over_from_one_node_to_the_other_in_one_instant_is_no_double_holding() {
    let events = vec![ev(0.0, 1, FOREVER), ev(10.0, 2, FOREVER), ev(10.0, 1, What::FipGone)];
    let timeline = Timeline::new(3, s(0.0), s(20.0), events, vec![]);
    assert_eq!(timeline.two_holders(s(0.0), true), s(0.0));
}

#[test]
fn gone_to_the_end_needs_a_silent_client_and_no_reachable_holder() {
    let events = vec![ev(0.0, 1, FOREVER), ev(10.0, 1, What::FipGone)];
    let silent = vec![seg(0.0, 10.1, 1), seg(10.1, 50.0, 0)];
    let timeline = Timeline::new(3, s(0.0), s(50.0), events.clone(), silent.clone());
    assert_eq!(timeline.gone_to_end(s(0.0)), s(39.9));
    assert_eq!(timeline.gone_to_end(s(20.0)), s(30.0));
    let answered = vec![seg(0.0, 10.1, 1), seg(10.1, 49.0, 0), seg(49.0, 50.0, 1)];
    assert_eq!(Timeline::new(3, s(0.0), s(50.0), events, answered).gone_to_end(s(0.0)), s(0.0));
    let back = vec![ev(0.0, 1, FOREVER), ev(10.0, 1, What::FipGone), ev(48.0, 2, FOREVER)];
    assert_eq!(Timeline::new(3, s(0.0), s(50.0), back, silent).gone_to_end(s(0.0)), s(0.0));
}

#[test]
fn events_are_judged_in_the_order_of_their_stamps_whatever_order_they_arrived_in() {
    let events = vec![ev(12.0, 1, What::FipGone), ev(0.0, 1, FOREVER)];
    let timeline = Timeline::new(3, s(0.0), s(20.0), events, vec![]);
    assert_eq!(timeline.held(Node::new(1), Lifetime::Forever), [Span { from: s(0.0), to: s(12.0) }]);
}
