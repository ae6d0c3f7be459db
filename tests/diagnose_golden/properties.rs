//! What holds of the diagnosis of any evidence, and of any change to a golden one.

use fip_watchdog::diagnose::evidence::{Connect, ContainerState};
use fip_watchdog::diagnose::{Cause, Diagnosis, Evidence, Link, Mark, Outcome, SENTENCE_BYTES_MAX, judge};
use proptest::prelude::*;

use crate::{any, case};

/// Longest text of a check.
const TEXT_BYTES_MAX: usize = 400;

fn holds(diagnosis: &Diagnosis) {
    let bad: Vec<_> = diagnosis.checks.iter().filter(|check| check.mark == Mark::Bad).collect();
    assert!(diagnosis.outcome != Outcome::Healthy || bad.is_empty(), "healthy, and {bad:?}");
    assert!(
        diagnosis.outcome != Outcome::Network || !diagnosis.links.is_empty(),
        "the network, and no link: {}",
        diagnosis.sentence
    );
    assert!(matches!(diagnosis.cause, Cause::Healthy | Cause::TooFewMembers) == (diagnosis.outcome == Outcome::Healthy));
    assert!(!diagnosis.sentence.trim().is_empty() && diagnosis.sentence.len() <= SENTENCE_BYTES_MAX);
    assert!(!diagnosis.checks.is_empty() && diagnosis.checks.len() <= 101 && diagnosis.links.len() <= 100);
    assert!(!diagnosis.also.contains(&diagnosis.cause), "{:?} beside {:?}", diagnosis.also, diagnosis.cause);
    let texts = diagnosis.checks.iter().flat_map(|check| [&check.name, &check.seen, &check.means, &check.by_hand]);
    let links = diagnosis.links.iter().flat_map(|link| [&link.from, &link.to]);
    for text in texts.chain(links).chain(&diagnosis.next).chain([&diagnosis.sentence]) {
        assert!(!text.chars().any(char::is_control), "{text:?}");
        assert!(text.len() <= TEXT_BYTES_MAX || *text == diagnosis.sentence, "{} bytes: {text}", text.len());
    }
    for Link { shows, .. } in &diagnosis.links {
        let bounded = |text: &String| text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control);
        assert!(!matches!(shows, Some(Connect::Other(text)) if !bounded(text)), "{shows:?}");
    }
}

fn golden() -> impl Strategy<Value = Evidence> {
    let cases: Vec<Evidence> = case::all().iter().map(|case| case::evidence(case)).collect();
    proptest::sample::select(cases)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_evidence_is_judged(evidence in any::evidence()) {
        holds(&judge(evidence));
    }

    #[test]
    fn parts_of_two_cases_together_are_judged(one in golden(), other in golden(), parts in any::parts()) {
        holds(&judge(any::mixed(one, other, parts)));
    }

    #[test]
    fn what_is_not_seen_makes_nothing_worse(evidence in golden(), parts in any::parts()) {
        // A runtime that lists no etcd is believed when nothing shows that etcd is there.
        let listed = evidence.container.yes().is_none_or(|container| container.state == ContainerState::Running);
        prop_assume!(listed);
        let whole = judge(evidence.clone());
        let less = judge(any::mixed(evidence, Evidence::default(), parts));
        holds(&less);
        prop_assert!(whole.outcome != Outcome::Healthy || matches!(less.outcome, Outcome::Healthy | Outcome::Unknown), "{}", less.sentence);
    }
}
