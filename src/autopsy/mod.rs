//! The hang autopsy: what the loop hung on, saved before anything is killed, and told in plain words.
//!
//! ```text
//!   gather (side by side, 0.8 s at most) ──► Evidence ──► cause (pure) ──► journal entry, and a file if we enforce
//!   tree · process · outputs · places                                       store
//! ```
//!
//! Invariants: it only reads, and sends no signal; it is bounded in time, processes, bytes and threads; whatever fails in it
//! is a line of the evidence and never keeps a remedy from going on. May be dropped at any await.

pub mod cause;
pub mod evidence;
mod gather;
mod goes_on;
mod outputs;
mod places;
mod process;
pub mod store;
#[cfg(test)]
mod tests;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};

use crate::actuator::durable_fs::Fs;
use crate::audit::text::millis;
use crate::decision::verdict::Verdict;
use crate::runtime::clock;

pub use cause::{Cause, Finding, cause};
pub use evidence::Evidence;
pub(crate) use places::frozen;

/// How long a cycle waits for the autopsy before it goes on without.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// How long writing the file may take; the entry in the journal waits for its number.
const WRITE_TIME: Duration = Duration::from_secs(2);

/// The loop that is examined.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// What it is examined for.
    pub verdict: Verdict,
    /// The shell, as it was last seen: pid and start time.
    pub process: Option<(u32, u64)>,
    /// The log, as it was last seen.
    pub log: Option<PathBuf>,
    /// The pod's uids.
    pub uids: Vec<String>,
    /// The longest that a healthy round may take.
    pub worst_round: Duration,
    /// What the senses had read last.
    pub facts: Value,
    /// Whether a file may be written: not in observe mode.
    pub may_write: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Autopsy {
    /// The number of its file; none if there is none.
    pub number: Option<u32>,
    /// Milliseconds since the Unix epoch, for people.
    pub wall_ms: u64,
    /// What the loop was examined for.
    pub verdict: String,
    /// Why it hangs.
    #[serde(flatten)]
    pub finding: Finding,
    /// How long it took to see, in milliseconds.
    pub took_ms: u64,
    /// What was seen.
    pub evidence: Evidence,
}

/// Examines hung loops.
#[derive(Clone)]
pub struct Examiner {
    fs: Fs,
    state_dir: PathBuf,
    threads: Arc<Semaphore>,
    /// Held while a file is written: each takes the number after the last, and all of them are staged under one name.
    writing: Arc<Mutex<()>>,
    places: gather::Places,
}

impl Examiner {
    /// An examiner that keeps its files in `state_dir`; nothing is read or written yet.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self::with(Fs::default(), state_dir, gather::Places::default())
    }

    fn with(fs: Fs, state_dir: &Path, places: gather::Places) -> Self {
        let threads = Arc::new(Semaphore::new(gather::THREADS_MAX));
        Self { fs, state_dir: state_dir.to_owned(), threads, writing: Arc::default(), places }
    }

    /// Examines the loop. `saved` is told as soon as all is seen and nothing more is needed of the loop.
    pub async fn examine(&self, case: Case, saved: impl FnOnce()) -> Autopsy {
        let began = clock::now();
        let evidence = gather::gather(&case, &self.places, &self.threads).await;
        saved();
        let mut autopsy = Autopsy {
            number: None,
            wall_ms: millis(clock::wall()),
            verdict: case.verdict.name().to_owned(),
            finding: cause(&evidence),
            took_ms: millis(clock::now().since(began)),
            evidence,
        };
        if case.may_write {
            autopsy.number = self.keep(autopsy.clone()).await;
        }
        autopsy
    }

    /// Writes the file; its number, if that worked in time. While another one is being written on a slow disk, it waits its turn,
    /// and takes no thread for that.
    async fn keep(&self, mut autopsy: Autopsy) -> Option<u32> {
        let written = async {
            let turn = Arc::clone(&self.writing).lock_owned().await;
            let permit = Arc::clone(&self.threads).try_acquire_owned().ok()?;
            let (fs, state_dir) = (self.fs.clone(), self.state_dir.clone());
            let write = move || {
                let written = store::write(&fs, &state_dir, &mut autopsy);
                drop((turn, permit));
                written
            };
            Some(tokio::task::spawn_blocking(write).await)
        };
        match tokio::time::timeout(WRITE_TIME, written).await {
            Ok(Some(Ok(Ok(number)))) => Some(number),
            Ok(None) => None,
            Ok(Some(Ok(Err(error)))) => {
                tracing::warn!(error = %crate::runtime::startup::chain(&error), "the autopsy is in the journal alone");
                None
            }
            Ok(Some(Err(_))) | Err(_) => {
                tracing::warn!("the autopsy is in the journal alone: its file was not written in time");
                None
            }
        }
    }
}
