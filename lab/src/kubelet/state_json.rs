//! What the stand-in publishes about its containers, and what it remembers across its own restart.
//! Invariant: the file is replaced as a whole; a reader never sees half of it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// State of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerState {
    /// Its process runs.
    Running,
    /// Its process runs and was asked to end.
    Terminating,
    /// Its process is gone, its record is not.
    Exited,
}

/// One container. Process ids are those of the kubelet's own pid namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the pod with the node's name.
    pub pod: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// UID of the static pod.
    pub uid: String,
    /// Number of restarts in this pod.
    pub attempt: u32,
    /// Name of the container.
    pub container: String,
    /// 64 hex digits.
    pub id: String,
    /// The container's PID 1.
    pub pid: i32,
    /// When that process started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The log file.
    pub log: PathBuf,
    /// The process that copies the container's output into the log.
    pub reader_pid: i32,
    /// The process that holds the container while the kubelet is away.
    pub shim_pid: i32,
    /// Path of the cgroup as `/proc/<pid>/cgroup` shows it.
    pub cgroup: String,
    /// State.
    pub state: ContainerState,
    /// The cgroup's directories.
    pub cgroup_dirs: Vec<PathBuf>,
    /// Grace period of the pod.
    pub grace_seconds: u64,
}

/// All containers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// In order of their start.
    pub containers: Vec<Record>,
}

impl State {
    /// Read a state file; an absent one is an empty state.
    ///
    /// # Errors
    /// The file cannot be read, or is not a state.
    pub fn load(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }
}

/// Replace the file at `path` by `content`.
///
/// # Errors
/// The file cannot be written.
pub fn replace(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec_pretty(content).map_err(io::Error::other)?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".kubelet-").tempfile_in(parent)?;
    file.write_all(&bytes)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    file.persist(path).map_err(|error| error.error).map(|_file| ())
}
