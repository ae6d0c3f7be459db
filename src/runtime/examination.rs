//! When a hung loop is examined, and what is known of it.
//!
//! Each cycle has an autopsy before it. Where none follows (observe mode, a spent budget, a loop that is only mute), one is made
//! once an episode, [`WAIT`] after it began. Nothing here reads or waits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::autopsy::Case;
use crate::decision::observation::{Observation, ProcessView};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::policy::{Mode, Policy};

/// A cycle that answers the verdict begins within its first rounds; then this one is not needed.
const WAIT: Duration = Duration::from_secs(5);

/// A time during which the loop hangs, in one way or another.
#[derive(Debug, Default)]
pub(super) struct Episode {
    since: Option<Moment>,
    examined: bool,
}

impl Episode {
    /// Whether the loop is to be examined now, with no cycle to come before that. True once an episode.
    pub(super) fn is_due(&mut self, verdict: Verdict, cycle_in_flight: bool, now: Moment) -> bool {
        if !hangs(verdict) {
            *self = Self::default();
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let due = !self.examined && !cycle_in_flight && now.since(since) >= WAIT;
        // The cycle has an autopsy of its own.
        self.examined |= due || cycle_in_flight;
        due
    }
}

const fn hangs(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::LoopStalledFipMissing
            | Verdict::LoopStalledFipHeld
            | Verdict::LoopStalledFollower
            | Verdict::LogStalled
            | Verdict::LoopAbsent
    )
}

/// The loop as it was last seen: what hangs may take its senses with it.
#[derive(Debug, Default)]
pub(super) struct LastSeen {
    process: Option<(u32, u64)>,
    log: Option<PathBuf>,
}

impl LastSeen {
    /// Remembers what this round saw.
    pub(super) fn note(&mut self, observation: &Observation) {
        if let Some(ProcessView::Present(process)) = observation.process.fresh() {
            self.process = Some((process.pid, process.start_ticks));
        }
        if let Some(heartbeat) = observation.heartbeat.fresh()
            && self.log.as_ref() != Some(&heartbeat.log)
        {
            self.log = Some(heartbeat.log.clone());
        }
    }

    /// The case for an autopsy.
    pub(super) fn case(&self, policy: &Policy, verdict: Verdict, facts: Value) -> Case {
        Case {
            verdict,
            process: self.process,
            log: self.log.clone(),
            uids: self.log.as_deref().and_then(uid).into_iter().collect(),
            worst_round: policy.watched_loop.worst_round(),
            facts,
            may_write: policy.mode == Mode::Enforce,
        }
    }
}

/// The pod's uid in `<namespace>_<pod>-<node>_<uid>/<container>/<restarts>.log`.
fn uid(log: &Path) -> Option<String> {
    let pod = log.parent()?.parent()?.file_name()?.to_str()?;
    Some(pod.rsplit_once('_')?.1.to_owned()).filter(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn an_episode_without_a_cycle_is_examined_once() {
        let mut episode = Episode::default();
        let due = |ms| (ms, Verdict::LogStalled);
        let answers: Vec<bool> = [due(0), due(4_999), due(5_000), due(6_000), (7_000, Verdict::Healthy), due(8_000), due(13_000)]
            .into_iter()
            .map(|(ms, verdict)| episode.is_due(verdict, false, at(ms)))
            .collect();
        assert_eq!(answers, [false, false, true, false, false, false, true]);
    }

    #[test]
    fn a_cycle_makes_the_episodes_autopsy_itself() {
        let mut episode = Episode::default();
        let verdict = Verdict::LoopStalledFollower;
        assert!(!episode.is_due(verdict, true, at(0)) && !episode.is_due(verdict, false, at(60_000)));
    }

    #[test]
    fn the_pods_uid_is_in_the_name_of_its_log_directory() {
        let path = Path::new("/var/log/pods/kube-system_wcp-fip-cp1_4bf9a416/wcp-fip/0.log");
        assert_eq!(uid(path).as_deref(), Some("4bf9a416"));
        for odd in ["/0.log", "/a/0.log", "/var/log/pods/x/y/0.log", "/a_/b/0.log"] {
            assert_eq!(uid(Path::new(odd)), None, "{odd}");
        }
    }
}
