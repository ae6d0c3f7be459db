//! `fip-lab run --observe`: any scenario, under watchdogs that only observe and are counted from outside. Pure.
//!
//! Invariant: the same faults in the same order. What only a watchdog that acts would bring about is waited for a while and
//! then given up; everything else is waited for as the file says.

use std::time::Duration;

use super::condition::Kind;
use super::diagnosis::Wish;
use super::expect::{Expect, NodeSince};
use super::file::Scenario;
use super::names::NodeRef;

/// Long enough for etcd and the loops, whose slowest round is 16 s but whose usual one is 5 s.
const UNHEALED: Duration = Duration::from_secs(10);
/// Judging takes the longest: a loop is stalled after 25 s, the conflict sense asks every 30 s.
const JUDGED: Duration = Duration::from_secs(45);

/// The scenario in observe mode: the policy says so, and nothing else is expected than that nothing was changed. None if no
/// watchdog runs in it, so that there is nothing to count.
#[must_use]
pub fn observed(mut scenario: Scenario) -> Option<Scenario> {
    if !scenario.lab.watchdog {
        return None;
    }
    let expects = &mut scenario.expect.value;
    let mut only = expects.pop()?;
    only.value = Expect::WroteNothing(NodeSince { node: NodeRef::All, since: None });
    *expects = vec![only];
    // A policy that is no mapping is refused when the lab is brought up.
    if let Some(policy) = scenario.lab.policy.as_object_mut() {
        policy.insert("mode".to_owned(), "observe".into());
    }
    Some(scenario)
}

/// How long a condition is waited for in observe mode.
#[must_use]
pub fn patience(kind: &Kind, limit: Duration) -> Duration {
    match kind {
        // etcd's own doing.
        Kind::Leader | Kind::LeaderOtherThan => limit,
        // Neither needs a remedy.
        Kind::Recovered | Kind::Diagnosis(_) | Kind::Diagnosed(_) => limit,
        // These follow a remedy; all other verdicts are reached without one.
        Kind::Verdict(verdict) if verdict == "healthy" || verdict == "pod_stuck" => limit.min(UNHEALED),
        Kind::Verdict(_) => limit.min(JUDGED),
        Kind::Healthy
        | Kind::Audit { .. }
        | Kind::Fip(_)
        | Kind::Manifest(_)
        | Kind::Container(_)
        | Kind::AnsweredBy
        | Kind::Silence(_) => limit.min(UNHEALED),
    }
}

/// What a diagnosis finds in observe mode: sharing is writing, so nothing is shared, and a sentence that rests on that is not said.
#[must_use]
pub fn alone(wish: &Wish) -> Wish {
    let says = if wish.says.iter().any(|part| part.contains("was shared")) { Vec::new() } else { wish.says.clone() };
    Wish { says, ..wish.clone() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::check::parse;

    const TEXT: &str = "name: a\nstory: s\nlab: { policy: { mode: enforce, limits: { cooldown: 30s } } }\n\
        steps:\n  - wait: { healthy: all, limit: 90s }\nexpect:\n  - outage: { at_most: 0s }\n  - manifest_intact: { node: all }\n";

    #[test]
    fn whatever_a_file_wants_of_the_mode_it_is_observe_and_the_rest_of_its_policy_stays() {
        let scenario = observed(parse(TEXT, Path::new("a.yaml")).unwrap()).unwrap();
        assert_eq!(scenario.lab.policy, serde_json::json!({ "mode": "observe", "limits": { "cooldown": "30s" } }));
        let expects: Vec<&Expect> = scenario.expect.value.iter().map(|expect| &expect.value).collect();
        assert!(matches!(expects.as_slice(), [Expect::WroteNothing(NodeSince { node: NodeRef::All, since: None })]));
    }

    #[test]
    fn what_only_sharing_tells_is_not_wished_for() {
        let wish = |text: &str| serde_json::from_str::<Wish>(text).unwrap();
        let seen = wish(r#"{ "cause": "peer_unreachable", "says": ["SYNs time out"] }"#);
        assert_eq!(alone(&seen), seen);
        let told = wish(
            r#"{ "cause": "peer_unreachable", "says": ["SYNs time out", "(cp2 cannot reach it either, by what was shared)"] }"#,
        );
        assert_eq!(alone(&told), wish(r#"{ "cause": "peer_unreachable" }"#));
    }

    #[test]
    fn without_a_watchdog_there_is_nothing_to_count() {
        let text = TEXT.replace("lab: {", "lab: { watchdog: false,");
        assert!(observed(parse(&text, Path::new("a.yaml")).unwrap()).is_none());
    }

    #[test]
    fn what_etcd_does_is_waited_for_as_long_as_ever_and_what_nobody_does_is_not() {
        let minute = Duration::from_mins(1);
        assert_eq!(patience(&Kind::LeaderOtherThan, minute), minute);
        assert_eq!(patience(&Kind::Verdict("loop_stalled_follower".to_owned()), minute), JUDGED);
        assert_eq!(patience(&Kind::Verdict("healthy".to_owned()), minute), UNHEALED);
        assert_eq!(patience(&Kind::AnsweredBy, Duration::from_secs(5)), Duration::from_secs(5));
    }
}
