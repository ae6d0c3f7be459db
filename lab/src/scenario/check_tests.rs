//! Scenario files that are refused, each with its line.

use super::*;

const HEAD: &str = "name: t\nstory: s\n";
const WAIT: &str = "- wait: { healthy: all, limit: 30s }\n";
const EXPECT: &str = "expect:\n- outage: { at_most: 2s }\n";

fn flaws(text: &str) -> Vec<(u64, String)> {
    parse(text, Path::new("t.yaml")).err().unwrap_or_default().into_iter().map(|flaw| (flaw.line, flaw.what)).collect()
}

fn assert_refused(text: &str, line: u64, what: &str) {
    let found = flaws(text);
    assert!(found.iter().any(|(at, said)| *at == line && said.contains(what)), "wanted {line}: {what}, got {found:?}\n{text}");
}

#[test]
fn a_plain_scenario_is_accepted() {
    assert_eq!(flaws(&format!("{HEAD}steps:\n{WAIT}{EXPECT}")), []);
}

#[test]
fn a_scenario_that_sets_a_wall_clock_is_known_by_its_faults() {
    let sets = |args: &str| {
        let text = format!("{HEAD}steps:\n{WAIT}- fault: {{ name: clock-jump, node: cp1, args: {{ {args} }} }}\n{EXPECT}");
        parse(&text, Path::new("t.yaml")).unwrap().sets_wall_clock()
    };
    assert!(sets("by: +1h") && sets("by: -1h, clock: realtime"));
    assert!(!sets("by: '30', clock: boottime"));
    assert!(!parse(&format!("{HEAD}steps:\n{WAIT}{EXPECT}"), Path::new("t.yaml")).unwrap().sets_wall_clock());
}

#[test]
fn a_scenario_that_expects_nothing_is_refused() {
    assert_refused(&format!("{HEAD}steps:\n{WAIT}expect: []\n"), 5, "expects nothing");
    // The parser places a missing key somewhere in the mapping that lacks it.
    let missing = flaws(&format!("{HEAD}steps:\n{WAIT}"));
    assert!(matches!(missing.as_slice(), [(1.., what)] if what.contains("missing field `expect`")), "{missing:?}");
}

#[test]
fn a_node_that_the_lab_does_not_have_is_refused_before_it_is_brought_up() {
    let fault = |node: &str| format!("- fault: {{ name: loop-stop, node: {node} }}\n");
    assert_refused(&format!("{HEAD}lab: {{ nodes: 2 }}\nsteps:\n{WAIT}{}{EXPECT}", fault("cp3")), 6, "no cp3: it has 2 nodes");
    assert_refused(&format!("{HEAD}steps:\n{WAIT}{}{EXPECT}", fault("cp9")), 5, "no cp9");
    assert_refused(&format!("{HEAD}steps:\n{WAIT}expect:\n- never_holds: {{ node: cp4 }}\n"), 6, "no cp4");
    assert_eq!(flaws(&format!("{HEAD}lab: {{ nodes: 2 }}\nsteps:\n{WAIT}{}{EXPECT}", fault("cp2"))), []);
}

#[test]
fn a_scenario_without_steps_and_a_policy_that_is_none_are_refused() {
    assert_refused(&format!("{HEAD}steps: []\n{EXPECT}"), 1, "without steps");
    assert_refused(&format!("{HEAD}lab: {{ policy: [a] }}\nsteps:\n{WAIT}{EXPECT}"), 1, "no mapping");
}

#[test]
fn a_value_that_a_fault_does_not_know_is_refused_at_its_line() {
    let step = "- fault: { name: partition, node: cp1, args: { direction: sideways } }\n";
    assert_refused(&format!("{HEAD}steps:\n{WAIT}{step}{EXPECT}"), 5, "must be one of both, in, out");
}

#[test]
fn an_expectation_that_cannot_fail_is_refused() {
    for empty in ["outage: {}", "verdicts: { node: cp1 }", "steps: { node: all, never: [] }"] {
        assert_refused(&format!("{HEAD}steps:\n{WAIT}expect:\n- {empty}\n"), 6, "never fail");
    }
}

#[test]
fn unknown_keys_are_refused_at_their_line() {
    assert_refused(&format!("{HEAD}storey: s\nsteps:\n{WAIT}{EXPECT}"), 3, "storey");
    assert_refused(&format!("{HEAD}steps:\n- wait: {{ healty: all, limit: 1s }}\n{EXPECT}"), 4, "healty");
    assert_refused(&format!("{HEAD}steps:\n- wiat: {{ healthy: all, limit: 1s }}\n{EXPECT}"), 4, "wiat");
    assert_refused(&format!("{HEAD}lab: {{ nodes: 0 }}\nsteps:\n{WAIT}{EXPECT}"), 1, "no number of nodes");
    assert_refused(&format!("{HEAD}lab: {{ graze: 5s }}\nsteps:\n{WAIT}{EXPECT}"), 3, "graze");
    assert_refused(&format!("{HEAD}steps:\n{WAIT}expect:\n- outages: {{ at_most: 2s }}\n"), 6, "outages");
}

