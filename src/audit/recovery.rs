//! The entry that says that etcd is well again: how long it was not, and what was lost meanwhile. Pure.

use std::time::Duration;

use serde_json::json;

use super::diagnosed::word;
use super::event::Entry;
use super::text::{millis, span};
use crate::decision::verdict::Verdict;
use crate::diagnose::Cause;

/// A trouble of etcd that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The verdict now.
    pub verdict: Verdict,
    /// From the first round in which etcd was unwell to the first of those that were well at the end.
    pub lasted: Duration,
    /// The verdicts that there were meanwhile.
    pub verdicts: Vec<Verdict>,
    /// The last one that a diagnosis said.
    pub cause: Option<Cause>,
    /// Where the FIP was.
    pub fip: FipLoss,
    /// Who led.
    pub leadership: Leadership,
    /// How many times the audit said that a step was refused.
    pub refused: u64,
}

/// Where the FIP was in a trouble, as far as this node knows: it sees its own interface alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FipLoss {
    /// Here when it began; `None` when that could not be told.
    pub was_here: Option<bool>,
    /// Here now.
    pub is_here: Option<bool>,
    /// How long it was gone from here, after it had been here: until it came back, or until etcd was well where it is not here now.
    pub away: Duration,
    /// When it came, counted from the beginning, where it was not here before.
    pub arrived_after: Option<Duration>,
}

/// Changes of the leadership in a trouble, as far as the local member told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leadership {
    /// How many times another member led than before.
    pub changes: u32,
    /// The first term that was seen, and the last.
    pub terms: Option<(u64, u64)>,
}

impl Recovery {
    pub(super) fn entry(&self) -> Entry {
        let names: Vec<&str> = self.verdicts.iter().map(|verdict| verdict.name()).collect();
        let cause = self.cause.map(|cause| word(&cause));
        let because = cause.as_ref().map(|cause| format!(" (cause: {cause})")).unwrap_or_default();
        let (fip, lost) = (self.fip, self.lost());
        let message = format!("etcd is well again after {} of {}{because}: {lost}", span(self.lasted), names.join(", "));
        Entry {
            message,
            verdict: Some(self.verdict),
            reason: Some(lost),
            duration_ms: Some(millis(self.lasted)),
            cause,
            evidence: Some(json!({
                "verdicts": names,
                "fip": {
                    "was_here": fip.was_here,
                    "is_here": fip.is_here,
                    "away_ms": millis(fip.away),
                    "arrived_after_ms": fip.arrived_after.map(millis),
                },
                "leader_changes": self.leadership.changes,
                "terms": self.leadership.terms,
                "steps_refused": self.refused,
            })),
            ..Entry::default()
        }
    }

    /// What was lost, in words.
    fn lost(&self) -> String {
        let mut parts = vec![self.fip.words()];
        parts.push(match (self.leadership.changes, self.leadership.terms) {
            (_, None) => "who led could not be seen".to_owned(),
            (0, Some((first, last))) if first == last => "the leadership did not change".to_owned(),
            (0, Some((first, last))) => format!("the same member leads as before (term {first}, now {last})"),
            (1, Some((first, last))) => format!("the leadership changed once (term {first}, now {last})"),
            (changes, Some((first, last))) => format!("the leadership changed {changes} times (term {first}, now {last})"),
        });
        match self.refused {
            0 => {}
            1 => parts.push("one step was refused".to_owned()),
            refused => parts.push(format!("{refused} steps were refused")),
        }
        parts.join("; ")
    }
}

impl FipLoss {
    fn words(&self) -> String {
        let away = span(self.away);
        match (self.was_here, self.is_here, self.arrived_after) {
            (Some(true), Some(true), _) if self.away.is_zero() => "the FIP was here all the time".to_owned(),
            (Some(true), Some(true), _) => format!("the FIP was gone from here for {away} and is here again"),
            (Some(true), Some(false), _) if self.away.is_zero() => {
                "the FIP was here until etcd was well, and is not here now".to_owned()
            }
            (Some(true), Some(false), _) => {
                format!("the FIP had been gone from here for {away} when etcd was well, and is not here now")
            }
            (Some(false), Some(true), Some(after)) => {
                format!("the FIP was not here when it began, came {} after that and is here now", span(after))
            }
            (Some(false), Some(true), None) => "the FIP was not here when it began and is here now".to_owned(),
            (Some(false), Some(false), _) => {
                "the FIP was not here when it began and is not here now; another node knows how long clients missed it".to_owned()
            }
            (Some(true), None, _) => format!("the FIP was here when it began, gone for {away}; where it is now cannot be told"),
            (Some(false) | None, _, _) => "where the FIP was cannot be told".to_owned(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn sample() -> Recovery {
        Recovery {
            verdict: Verdict::Healthy,
            lasted: Duration::from_secs(134),
            verdicts: vec![Verdict::NoQuorum],
            cause: Some(Cause::PeerPortBlocked),
            fip: FipLoss { was_here: Some(true), is_here: Some(true), away: Duration::from_secs(118), arrived_after: None },
            leadership: Leadership { changes: 1, terms: Some((7, 12)) },
            refused: 2,
        }
    }

    #[test]
    fn a_recovery_says_how_long_it_was_and_what_was_lost() {
        assert_eq!(
            sample().entry().message,
            "etcd is well again after 2m 14s of no_quorum (cause: peer_port_blocked): the FIP was gone from here for 1m 58s and is here \
             again; the leadership changed once (term 7, now 12); 2 steps were refused"
        );
    }

    #[test]
    fn where_the_fip_left_it_is_said_for_how_long_it_was_gone_when_etcd_was_well() {
        let left = |seconds| {
            let fip =
                FipLoss { was_here: Some(true), is_here: Some(false), away: Duration::from_secs(seconds), arrived_after: None };
            Recovery { fip, ..sample() }.entry().reason.unwrap()
        };
        let later = "; the leadership changed once (term 7, now 12); 2 steps were refused";
        assert_eq!(left(21), format!("the FIP had been gone from here for 21s when etcd was well, and is not here now{later}"));
        assert_eq!(left(0), format!("the FIP was here until etcd was well, and is not here now{later}"));
    }

    #[test]
    fn what_this_node_cannot_know_it_does_not_say() {
        let fip = FipLoss { was_here: Some(false), is_here: Some(false), ..FipLoss::default() };
        let entry = Recovery { cause: None, fip, leadership: Leadership::default(), refused: 0, ..sample() }.entry();
        assert_eq!(
            entry.message,
            "etcd is well again after 2m 14s of no_quorum: the FIP was not here when it began and is not here now; another node knows \
             how long clients missed it; who led could not be seen"
        );
        assert_eq!((entry.cause, entry.evidence.unwrap()["fip"]["away_ms"].as_u64()), (None, Some(0)));
    }
}
