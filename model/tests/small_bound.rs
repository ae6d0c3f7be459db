//! The exploration in a bound that every test run affords; `make model` goes further.

use std::time::Duration;

use fip_model::fault::{EVERYTHING, FENCING, Fault, MANIFEST, Menu};
use fip_model::report::explore;
use fip_model::world::{Cluster, Start};
use fip_watchdog::decision::step::StepKind;

/// Far beyond what these searches need, in a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

fn holds(cluster: &Cluster) {
    let found = explore(cluster.clone(), LIMIT, 1);
    if let Some(counterexample) = found.counterexample {
        panic!("{:?} after\n{}", counterexample.broken, counterexample.story.join("\n"));
    }
    assert!(found.complete, "only {} states in {:?}", found.states, found.took);
}

#[test]
fn any_single_fault_and_its_repair_leave_every_invariant_whole() {
    holds(&Cluster { hand: true, ..Cluster::new(EVERYTHING, 1) });
}

#[test]
fn watchdogs_alone_keep_one_holder_through_any_single_fault() {
    holds(&Cluster { start: Start::LoopsFrozen, ..Cluster::new(FENCING, 1) });
}

#[test]
fn two_faults_around_the_manifest_reach_every_step_and_break_nothing() {
    let cluster = Cluster::new(MANIFEST, 2);
    holds(&cluster);
    for step in [StepKind::CycleManifest, StepKind::AnnounceAlias] {
        assert!(cluster.has_reached(step, true), "{step:?} never ended well");
    }
}

/// Found by the model: readings from before the daemon was stopped were judged with ages from after it.
#[test]
fn a_pause_in_the_middle_of_a_round_is_no_stall() {
    let menu = Menu { name: "pause", faults: &[Fault::AliasDeleted, Fault::EtcdToCome] };
    holds(&Cluster::new(menu, 2));
}