#[test]
fn unknown_names_are_refused_at_their_line() {
    let steps = |step: &str| format!("{HEAD}steps:\n{WAIT}- {step}\n{EXPECT}");
    assert_refused(&steps("fault: { name: loop-stopp, node: cp1 }"), 5, "no fault `loop-stopp`");
    assert_refused(&steps("fault: { name: loop-stop, node: cp0 }"), 5, "`cp0` is no node");
    assert_refused(&steps("wait: { verdict: helthy, node: cp1, limit: 1s }"), 5, "no verdict `helthy`");
    assert_refused(&steps("wait: { step_succeeded: apply, node: cp1, limit: 1s }"), 5, "no step `apply`");
    assert_refused(&steps("fault: { name: partition, node: cp1, args: { peer: cp2 } }"), 5, "takes no `peer`");
    assert_refused(&steps("fault: { name: kubelet-mode, node: cp1 }"), 5, "needs `mode`");
    assert_refused(&steps("wait: { diagnosis: { cause: inbound_blokked }, node: cp1, limit: 1s }"), 5, "no cause of a diagnosis");
    assert_refused(
        &steps("wait: { diagnosis: { cause: healthy, outcome: fine }, node: cp1, limit: 1s }"),
        5,
        "no outcome `fine`",
    );
    assert_refused(
        &steps("wait: { diagnosis: { cause: healthy, says: [\"$X leads\"] }, node: cp1, limit: 1s }"),
        5,
        "`$X` was not bound",
    );
    assert_refused(&steps("wait: { diagnosis: { sentence: x }, node: cp1, limit: 1s }"), 5, "sentence");
    assert_refused(&steps("wait: { diagnosed: fine, node: cp1, limit: 1s }"), 5, "no cause of a diagnosis `fine`");
    assert_refused(&steps("wait: { audit: begun, node: cp1, limit: 1s }"), 5, "no audit event `begun`");
}

#[test]
fn a_wait_without_limit_or_with_anything_but_one_condition_is_refused() {
    let wait = |wait: &str| format!("{HEAD}steps:\n- wait: {{ {wait} }}\n{EXPECT}");
    assert_refused(&wait("healthy: all"), 4, "limit");
    assert_refused(&wait("limit: 5s"), 4, "needs a condition");
    assert_refused(&wait("limit: 5s, verdict: healthy"), 4, "needs a `node`");
    assert_refused(&wait("limit: 5s, healthy: all, silence: 1s"), 4, "one condition");
    assert_refused(&wait("limit: 5s, healthy: all, node: cp1"), 4, "no place here");
    assert_refused(&wait("limit: 5s, leader: all"), 4, "not `all`");
    assert_refused(&wait("limit: 5, healthy: all"), 4, "length of time");
}

#[test]
fn variables_and_marks_must_exist_before_they_are_used() {
    let steps = |steps: &str, expect: &str| format!("{HEAD}steps:\n{WAIT}{steps}expect:\n- {expect}\n");
    let quiet = "outage: { at_most: 2s }";
    assert_refused(&steps("- fault: { name: loop-stop, node: $F }\n- let: { follower: F }\n", quiet), 5, "`$F` was not bound");
    assert_refused(&steps("- fault: { name: partition, node: cp1, args: { peers: 'cp2,$G' } }\n", quiet), 5, "`$G`");
    assert_refused(&steps("- mark: a\n- mark: a\n", quiet), 6, "set twice");
    assert_refused(&steps("- mark: a\n", "outage: { at_most: 2s, since: b }"), 7, "the mark `b`");
    assert_refused(&steps("- hold: 1s\n", "holder_at_end: { node: $F }"), 7, "`$F` was not bound");
    assert_eq!(flaws(&steps("- let: { follower: F }\n- mark: a\n", "never_holds: { node: $F, since: a }")), []);
}

#[test]
fn every_flaw_is_reported_at_once() {
    let text = format!("{HEAD}steps:\n- hold: 0s\n- wait: {{ limit: 1s }}\nexpect:\n- outage: {{}}\n");
    assert_eq!(flaws(&text).len(), 3);
}

#[test]
fn the_name_is_that_of_the_file() {
    assert_refused(&format!("name: other\nstory: s\nsteps:\n{WAIT}{EXPECT}"), 1, "name of the file");
}

#[test]
fn every_scenario_that_ships_is_accepted() {
    let mut count = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if let Err(flaws) = parse(&text, &path) {
            panic!("{}: {flaws:?}", path.display());
        }
        count += 1;
    }
    assert!(count >= 12, "only {count} scenarios");
}
