//! What the local member says of itself: `Status`, its alarms, and whether a quorum answers one linearizable read.
//!
//! Invariant: a member that hangs is given up in time, and its connection soon after. May be dropped at any await.

use std::time::Duration;

use crate::decision::observation::EtcdFault;
use crate::diagnose::evidence::{LocalStatus, MemberId, Seen, StatusAnswer};
use crate::policy::Policy;
use crate::sensor::etcd::{Examination, examine};

/// For each of the two questions: a healthy member answers in milliseconds, one that is cut off takes 7 s to say so.
const DEADLINE: Duration = Duration::from_millis(1300);

/// A text of etcd's, at most.
const TEXT_BYTES_MAX: usize = 300;

/// Kinds of alarms; there are two.
const ALARMS_MAX: usize = 8;

/// See the module's head.
pub(super) async fn look(policy: &Policy) -> Seen<LocalStatus> {
    match examine(&policy.etcd, DEADLINE).await {
        Ok(examination) => Seen::Yes(told(examination)),
        Err(reason) => Seen::No(reason),
    }
}

fn told(examination: Examination) -> LocalStatus {
    match examination {
        Examination::Failed(fault) => LocalStatus { answer: failed(fault), ..LocalStatus::default() },
        Examination::Answered { status, db_size, took, read } => LocalStatus {
            answer: StatusAnswer::Answered,
            alarms: alarms(status.alarms()),
            version: clip(&status.version),
            member_id: MemberId(status.member_id),
            leader: MemberId(status.leader),
            learner: status.learner,
            // A learner refuses the read, whatever the quorum does.
            quorum_read: if status.learner { None } else { Some(read.is_ok()) },
            db_size,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        },
    }
}

fn failed(fault: EtcdFault) -> StatusAnswer {
    match fault {
        EtcdFault::Refused => StatusAnswer::Refused,
        EtcdFault::TimedOut => StatusAnswer::TimedOut,
        EtcdFault::Tls(text) => StatusAnswer::Tls(clip(&text)),
        EtcdFault::Other(text) => StatusAnswer::Other(clip(&text)),
    }
}

/// The kinds of `memberID:4711 alarm:NOSPACE`, each once: every member raises its own.
fn alarms<'a>(errors: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut kinds: Vec<String> = errors.filter_map(|error| error.split("alarm:").nth(1)).map(|kind| clip(kind.trim())).collect();
    kinds.sort();
    kinds.dedup();
    kinds.truncate(ALARMS_MAX);
    kinds
}

fn clip(text: &str) -> String {
    crate::audit::text::clip(text, TEXT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::observation::EtcdStatus;

    fn answered(status: EtcdStatus, read: Result<(), EtcdFault>) -> LocalStatus {
        told(Examination::Answered { status, db_size: 20_480, took: Duration::from_millis(7), read })
    }

    #[test]
    fn alarms_are_named_once_whoever_raised_them() {
        let errors =
            ["memberID:1 alarm:NOSPACE ", "memberID:2 alarm:NOSPACE ", "etcdserver: no leader", "memberID:2 alarm:CORRUPT "];
        let status = EtcdStatus { errors: errors.map(str::to_owned).to_vec(), ..EtcdStatus::default() };
        assert_eq!(answered(status, Ok(())).alarms, ["CORRUPT", "NOSPACE"]);
    }

    #[test]
    fn a_learner_was_not_asked_for_the_quorum() {
        let learner = EtcdStatus { learner: true, ..EtcdStatus::default() };
        assert_eq!(answered(learner, Err(EtcdFault::Other("rpc not supported for learner".to_owned()))).quorum_read, None);
        assert_eq!(answered(EtcdStatus::default(), Err(EtcdFault::TimedOut)).quorum_read, Some(false));
        assert_eq!(answered(EtcdStatus::default(), Ok(())).quorum_read, Some(true));
    }

    #[test]
    fn each_way_to_fail_is_told_apart_and_its_text_is_clipped() {
        for (fault, answer) in [
            (EtcdFault::Refused, StatusAnswer::Refused),
            (EtcdFault::TimedOut, StatusAnswer::TimedOut),
            (EtcdFault::Tls("no\nissuer".to_owned()), StatusAnswer::Tls("no issuer".to_owned())),
            (EtcdFault::Other("odd".to_owned()), StatusAnswer::Other("odd".to_owned())),
        ] {
            assert_eq!(told(Examination::Failed(fault)).answer, answer);
        }
    }
}
