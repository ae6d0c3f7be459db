//! The model can fail: whatever is removed, something breaks, and nothing does while it is in force.

use std::collections::BTreeSet;
use std::time::Duration;

use fip_model::contract::Broken;
use fip_model::fault::FENCING;
use fip_model::removal::{REMOVALS, What};
use fip_model::report::explore;
use fip_model::world::{Cluster, Start};
use fip_watchdog::decision::guard::{Guard, Guards};

/// Far beyond what any search here needs, in a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn every_guard_that_is_removed_gives_a_counterexample() {
    for removal in &REMOVALS {
        let found = explore(removal.cluster(), LIMIT, 1);
        let counterexample =
            found.counterexample.unwrap_or_else(|| panic!("nothing breaks without {}: {removal:?}", removal.what));
        assert_eq!(counterexample.broken, [removal.breaks], "without {}", removal.what);
    }
}

#[test]
fn no_guard_is_left_out() {
    let covered: BTreeSet<_> = REMOVALS
        .iter()
        .filter_map(|removal| match removal.what {
            What::Guard(guard) => Some(guard),
            What::StepsOwnProof | What::Lease | What::GapInRound | What::Remedies => None,
        })
        .collect();
    assert_eq!(covered, BTreeSet::from(Guard::ALL));
}

/// The steps' own proofs and the kernel's lease are behind every one of them.
#[test]
fn without_any_one_guard_a_single_fault_lets_no_two_leases_meet_for_long() {
    for guard in Guard::ALL {
        let whole = Cluster { start: Start::LoopsFrozen, ..Cluster::new(FENCING, 1) };
        let watch = (1 << Broken::TwoHolders as u8) | (1 << Broken::LeaseOutlivesProof as u8);
        let found = explore(Cluster { guards: Guards::without(guard), watch, ..whole }, LIMIT, 1);
        assert!(found.complete && found.counterexample.is_none(), "without {guard:?}: {found:?}");
    }
}
