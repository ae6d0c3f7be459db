//! Every combination of states, each played on its own: what a single timeline cannot show.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::Policy;

use crate::expected::Expected;
use crate::find::Case;
use crate::run::run_from;
use crate::state::Patch;
use crate::timeline::Timeline;

/// What all combinations came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many ended in which verdict.
    pub ends_in: BTreeMap<Verdict, usize>,
    /// Each step, the verdicts under which it was started, and one of the combinations.
    pub acts: BTreeMap<StepKind, BTreeMap<Verdict, Patch>>,
}

/// What all combinations of a case come to; played once for all who ask.
pub fn played(case: &Case) -> Arc<Tally> {
    static PLAYED: Mutex<BTreeMap<String, Arc<Tally>>> = Mutex::new(BTreeMap::new());
    let mut played = PLAYED.lock().unwrap_or_else(PoisonError::into_inner);
    let tally =
        played.entry(case.name.clone()).or_insert_with(|| Arc::new(play(case.policy.as_ref().unwrap(), &case.observations)));
    Arc::clone(tally)
}

fn play(policy: &Policy, timeline: &Timeline) -> Tally {
    let mut tally = Tally::default();
    for begin in combinations(timeline) {
        let seen = run_from(policy, timeline, &begin);
        let at_the_end = seen.verdicts.last().map_or(Verdict::Starting, |(_, verdict)| *verdict);
        *tally.ends_in.entry(at_the_end).or_default() += 1;
        for (at, step) in &seen.steps {
            let verdict = seen.verdicts.iter().rfind(|(since, _)| since <= at).map_or(Verdict::Starting, |(_, verdict)| *verdict);
            tally.acts.entry(*step).or_default().entry(verdict).or_insert_with(|| begin.clone());
        }
    }
    tally
}

fn combinations(timeline: &Timeline) -> Vec<Patch> {
    timeline.vary.values().fold(vec![timeline.node.clone()], |begins, states| {
        begins.iter().flat_map(|begin| states.iter().map(|state| begin.and(state))).collect()
    })
}

/// Every expectation that was not met, as sentences.
pub fn complaints(expected: &Expected, tally: &Tally) -> Vec<String> {
    let mut found = Vec::new();
    if expected.combinations_end_in != tally.ends_in {
        found.push(format!("the combinations end in {:?}", tally.ends_in));
    }
    for step in StepKind::ALL {
        let allowed = expected.acts_only_in.get(&step).cloned().unwrap_or_default();
        let under = tally.acts.get(&step).cloned().unwrap_or_default();
        let elsewhere = under.iter().filter(|(verdict, _)| !allowed.contains(verdict));
        found.extend(elsewhere.map(|(verdict, begin)| format!("{} is started under {verdict}: {begin:?}", step.name())));
        let unused = allowed.iter().filter(|verdict| !under.contains_key(verdict));
        found.extend(unused.map(|verdict| format!("{} is never started under {verdict}", step.name())));
    }
    found
}
