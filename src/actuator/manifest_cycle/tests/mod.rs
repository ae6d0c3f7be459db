//! A manifest directory, a pod that dies when it is told to, and a disk that fails when it is told to.

mod crash;
mod kill;
mod other_writers;
mod recovery;
mod refusal;
mod story;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::watch;
use tokio::time::Instant;

use super::place::{Found, Snapshot, inspect};
use super::*;
use crate::actuator::durable_fs::{Fault, FaultHook};
use crate::actuator::journal::{Log, PodRecord};
use crate::decision::step::StepOutcome;

pub(super) const POD: &[u8] =
    b"apiVersion: v1\nkind: Pod\nmetadata: {name: wcp-fip, namespace: kube-system}\nspec: {terminationGracePeriodSeconds: 5}\n";
pub(super) const OTHER: &[u8] = b"kind: Pod\nmetadata: {name: etcd, namespace: kube-system}\n";
pub(super) const NEWER: &[u8] = b"kind: Pod\nmetadata: {name: wcp-fip, namespace: kube-system}\nspec: {newer: true}\n";
const FILE: &str = "wcp-fip.yaml";

/// A node's directories, with a manifest whose metadata are not the default ones.
pub(super) struct Node {
    pub(super) root: tempfile::TempDir,
    pub(super) settings: CycleSettings,
    before: Snapshot,
}

pub(super) fn put(path: &Path, content: &[u8]) {
    std::fs::File::create(path).unwrap().write_all(content).unwrap();
}

pub(super) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = match std::fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect(),
        Err(_) => Vec::new(),
    };
    names.sort();
    names
}

fn snapshot(dir: &Path) -> Option<Snapshot> {
    let fs = Fs::default();
    match inspect(&fs, &fs.open_dir(dir).unwrap(), OsStr::new(FILE)).unwrap() {
        Found::Regular(snapshot) => Some(snapshot),
        Found::Absent | Found::Other => None,
    }
}

/// A directory in memory, where it can hold attributes (tmpfs since Linux 6.6): tens of thousands of syncs on a busy
/// disk take minutes, and what they promise is not asked here.
fn scratch() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm").ok();
    let holds = |dir: &tempfile::TempDir| {
        let file = dir.path().join("probe");
        put(&file, b"");
        let held = rustix::fs::setxattr(&file, "user.note", b"", rustix::fs::XattrFlags::empty()).is_ok();
        std::fs::remove_file(&file).is_ok() && held
    };
    in_memory.filter(holds).unwrap_or_else(|| tempfile::tempdir().unwrap())
}

impl Node {
    pub(super) fn new() -> Self {
        let root = scratch();
        let manifests = root.path().join("manifests");
        std::fs::create_dir(&manifests).unwrap();
        put(&manifests.join("etcd.yaml"), OTHER);
        put(&manifests.join(FILE), POD);
        let fs = Fs::default();
        let file = fs.open_file(&fs.open_dir(&manifests).unwrap(), OsStr::new(FILE)).unwrap();
        fs.set_owner(&file, 12, 34).unwrap();
        fs.set_xattr(&file, "user.note", b"\x00kept\xff").unwrap();
        fs.set_mode(&file, 0o640).unwrap();
        let settings = CycleSettings {
            wanted: Wanted { manifest: manifests.join(FILE), namespace: "kube-system".into(), name: "wcp-fip".into() },
            staging_dir: root.path().join("staging"),
            state_dir: root.path().join("state"),
            settle: Duration::from_secs(3),
            kill_after: None,
            death_margin: Duration::from_secs(15),
            verify_timeout: Duration::from_secs(30),
        };
        let before = snapshot(&manifests).unwrap();
        Self { root, settings, before }
    }

    pub(super) fn manifest(&self) -> &Path {
        &self.settings.wanted.manifest
    }

    pub(super) fn staged(&self) -> PathBuf {
        self.settings.staging_dir.join(FILE)
    }

    pub(super) fn executor(&self) -> CycleExecutor {
        CycleExecutor::new(&self.settings.state_dir)
    }

    pub(super) fn failing(&self, faults: &Arc<Faults>) -> CycleExecutor {
        CycleExecutor::with_fs(Fs::with_hook(Arc::clone(faults) as Arc<dyn FaultHook>), &self.settings.state_dir)
    }

    pub(super) fn log(&self) -> Log {
        Journal::new(Fs::default(), &self.settings.state_dir).load().unwrap()
    }

