//! One round of questions: `Status` alone, or the proof.
//!
//! ```text
//! a = Status()                      leader known, not a learner
//! at = now                          the proof is dated from here
//! g = linearizable range of one key a quorum answers, or the deadline strikes
//! b = Status()
//! confirmed iff g answered, and member ids, leaders and raft terms are all equal
//! ```
//!
//! A linearizable read is answered only after the leader has exchanged heartbeats with a quorum
//! (raft thesis section 6.4), so a leader that was cut off cannot confirm itself. The proof holds for
//! the instant `at`, not after it. No `require_leader` metadata: etcd checks it once, at the start of
//! the request, where the first `Status` has just told the same; and on `Status` itself it would turn
//! the answer "no leader" into an error.

use std::future::Future;
use std::time::Duration;

use etcd_client::{GetOptions, GetResponse, StatusResponse};
use tokio::time::{Instant, timeout_at};

use super::link::{EtcdLink, Kept, NoClient};
use super::{fault, is_confirmed};
use crate::decision::observation::{EtcdFault, EtcdStatus, EtcdView, Quorum};
use crate::decision::plan::EtcdDepth;
use crate::decision::time::Moment;
use crate::runtime::attend::{Stopwatch, attended};
use crate::runtime::clock;

/// The key that is read: the one that `etcdctl endpoint health` reads. It need not exist.
pub(super) const PROBE_KEY: &str = "health";

/// A gap of this process from which an answer that was in flight is about the past; also how much later than its deadline one
/// may come.
const OWN_PAUSE: Duration = Duration::from_millis(500);

/// An answer that a gap of this process fell into is thrown away, and the question is put once more.
const TRIES: usize = 2;

/// Ask. `Err` is a reason for `Reading::Unknown`.
pub(super) async fn ask(link: &EtcdLink, depth: EtcdDepth) -> Result<EtcdView, String> {
    unpaused(|| ask_once(link, depth)).await
}

