//! A loop that does not hang: its rounds end, and what is wrong is what it says in them. Pure.
//!
//! It is examined all the same before it is cycled, because it contradicts etcd or will not let go of the FIP; what was known of it goes with it.

use std::time::Duration;

use super::cause::{Cause, Finding};
use super::evidence::Evidence;
use crate::audit::facts::{EtcdFacts, EtcdRole, Facts, HeartbeatFacts, Sense};
use crate::audit::text::span;

/// The finding, if a round ended within the time that one may take.
pub(super) fn goes_on(evidence: &Evidence) -> Option<Finding> {
    let facts: Facts = serde_json::from_value(evidence.facts.clone()).ok()?;
    let Sense::Fresh { value: heartbeat, .. } = facts.heartbeat else { return None };
    let age = heartbeat.last_beat_age_ms.filter(|age| *age <= evidence.round_ms)?;
    let said = heartbeat.verdict.as_deref()?;
    let begin = format!("the loop does not hang, a round ended {} ago", span(Duration::from_millis(age)));
    let (cause, rest) = match facts.etcd {
        Sense::Fresh { value: EtcdFacts::Status { role, raft_term, .. }, .. } => judge(said, &heartbeat, role, raft_term),
        Sense::Fresh { value: EtcdFacts::None { .. }, .. } | Sense::Stale { .. } | Sense::Unknown { .. } => {
            (Cause::Works, format!("and said: {said}; etcd does not answer us"))
        }
    };
    let command = format!("tail -n 40 {}; etcdctl endpoint status -w table", heartbeat.log);
    Some(Finding::new(cause, &format!("{begin} {rest}"), &command))
}

fn judge(said: &str, heartbeat: &HeartbeatFacts, role: EtcdRole, term: u64) -> (Cause, String) {
    let leads = match role {
        EtcdRole::Leader => "leader",
        EtcdRole::Follower | EtcdRole::Learner | EtcdRole::NoLeader => "follower",
    };
    if said != "leader" && said != "follower" {
        return (Cause::Works, format!("and its {said}"));
    }
    if said == leads {
        return (Cause::Works, format!("and said what etcd says: {said}"));
    }
    match heartbeat.raft_term.filter(|seen| *seen < term) {
        // Leadership changes with the term alone: whoever sees the present term sees the present leader.
        Some(seen) => {
            let sentence = format!(
                "and said: {said}, by an answer of term {seen}; etcd is in term {term} and says: {leads}. It goes by an old answer"
            );
            (Cause::StaleAnswer, sentence)
        }
        None => (Cause::Works, format!("and said: {said}, where etcd says: {leads} (term {term})")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const COMMAND: &str = "tail -n 40 /var/log/pods/x/0.log; etcdctl endpoint status -w table";

    fn etcd(role: &str, term: u64) -> Value {
        let status = json!({ "answer": "status", "role": role, "member_id": "1", "leader": "1", "raft_term": term, "revision": 5,
            "errors": [], "version": "3.4.23", "quorum": { "state": "not_asked" } });
        json!({ "state": "fresh", "age_ms": 9, "value": status })
    }

    /// A round that said this, so long ago, by an answer of this term.
    fn evidence(said: &str, age_ms: u64, term: Option<u64>, etcd: &Value) -> Evidence {
        let unknown = json!({ "state": "unknown", "reason": "not looked" });
        let beat = json!({ "last_beat_age_ms": age_ms, "following_ms": 90_000, "last_growth_age_ms": age_ms, "verdict": said,
            "fip": "untouched", "raft_term": term, "log": "/var/log/pods/x/0.log" });
        let facts = json!({ "etcd": etcd, "heartbeat": { "state": "fresh", "age_ms": 3, "value": beat }, "process": unknown,
            "alias": unknown, "manifest": unknown, "kubelet": unknown, "conflict": unknown, "cycle": null, "in_flight": [],
            "paused": null, "resumed_age_ms": null });
        Evidence { round_ms: 16_000, facts, ..Evidence::default() }
    }

    fn found(evidence: &Evidence) -> Option<(Cause, String)> {
        goes_on(evidence).map(|finding| {
            assert_eq!(finding.command, COMMAND);
            (finding.cause, finding.sentence)
        })
    }

    #[test]
    fn an_answer_of_an_older_term_that_contradicts_etcd_is_an_old_answer() {
        let (cause, sentence) = found(&evidence("follower", 2_100, Some(7), &etcd("leader", 8))).unwrap();
        assert_eq!(cause, Cause::StaleAnswer);
        let expected = "the loop does not hang, a round ended 2.1s ago and said: follower, by an answer of term 7; etcd is in term 8 and says: \
                        leader. It goes by an old answer";
        assert_eq!(sentence, expected);
        let (cause, _) = found(&evidence("leader", 16_000, Some(7), &etcd("follower", 9))).unwrap();
        assert_eq!(cause, Cause::StaleAnswer);
    }

    #[test]
    fn a_contradiction_in_the_same_term_or_in_none_that_is_known_is_told_and_not_explained() {
        for (said, term, role) in
            [("follower", Some(8), "leader"), ("leader", None, "follower"), ("leader", Some(9), "no_leader")]
        {
            let (cause, sentence) = found(&evidence(said, 2_000, term, &etcd(role, 8))).unwrap();
            assert_eq!(cause, Cause::Works, "{said}");
            assert!(sentence.contains(&format!("said: {said}, where etcd says: ")), "{sentence}");
        }
    }

    #[test]
    fn a_loop_that_agrees_or_cannot_ask_or_that_nobody_can_check_goes_on() {
        let unreachable =
            json!({ "state": "fresh", "age_ms": 9, "value": { "answer": "none", "fault": "refused", "detail": "" } });
        for (said, etcd, end) in [
            ("follower", etcd("follower", 8), "and said what etcd says: follower"),
            (
                "query failed: curl: (60) certificate has expired",
                etcd("leader", 8),
                "and its query failed: curl: (60) certificate has expired",
            ),
            ("leader", unreachable, "and said: leader; etcd does not answer us"),
        ] {
            let (cause, sentence) = found(&evidence(said, 2_000, Some(7), &etcd)).unwrap();
            assert!(cause == Cause::Works && sentence.ends_with(end), "{cause:?}: {sentence}");
        }
    }

    #[test]
    fn a_loop_whose_last_round_is_older_than_one_may_take_or_that_has_finished_none_does_not() {
        assert_eq!(found(&evidence("follower", 16_001, Some(7), &etcd("leader", 8))), None);
        let mut none = evidence("follower", 0, Some(7), &etcd("leader", 8));
        none.facts["heartbeat"]["value"]["last_beat_age_ms"] = Value::Null;
        assert_eq!(found(&none), None);
        assert_eq!(found(&Evidence { round_ms: 16_000, ..Evidence::default() }), None);
    }
}
