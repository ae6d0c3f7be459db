//! A node's directories, and the question that every point of the matrix ends with: is all as it was?

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fip_watchdog::actuator::durable_fs::Fs;
use fip_watchdog::actuator::journal::{Intent, Journal, Outcome, PodRecord, Record, Stamp, sha256_hex};
use fip_watchdog::actuator::manifest_cycle::CycleExecutor;

use rustix::fs::{XattrFlags, setxattr};

use crate::tree::{Entry, FileState, Tree};

/// Ours.
pub const POD: &[u8] =
    b"kind: Pod\nmetadata: {name: wcp-fip, namespace: kube-system}\nspec: {terminationGracePeriodSeconds: 5}\n";
/// Theirs.
pub const NEWER: &[u8] = b"kind: Pod\nmetadata: {name: wcp-fip, namespace: kube-system}\nspec: {newer: true}\n";
const OTHER: &[u8] = b"kind: Pod\nmetadata: {name: etcd, namespace: kube-system}\n";
const FILE: &str = "wcp-fip.yaml";
/// One more, and the journal is compacted.
const CLOSED_BEFORE: u64 = 63;

pub fn manifest(root: &Path) -> PathBuf {
    root.join("manifests").join(FILE)
}

pub fn staging_dir(root: &Path) -> PathBuf {
    root.join("staging")
}

pub fn state_dir(root: &Path) -> PathBuf {
    root.join("state")
}

/// What was there before the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Before {
    /// The first cycle on this node.
    Nothing,
    /// So many cycles that the end of the next one rewrites the journal and drops backups.
    FullJournal,
}

/// A directory of its own, with a manifest whose metadata are not the default ones.
pub struct Site {
    dir: tempfile::TempDir,
    root: PathBuf,
    ours: FileState,
}

/// In memory, where that can hold attributes (tmpfs since Linux 6.6): a process that is killed or refused a call does not
/// see the difference, and a busy disk makes hours of some hundred thousand syncs. `TMPDIR` overrules it.
fn scratch() -> tempfile::TempDir {
    let mut named = tempfile::Builder::new();
    let named = named.prefix("crash-matrix-");
    let holds = |dir: &tempfile::TempDir| setxattr(dir.path(), "user.note", b"", XattrFlags::empty()).is_ok();
    let in_memory = || named.tempdir_in("/dev/shm").ok().filter(holds);
    let chosen = if std::env::var_os("TMPDIR").is_some() { None } else { in_memory() };
    chosen.unwrap_or_else(|| named.tempdir().unwrap())
}

