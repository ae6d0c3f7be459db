//! The loop's process: present, in which state, and whether it makes progress, independent of its log.
//!
//! A frozen log is not a frozen loop (the runtime's log reader may be dead), so progress is read from the kernel. Each
//! round of a shell loop runs `sleep`, `curl` and others, and when the shell reaps one, the kernel adds that child's page
//! faults and CPU time to the shell's (`wait4`): these sums grow with every round and with nothing else. The shell's own
//! context switches are no measure, and neither are its page faults: SIGSTOP, SIGCONT, the freezer and any signal cause
//! some in a loop that gets nowhere.
//!
//! The shell is found by its cgroup, which carries the pod's uid, with a full look at `/proc` that is made only when the
//! known (pid, start time) is gone, at most once a second, and to recount copies every half minute. Otherwise a call reads
//! two small files. Blocking, never for long; a call that is abandoned leaves the state whole.

mod proc_files;
mod search;

use std::time::Duration;

use proc_files::Counters;
pub(crate) use proc_files::is_init_in;
use search::Found;
pub(crate) use search::PodNames;

use crate::decision::observation::{LoopProcess, ProcessView, Reading};
use crate::decision::time::Moment;

/// Least time between two full looks while the loop's process is not there: a look costs some ms of CPU.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

/// Time between two full looks while it is, to notice a second copy.
const RECOUNT_EVERY: Duration = Duration::from_secs(30);

/// How long after it was found it is looked for anew each [`SEARCH_EVERY`]: while a container starts, the process on top
/// of its tree may be the one that makes its namespaces, and not yet the shell.
const SETTLES_AFTER: Duration = Duration::from_secs(5);

/// The sense that watches the loop's process.
#[derive(Debug, Default)]
pub struct ProcessSensor {
    uid: Option<String>,
    known: Option<Known>,
    searched_at: Option<Moment>,
    absent_since: Option<Moment>,
}

/// The process that was found, as of the last call.
#[derive(Debug)]
struct Known {
    found: Found,
    counters: Counters,
    found_at: Moment,
    progress_at: Moment,
}

impl ProcessSensor {
    /// A sensor that has not looked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the loop's process. `pod_uid` is the uid in the name of the pod's log directory. Blocking.
    pub fn read(&mut self, now: Moment, pod_uid: Option<&str>) -> Reading<ProcessView> {
        let Some(uid) = pod_uid else {
            return Reading::Unknown("the uid of the loop's pod is not known: no log directory of it was found".to_owned());
        };
        if self.uid.as_deref() != Some(uid) {
            *self = Self { uid: Some(uid.to_owned()), ..Self::default() };
        }
        let seen = self.look_at_known(now);
        let seen = if self.is_search_due(now, seen.is_some()) {
            self.searched_at = Some(now);
            match search::find(uid) {
                Ok(found) => self.take_found(now, found),
                Err(error) => return Reading::Unknown(error.to_string()),
            }
        } else {
            seen
        };
        let value = if let Some(process) = seen {
            self.absent_since = None;
            ProcessView::Present(process)
        } else {
            self.known = None;
            ProcessView::Absent { since: *self.absent_since.get_or_insert(now) }
        };
        Reading::Fresh { value, at: now }
    }

    fn is_search_due(&self, now: Moment, is_there: bool) -> bool {
        let has_settled = self.known.as_ref().is_some_and(|known| now.since(known.found_at) >= SETTLES_AFTER);
        let wait = if is_there && has_settled { RECOUNT_EVERY } else { SEARCH_EVERY };
        self.searched_at.is_none_or(|at| now.since(at) >= wait)
    }

    /// One narrow read of the known process; `None` if it is gone.
    fn look_at_known(&mut self, now: Moment) -> Option<LoopProcess> {
        let known = self.known.as_mut()?;
        let counters = proc_files::counters(known.found.pid).filter(|counters| counters.is(known.found.start_ticks))?;
        if counters.show_progress_since(&known.counters) {
            known.progress_at = now;
        }
        known.counters = counters;
        Some(known.view())
    }

    /// Takes over the result of a full look, keeping what is known of the same process.
    fn take_found(&mut self, now: Moment, found: Option<Found>) -> Option<LoopProcess> {
        let found = found?;
        match &mut self.known {
            Some(known) if (known.found.pid, known.found.start_ticks) == (found.pid, found.start_ticks) => known.found = found,
            known => {
                let counters = proc_files::counters(found.pid).filter(|counters| counters.is(found.start_ticks))?;
                *known = Some(Known { found, counters, found_at: now, progress_at: now });
            }
        }
        self.known.as_ref().map(Known::view)
    }
}

impl Known {
    fn view(&self) -> LoopProcess {
        LoopProcess {
            pid: self.found.pid,
            start_ticks: self.found.start_ticks,
            state: self.counters.state,
            progress_at: self.progress_at,
            seen_since: self.found_at,
            wchan: proc_files::wchan(self.found.pid),
            copies: self.found.copies,
        }
    }
}

#[cfg(test)]
mod tests;