    /// The manifest is in place with content, mode, owner and attributes.
    pub(super) fn is_home(&self, same_inode: bool) -> Result<(), String> {
        let mut now = snapshot(self.settings.wanted.dir()).ok_or("the manifest is not in place")?;
        if !same_inode {
            now.identity = self.before.identity;
        }
        if now == self.before { Ok(()) } else { Err(format!("{now:?} is not {:?}", self.before)) }
    }

    /// And nothing else is in its directory nor in staging, and no entry is open.
    pub(super) fn is_clean(&self) -> Result<(), String> {
        let (manifests, staging) = (names(self.settings.wanted.dir()), names(&self.settings.staging_dir));
        if manifests != ["etcd.yaml", FILE] || !staging.is_empty() {
            return Err(format!("manifests: {manifests:?}, staging: {staging:?}"));
        }
        match self.log().open {
            None => Ok(()),
            Some(open) => Err(format!("still open: {open:?}")),
        }
    }
}

/// When to fail, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Never; counts.
    Never,
    /// The process is killed at this call: half of a write is done, and nothing after it.
    CrashAt(usize),
    /// This call fails.
    Once(usize, Errno),
    /// This call fails, and each after it.
    From(usize, Errno),
}

/// A disk that fails by plan.
pub(super) struct Faults {
    plan: Plan,
    calls: AtomicUsize,
}

impl Faults {
    pub(super) fn new(plan: Plan) -> Arc<Self> {
        Arc::new(Self { plan, calls: AtomicUsize::new(0) })
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl FaultHook for Faults {
    fn before(&self, _: &'static str, _: &Path) -> Result<(), Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        match self.plan {
            Plan::CrashAt(at) if call >= at => Err(Fault { errno: Errno::IO, half_done: call == at }),
            Plan::Once(at, errno) if call == at => Err(Fault { errno, half_done: true }),
            Plan::From(at, errno) if call >= at => Err(Fault { errno, half_done: true }),
            Plan::Never | Plan::CrashAt(_) | Plan::Once(..) | Plan::From(..) => Ok(()),
        }
    }
}

type OnLook = Box<dyn Fn() + Send + Sync>;

/// A pod that is gone some time after the test began.
pub(super) struct Pod {
    born: Instant,
    pub(super) dies_after: Duration,
    /// What it looks like when its processes are gone.
    pub(super) afterwards: PodState,
    /// Called at each look, for somebody else's hand.
    pub(super) on_look: OnLook,
    /// What a kill does: the state from then on.
    pub(super) when_killed: Option<PodState>,
    killed: std::sync::atomic::AtomicBool,
}

impl Pod {
    pub(super) fn dying_after(seconds: u64) -> Self {
        let (born, dies_after) = (Instant::now(), Duration::from_secs(seconds));
        Self { born, dies_after, afterwards: PodState::Gone, on_look: Box::new(|| {}), when_killed: None, killed: false.into() }
    }
}

impl PodWatch for Pod {
    fn record(&self) -> PodRecord {
        PodRecord { namespace: "kube-system".into(), name: "wcp-fip".into(), uids: vec!["u".into()], process: None }
    }

    async fn state(&self) -> PodState {
        (self.on_look)();
        if let Some(state) = self.when_killed.as_ref().filter(|_| self.killed.load(Ordering::SeqCst)) {
            return state.clone();
        }
        if self.born.elapsed() >= self.dies_after { self.afterwards.clone() } else { PodState::Present("process 7".into()) }
    }

    async fn kill(&self) -> Kill {
        self.killed.store(true, Ordering::SeqCst);
        if self.when_killed.is_some() { Kill::Sent(7) } else { Kill::Failed("process 7 cannot be killed: EPERM".into()) }
    }
}

/// A new pod that beats at once, or never.
pub(super) struct Beats(pub(super) bool);

/// No new pod.
pub(super) struct Nobody;

impl Verify for Nobody {
    async fn verified(&self) -> Result<String, Missing> {
        Err(Missing::Pod("no new process".into()))
    }
}

impl Verify for Beats {
    async fn verified(&self) -> Result<String, Missing> {
        if self.0 { Ok("process 8, beat read".into()) } else { Err(Missing::Beat("no beat since".into())) }
    }
}

/// Runs one cycle with a pod that dies after 5 s and works again afterwards.
pub(super) async fn cycle(node: &Node, executor: &CycleExecutor) -> StepOutcome {
    let (_stop, stopped) = watch::channel(false);
    executor.run(&node.settings, &Pod::dying_after(5), &Beats(true), stopped).await
}

/// Names and contents of a directory's files, for "nothing was touched".
pub(super) fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    names(dir).into_iter().map(|name| (name.clone(), std::fs::read(dir.join(name)).unwrap_or_default())).collect()
}
