//! The manifest cycle: out, wait for the old pod's real death, in, verify; safe against a crash at any call.
//!
//! ```text
//!   plan ──► Intended ──► backup ──► Out ──► (old pod dies, or is killed, settle) ──► Back ──► verify ──► closed
//!     │                     │         │                                                 ▲
//!     └────── refused ──────┘         └────────── any failure, stop, deadline ──────────┘
//! ```
//!
//! `plan` says why not, `place` moves files, `run` waits and announces, `recover` finishes what an earlier
//! life left open. Invariant I2: the manifest directory ends with the manifest that should be there.
//!
//! **Cancellation.** [`CycleExecutor::run`] must not be dropped while the manifest is out: stop it through
//! its stop channel. If it is dropped (or killed) all the same, the entry stays open in the journal, and
//! [`CycleExecutor::recover`] puts the manifest back.

mod kill;
mod place;
mod plan;
mod pod_watch;
mod recover;
mod run;
#[cfg(test)]
mod tests;
mod wait;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use super::durable_fs::{Fs, FsError};
use super::journal::{Journal, JournalError, PastCycle, Stamp};
use crate::decision::observation::{CyclePhase, CycleView};
use crate::policy::Policy;
use crate::runtime::clock;
use crate::sensor::manifest::Wanted;

pub use kill::Kill;
pub use plan::Refusal;
pub use pod_watch::{PodState, PodWatch, ProcCgroupWatch};
pub use recover::Recovered;
pub use wait::{Missing, Verify};

/// What a cycle needs of the policy; taken anew for each cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CycleSettings {
    /// The manifest and its pod.
    pub wanted: Wanted,
    /// Where the manifest waits while it is out.
    pub staging_dir: PathBuf,
    /// Where journal and backups live.
    pub state_dir: PathBuf,
    /// Least time out, and least time between the old pod's end and in.
    pub settle: Duration,
    /// How long the manifest has been out when the loop's process is killed by us; `None` is never.
    pub kill_after: Option<Duration>,
    /// How long the old pod may take beyond its grace period, or after it was killed.
    pub death_margin: Duration,
    /// How long the new pod may take to beat.
    pub verify_timeout: Duration,
}

impl From<&Policy> for CycleSettings {
    fn from(policy: &Policy) -> Self {
        let watched = &policy.watched_loop;
        Self {
            wanted: Wanted {
                manifest: watched.manifest.clone(),
                namespace: watched.namespace.clone(),
                name: watched.pod.clone(),
            },
            staging_dir: policy.cycle.staging_dir.clone(),
            state_dir: policy.state_dir.clone(),
            settle: policy.cycle.settle,
            kill_after: policy.cycle.kill_after,
            death_margin: policy.cycle.death_margin,
            verify_timeout: policy.cycle.verify_timeout,
        }
    }
}

impl CycleSettings {
    fn backup_dir(&self) -> PathBuf {
        self.state_dir.join("backups")
    }
}

/// Why a cycle, or the recovery of one, did not go on.
#[derive(Debug, thiserror::Error)]
pub enum CycleError {
    /// A call failed; nothing is lost.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The journal cannot be used. [`JournalError::Corrupt`] means: stop acting, alarm.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The manifest was changed between the look and the rename.
    #[error("{} changed while it was taken out", .0.display())]
    Changed(PathBuf),
    /// A precondition does not hold.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The kernel does not say which boot this is.
    #[error("cannot read the boot id")]
    BootId(#[source] std::io::Error),
    /// A blocking task died.
    #[error("a task of the manifest cycle broke off")]
    Task(#[source] tokio::task::JoinError),
}

/// Carries out cycles, one at a time.
pub struct CycleExecutor {
    fs: Fs,
    journal: Journal,
    view: watch::Sender<Option<CycleView>>,
    busy: Mutex<()>,
}

impl CycleExecutor {
    /// An executor with its journal in `state_dir`; nothing is read or written yet.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self::with_fs(Fs::default(), state_dir)
    }

    /// As [`Self::new`], on a file system whose calls a test can fail.
    #[must_use]
    pub fn with_fs(fs: Fs, state_dir: &Path) -> Self {
        let journal = Journal::new(fs.clone(), state_dir);
        Self { fs, journal, view: watch::Sender::new(None), busy: Mutex::new(()) }
    }

    /// The open cycle, for the observation. Stays until its entry is closed in the journal.
    #[must_use]
    pub fn view(&self) -> Option<CycleView> {
        self.view.borrow().clone()
    }

    /// Announces each phase, `None` once the cycle is closed.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Option<CycleView>> {
        self.view.subscribe()
    }

    fn announce(&self, phase: Option<CyclePhase>) {
        self.view.send_replace(phase.map(|phase| CycleView { phase }));
    }

    /// Finishes a cycle that is open in the journal. Call it before anything else at the start, and again
    /// from time to time while [`Self::view`] shows an open cycle that no step in flight accounts for (the
    /// last attempt failed, say on a read-only disk). Waits at most for the settle time that the manifest
    /// still has to be out; writes nothing if no cycle is open.
    ///
    /// # Errors
    /// A damaged journal (stop acting, alarm), or a call failed and the entry stays open.
    pub async fn recover(&self) -> Result<Option<Recovered>, CycleError> {
        let _only_one = self.busy.lock().await;
        self.finish_open().await
    }

    async fn finish_open(&self) -> Result<Option<Recovered>, CycleError> {
        let now = stamp()?;
        let open = self.blocking(|_, journal| Ok(journal.load()?.open)).await?;
        self.announce(open.as_ref().map(super::journal::OpenCycle::phase));
        let Some(open) = open.map(Arc::new) else { return Ok(None) };
        let entry = Arc::clone(&open);
        let wait = self.blocking(move |fs, _| recover::wait_before(fs, &entry, &now)).await?;
        tokio::time::sleep(wait).await;
        let now = stamp()?;
        let recovered = self.blocking(move |fs, journal| recover::finish(fs, journal, &open, now)).await?;
        self.announce(None);
        Ok(Some(recovered))
    }

    /// The cycles before now, newest first, for cooldown and budget after a start. Writes nothing.
    ///
    /// # Errors
    /// The journal cannot be read, or is damaged.
    pub async fn recent(&self) -> Result<Vec<PastCycle>, CycleError> {
        let now = stamp()?;
        let log = self.blocking(|_, journal| Ok(journal.load()?)).await?;
        Ok(log.recent(now.boottime(), &now.boot_id))
    }

    /// Runs file system work where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Fs, &Journal) -> Result<T, CycleError> + Send + 'static,
    ) -> Result<T, CycleError> {
        let (fs, journal) = (self.fs.clone(), self.journal.clone());
        tokio::task::spawn_blocking(move || work(&fs, &journal)).await.map_err(CycleError::Task)?
    }
}

/// Now, as the journal stamps it.
fn stamp() -> Result<Stamp, CycleError> {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(CycleError::BootId)?;
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Ok(Stamp { boot_id: boot_id.trim().to_owned(), boottime_ms: ms(clock::boottime()), wall_ms: ms(clock::wall()) })
}

/// An error with its causes, once each, for a sentence in the audit.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