impl Site {
    pub fn new() -> Self {
        let mut ours = FileState { mode: 0o640, uid: 12, gid: 34, ..FileState::ours(POD.to_vec()) };
        ours.xattrs.insert("user.note".to_owned(), b"\x00kept\xff".to_vec());
        let dir = scratch();
        let root = dir.path().join("node");
        std::fs::create_dir(&root).unwrap();
        Self { dir, root, ours }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where something that is no part of the node can be put; it goes with the site.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The tree before anything happens.
    pub fn before(&self, before: Before) -> Tree {
        let mut tree = Tree::default();
        let mut add = |name: String, entry: Entry| tree.0.insert(name.into(), entry);
        add("manifests".to_owned(), Entry::Dir);
        add(format!("manifests/{FILE}"), Entry::File(1, self.ours.clone()));
        add("manifests/etcd.yaml".to_owned(), Entry::File(2, FileState::ours(OTHER.to_vec())));
        if before == Before::Nothing {
            return tree;
        }
        tree.write(self.root());
        self.earlier_cycles();
        Tree::read(self.root())
    }

    /// A journal that is full, with the backups of its two oldest cycles.
    fn earlier_cycles(&self) {
        let journal = Journal::new(Fs::default(), &state_dir(self.root()));
        let backups = state_dir(self.root()).join("backups");
        for id in 1..=CLOSED_BEFORE {
            let content = if id > 2 { POD.to_vec() } else { format!("of cycle {id}").into_bytes() };
            let sha256 = sha256_hex(&content);
            let at = Stamp { boot_id: "an earlier one".to_owned(), boottime_ms: 1_000_000 * id, wall_ms: 0 };
            let (manifest, staging) = (manifest(self.root()), staging_dir(self.root()).join(FILE));
            let backup = backups.join(format!("{FILE}.{sha256}"));
            let intent = Intent {
                id,
                manifest,
                staging,
                backup: backup.clone(),
                size: 0,
                sha256,
                mode: 0o600,
                uid: 0,
                gid: 0,
                xattrs: std::collections::BTreeMap::new(),
                pod: PodRecord::default(),
                settle_ms: 1,
                at: at.clone(),
            };
            journal.append(&Record::Intent(Box::new(intent))).unwrap();
            journal.close(id, Outcome::Verified, "as it should", at).unwrap();
            std::fs::create_dir_all(&backups).unwrap();
            if id <= 2 {
                std::fs::File::create(backup).and_then(|mut file| file.write_all(&content)).unwrap();
            }
        }
    }

    /// Finishes what is open, as a start does, in this process.
    pub fn recover(&self) -> Result<String, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let executor = CycleExecutor::new(&state_dir(self.root()));
        let recovering = async { tokio::time::timeout(Duration::from_secs(600), executor.recover()).await };
        match runtime.block_on(recovering) {
            Ok(Ok(recovered)) => Ok(format!("{recovered:?}")),
            Ok(Err(error)) => Err(format!("the recovery fails: {error:?}")),
            Err(_) => Err("the recovery does not end".to_owned()),
        }
    }

    /// The manifest that should be there is there, whole.
    pub fn is_home(&self) -> Result<(), String> {
        match FileState::read(&manifest(self.root())) {
            None => Err(format!("the manifest is not in place: {:?}", self.names(""))),
            Some(there) if there == self.ours => Ok(()),
            // Only the other writer of `CycleWithTheirs` has this content; then ours has to be a backup.
            Some(there) if there.content == NEWER => {
                let tree = Tree::read(self.root());
                let kept = |entry: &Entry| matches!(entry, Entry::File(_, file) if file.content == POD);
                tree.0.values().any(kept).then_some(()).ok_or_else(|| "theirs is in place, and ours is lost".to_owned())
            }
            Some(there) => Err(format!("{there:?} is not {:?}", self.ours)),
        }
    }

    /// And nothing else is anywhere, but the journal and the backups that it names.
    pub fn is_clean(&self) -> Result<(), String> {
        let log = Journal::new(Fs::default(), &state_dir(self.root())).load().map_err(|error| format!("{error:?}"))?;
        if let Some(open) = log.open {
            return Err(format!("cycle {} is still open", open.intent.id));
        }
        let backups: Vec<&Path> = log.closed.iter().map(|cycle| cycle.intent.backup.as_path()).collect();
        for (name, entry) in &Tree::read(self.root()).0 {
            let path = self.root().join(name);
            let text = name.display().to_string();
            let known = match entry {
                Entry::Dir => ["manifests", "staging", "state", "state/backups"].contains(&text.as_str()),
                Entry::File(_, file) if name.starts_with("state/backups") => {
                    backups.contains(&path.as_path()) && text.ends_with(&sha256_hex(&file.content))
                }
                Entry::File(..) => {
                    ["manifests/etcd.yaml", "manifests/wcp-fip.yaml", "state/cycle.journal", "theirs"].contains(&text.as_str())
                }
            };
            if !known {
                return Err(format!("{text} is left over; all: {:?}", self.names("")));
            }
        }
        Ok(())
    }

    fn names(&self, below: &str) -> Vec<PathBuf> {
        Tree::read(&self.root().join(below)).0.into_keys().collect()
    }
}
