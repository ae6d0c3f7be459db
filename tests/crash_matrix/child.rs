//! The process that is killed: one cycle, or one recovery, of the real executor on a directory of its own.
//!
//! All file work is in one thread, so that strace's count of calls (it counts for each thread) names one
//! call. The clock of the waits is virtual: a cycle takes milliseconds, whatever its settle time says.

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use fip_watchdog::actuator::journal::PodRecord;
use fip_watchdog::actuator::manifest_cycle::{CycleExecutor, CycleSettings, Kill, Missing, PodState, PodWatch, Verify};
use fip_watchdog::decision::step::StepOutcome;
use fip_watchdog::sensor::manifest::Wanted;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Resource, Rlimit};
use tokio::sync::watch;

use crate::site::{NEWER, manifest, staging_dir, state_dir};

/// What a process is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// A cycle, as the daemon runs one.
    Cycle,
    /// A cycle during which somebody else puts a newer manifest there.
    CycleWithTheirs,
    /// What a start does first.
    Recover,
}

impl Task {
    /// As an argument.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::CycleWithTheirs => "cycle-with-theirs",
            Self::Recover => "recover",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::Cycle, Self::CycleWithTheirs, Self::Recover].into_iter().find(|task| task.word() == word)
    }
}

/// A pod that is gone as soon as anybody looks.
struct Gone {
    /// Where somebody puts a newer manifest as soon as ours is out: from, to.
    theirs: Option<(PathBuf, PathBuf)>,
}

impl PodWatch for Gone {
    fn record(&self) -> PodRecord {
        PodRecord { namespace: "kube-system".into(), name: "wcp-fip".into(), uids: vec!["u".into()], process: None }
    }

    async fn state(&self) -> PodState {
        if let Some((from, to)) = &self.theirs
            && !to.exists()
            && from.exists()
        {
            // Not over ours, whatever the look above was told; and they do not mind if it fails.
            match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
                Ok(()) | Err(_) => {}
            }
        }
        PodState::Gone
    }

    async fn kill(&self) -> Kill {
        Kill::Gone
    }
}

struct Beats;

impl Verify for Beats {
    async fn verified(&self) -> Result<String, Missing> {
        Ok("it beats".to_owned())
    }
}

/// The settings of a cycle on `root`.
pub fn settings(root: &Path) -> CycleSettings {
    CycleSettings {
        wanted: Wanted { manifest: manifest(root), namespace: "kube-system".into(), name: "wcp-fip".into() },
        staging_dir: staging_dir(root),
        state_dir: state_dir(root),
        settle: Duration::from_millis(500),
        kill_after: None,
        death_margin: Duration::from_secs(15),
        verify_timeout: Duration::from_secs(30),
    }
}

/// `child TASK ROOT [FILE_SIZE_MAX]`: prints the ids of its two threads, waits for a line, does its task and
/// prints how it ended.
pub fn main(arguments: &[String]) -> ExitCode {
    let [task, root, rest @ ..] = arguments else { return ExitCode::from(64) };
    let Some(task) = Task::of(task) else { return ExitCode::from(64) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .thread_keep_alive(Duration::from_secs(3600))
        .start_paused(true)
        .build()
        .unwrap();
    let limit = rest.first().map(|limit| limit.parse().unwrap());
    let sentence = runtime.block_on(perform(task, Path::new(root), limit));
    say(&sentence);
    // At once: the runtime's end is not what is tested.
    std::process::exit(0);
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).unwrap();
}

async fn perform(task: Task, root: &Path, limit: Option<u64>) -> String {
    let worker = tokio::task::spawn_blocking(rustix::thread::gettid).await.unwrap();
    say(&format!("{} {}", rustix::thread::gettid().as_raw_nonzero(), worker.as_raw_nonzero()));
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    if let Some(limit) = limit {
        rustix::process::setrlimit(Resource::Fsize, Rlimit { current: Some(limit), maximum: Some(limit) }).unwrap();
    }
    let executor = CycleExecutor::new(&state_dir(root));
    let theirs = match task {
        Task::Recover => {
            return match executor.recover().await {
                Ok(None) => "nothing to recover".to_owned(),
                Ok(Some(recovered)) => format!("recovered: {:?}: {}", recovered.outcome, recovered.detail),
                Err(error) => format!("not recovered: {error:?}"),
            };
        }
        Task::Cycle => None,
        Task::CycleWithTheirs => Some((root.join("theirs"), manifest(root))),
    };
    if let Some((from, _)) = &theirs {
        std::fs::File::create(from).and_then(|mut file| file.write_all(NEWER)).unwrap();
    }
    let (_stop, stopped) = watch::channel(false);
    match executor.run(&settings(root), &Gone { theirs }, &Beats, stopped).await {
        StepOutcome::Succeeded(why) => format!("succeeded: {why}"),
        StepOutcome::Refused(why) => format!("refused: {why}"),
        StepOutcome::PodStuck(why) => format!("stuck: {why}"),
        StepOutcome::Failed(why) => format!("failed: {why}"),
    }
}