/// Puts a question again if this process did not run while the answer was in flight, and gives up if that goes on.
///
/// # Errors
/// As the question, or it was put in vain.
pub async fn unpaused<T, F>(mut question: impl FnMut() -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, String>>,
{
    let mut longest = Duration::ZERO;
    for _ in 0..TRIES {
        let (answer, absence) = attended(question()).await;
        if absence.in_all <= OWN_PAUSE {
            return answer;
        }
        longest = longest.max(absence.in_all);
    }
    Err(format!("this process did not run for {} ms while etcd's answer was in flight", longest.as_millis()))
}

async fn ask_once(link: &EtcdLink, depth: EtcdDepth) -> Result<EtcdView, String> {
    let watch = Stopwatch::start();
    let until = Instant::now() + link.deadline();
    let view = match timeout_at(until, link.client()).await {
        Err(_elapsed) => return Err("the etcd certificates could not be read within the deadline".to_owned()),
        Ok(Err(NoClient::CannotAsk(reason))) => return Err(reason),
        Ok(Err(NoClient::Fault(fault))) => EtcdView::Unreachable(fault),
        Ok(Ok(kept)) => {
            let view = round(link, kept.clone(), depth, until).await;
            if let (EtcdView::Answered(_), Some(reason)) = (&view, link.members.refusal(&kept, until).await) {
                return Err(reason);
            }
            view
        }
    };
    in_time(view, watch.elapsed(), link.deadline())
}

/// What an answer is worth that took so long; `Err` is a reason for `Reading::Unknown`.
///
/// # Errors
/// It is so late that this process itself did not run meanwhile.
pub fn in_time(view: EtcdView, took: Duration, deadline: Duration) -> Result<EtcdView, String> {
    if took > deadline + OWN_PAUSE {
        return Err(format!("etcd's answer is {} ms old: this process did not run meanwhile", took.as_millis()));
    }
    Ok(if took > deadline && is_confirmed(&view) { too_late(view, took) } else { view })
}

async fn round(link: &EtcdLink, mut kept: Kept, depth: EtcdDepth, until: Instant) -> EtcdView {
    let first = match status(link, &mut kept, until).await {
        Ok(first) => first,
        Err(fault) => return EtcdView::Unreachable(fault),
    };
    let quorum = match depth {
        EtcdDepth::Status => Quorum::NotAsked,
        EtcdDepth::Proof => confirm(link, &mut kept, &first, until).await.unwrap_or_else(Quorum::Denied),
    };
    EtcdView::Answered(EtcdStatus { quorum, ..first })
}

/// The second and third question. `Err` says why a quorum did not confirm.
async fn confirm(link: &EtcdLink, kept: &mut Kept, first: &EtcdStatus, until: Instant) -> Result<Quorum, String> {
    if first.leader == 0 {
        let words = if first.errors.is_empty() { "no error given".to_owned() } else { first.errors.join(", ") };
        return Err(format!("the member knows of no leader ({words})"));
    }
    if first.learner {
        return Err("the member is a learner".to_owned());
    }
    let at = clock::now();
    let read = range(link, kept, until).await.map_err(|fault| format!("linearizable read: {}", fault::sentence(&fault)))?;
    let second =
        status(link, kept, until).await.map_err(|fault| format!("status after the read: {}", fault::sentence(&fault)))?;
    let header = read.header().ok_or("the read came without a header")?;
    agree(first, (header.member_id(), header.raft_term()), &second, at)
}

/// Whether the three answers speak of one member, one leader and one term.
///
/// # Errors
/// What they do not agree on.
pub fn agree(
    first: &EtcdStatus,
    (read_member, read_term): (u64, u64),
    second: &EtcdStatus,
    at: Moment,
) -> Result<Quorum, String> {
    if first.member_id == 0 || first.member_id != read_member || read_member != second.member_id {
        return Err(format!("three answers came from members {:x}, {read_member:x} and {:x}", first.member_id, second.member_id));
    }
    if first.leader != second.leader || second.learner {
        return Err(format!("the leader changed from {:x} to {:x} around the read", first.leader, second.leader));
    }
    if first.raft_term != read_term || read_term != second.raft_term {
        return Err(format!("the term moved around the read: {}, {read_term}, {}", first.raft_term, second.raft_term));
    }
    Ok(Quorum::Confirmed { at })
}

async fn status(link: &EtcdLink, kept: &mut Kept, until: Instant) -> Result<EtcdStatus, EtcdFault> {
    let answer = timeout_at(until, kept.client.status()).await;
    settle(link, kept, answer).and_then(|response| translate(&response))
}

async fn range(link: &EtcdLink, kept: &mut Kept, until: Instant) -> Result<GetResponse, EtcdFault> {
    // Linearizable is etcd's default.
    let options = GetOptions::new().with_keys_only().with_limit(1);
    let answer = timeout_at(until, kept.client.get(PROBE_KEY, Some(options))).await;
    settle(link, kept, answer)
}

pub(super) fn settle<T>(
    link: &EtcdLink,
    kept: &Kept,
    answer: Result<Result<T, etcd_client::Error>, tokio::time::error::Elapsed>,
) -> Result<T, EtcdFault> {
    match answer {
        Ok(Ok(value)) => {
            link.answered(kept);
            Ok(value)
        }
        Ok(Err(error)) => Err(link.failed(kept, &error)),
        Err(_elapsed) => {
            link.timed_out(kept);
            Err(EtcdFault::TimedOut)
        }
    }
}

pub(super) fn translate(response: &StatusResponse) -> Result<EtcdStatus, EtcdFault> {
    let header = response.header().ok_or_else(|| EtcdFault::Other("status came without a header".to_owned()))?;
    Ok(EtcdStatus {
        member_id: header.member_id(),
        leader: response.leader(),
        raft_term: response.raft_term(),
        revision: u64::try_from(header.revision()).unwrap_or(0),
        raft_index: response.raft_index(),
        learner: response.is_learner(),
        errors: response.errors().to_vec(),
        version: response.version().to_owned(),
        quorum: Quorum::NotAsked,
    })
}

fn too_late(view: EtcdView, took: Duration) -> EtcdView {
    match view {
        EtcdView::Answered(status) => EtcdView::Answered(EtcdStatus {
            quorum: Quorum::Denied(format!("the proof took {} ms, longer than its deadline", took.as_millis())),
            ..status
        }),
        EtcdView::Unreachable(fault) => EtcdView::Unreachable(fault),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::runtime::clock::Clocks;

    /// The answer to a question during which this process does not run for so many milliseconds, and how often it was put.
    async fn asked_with_gaps(gaps: &[u64]) -> (Result<u32, String>, u32) {
        let clocks = |passed| Clocks { now: Moment::from_origin(passed), boottime: passed, wall: passed };
        let (asked, passed) = (Cell::new(0), Cell::new(Duration::ZERO));
        clock::simulate(Some(clocks(Duration::ZERO)));
        let answer = unpaused(|| {
            let gap = gaps.get(usize::try_from(asked.get()).unwrap()).copied().unwrap_or(0);
            asked.set(asked.get() + 1);
            let (asked, passed) = (&asked, &passed);
            async move {
                passed.set(passed.get() + Duration::from_millis(gap));
                clock::simulate(Some(clocks(passed.get())));
                Ok(asked.get())
            }
        })
        .await;
        clock::simulate(None);
        (answer, asked.get())
    }

    #[tokio::test]
    async fn an_answer_that_was_in_flight_during_a_gap_of_this_process_is_thrown_away() {
        assert_eq!(asked_with_gaps(&[400]).await, (Ok(1), 1));
        assert_eq!(asked_with_gaps(&[700]).await, (Ok(2), 2), "well within etcd's deadline, and about the past");
        let (answer, asked) = asked_with_gaps(&[20_000, 700]).await;
        assert_eq!(asked, 2);
        assert!(answer.is_err_and(|reason| reason.contains("did not run for 19900 ms")));
    }

    fn says(member_id: u64, leader: u64, raft_term: u64) -> EtcdStatus {
        EtcdStatus { member_id, leader, raft_term, ..EtcdStatus::default() }
    }

    #[test]
    fn three_equal_answers_confirm_and_any_difference_denies() {
        let at = Moment::from_origin(Duration::from_secs(7));
        let a = says(5, 5, 2);
        assert_eq!(agree(&a, (5, 2), &a, at), Ok(Quorum::Confirmed { at }));
        // A follower's proof of another leader.
        assert_eq!(agree(&says(5, 9, 2), (5, 2), &says(5, 9, 2), at), Ok(Quorum::Confirmed { at }));
        assert!(agree(&a, (6, 2), &a, at).is_err(), "another member answered the read");
        assert!(agree(&a, (5, 3), &a, at).is_err(), "the read is of another term");
        assert!(agree(&a, (5, 2), &says(6, 5, 2), at).is_err(), "another member answered last");
        assert!(agree(&a, (5, 2), &says(5, 9, 2), at).is_err(), "the leader changed");
        assert!(agree(&a, (5, 2), &says(5, 5, 3), at).is_err(), "the term changed");
        assert!(agree(&says(0, 5, 2), (0, 2), &says(0, 5, 2), at).is_err(), "no member id");
        let learner = EtcdStatus { learner: true, ..a.clone() };
        assert!(agree(&a, (5, 2), &learner, at).is_err(), "became a learner");
    }
}
