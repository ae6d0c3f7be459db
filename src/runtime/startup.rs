//! From a command line to a running loop: policy, lock, recovery, control socket, ready.
//!
//! Owns the order in which I2 is kept at the start: an open cycle is finished before anything else, also
//! when the policy is bad and the daemon is about to say so and end.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::clock;
use super::executor::{Executor, Hands, NodeHands};
use super::known_good::KnownGood;
use super::pause::PauseFile;
use super::remembered::Remembered;
use super::sd_notify::Notifier;
use super::senses::Senses;
use super::signals::Signals;
use super::supervisor::{Parts, Supervisor};
use super::world::Node;
use crate::actuator::manifest_cycle::{CycleError, Recovered};
use crate::audit::{Audit, AuditEvent};
use crate::control::lock::{InstanceLock, LockError};
use crate::control::server::{BindError, ControlServer};
use crate::policy::Policy;
use crate::policy::load::LoadError;
use crate::policy::reload::PolicyWatch;
use crate::sensor::alias::{AliasEvents, AliasTable};
use crate::sensor::manifest::ManifestWatch;

/// Where the daemon keeps its state when no policy says otherwise; the unit's `StateDirectory`.
pub const STATE_DIR: &str = "/var/lib/fip-watchdog";

/// What `run` was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The policy file.
    pub policy: PathBuf,
    /// Where lock and control socket live.
    pub runtime_dir: PathBuf,
}

/// Why the daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The policy is missing or bad.
    #[error(transparent)]
    Policy(#[from] LoadError),
    /// Another instance runs.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The control socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A directory that must exist cannot be made.
    #[error("cannot make directory {}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The kernel gives no netlink socket, or no signals.
    #[error("cannot {0}")]
    Kernel(&'static str, #[source] std::io::Error),
}

impl StartError {
    /// The exit code, by sysexits(3): 78 for a bad policy, so that the unit does not restart in a loop.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Policy(_) => 78,
            Self::Lock(LockError::Held { .. }) => crate::control::lock::EXIT_HELD,
            Self::Lock(_) | Self::Bind(_) | Self::Directory { .. } => 73,
            Self::Kernel(..) => 71,
        }
    }
}

/// Starts and runs the daemon until a signal ends it.
///
/// # Errors
/// Whatever keeps it from watching; each names its object.
pub async fn run(options: &Options, audit: Audit) -> Result<(), StartError> {
    let mut signals = Signals::new().map_err(|error| StartError::Kernel("receive signals", error))?;
    make_dir(&options.runtime_dir)?;
    let lock = Arc::new(InstanceLock::acquire(&options.runtime_dir.join("lock"), clock::wall())?);
    let mut policy_watch = PolicyWatch::new(&options.policy);
    let policy = match policy_watch.poll() {
        Some(Ok(policy)) => policy,
        Some(Err(error)) => return Err(refuse_policy(options, error, &audit).await),
        None => unreachable_first_poll(&options.policy)?,
    };
    make_dir(&policy.state_dir)?;
    audit.emit(&AuditEvent::Started { mode: policy.mode, policy: options.policy.clone() });

    let table = Arc::new(AliasTable::open().map_err(|error| StartError::Kernel("open a netlink socket", error))?);
    let executor = Executor::new(NodeHands::new(Arc::clone(&table), &policy.state_dir));
    recover(&executor, &audit).await;
    recover_elsewhere(&policy, &table, &audit).await;
    let past_cycles = executor.past_cycles(clock::now()).await.unwrap_or_else(|error| {
        tracing::error!(error = %chain(&error), "earlier cycles cannot be read; their budget counts as unspent");
        Vec::new()
    });
    let (pause, fault) = PauseFile::open(&policy.state_dir);
    if let Some(fault) = fault {
        tracing::error!(%fault, "the operator's pause");
    }
    let (known_good, fault) = KnownGood::open(&policy.state_dir);
    if let Some(fault) = fault {
        tracing::error!(%fault, "the manifest's known good content");
    }
    let (remembered, fault) = Remembered::open(&policy.state_dir);
    if let Some(fault) = fault {
        tracing::warn!(%fault, "etcd's member list as it was kept");
    }
    let (server, calls) = ControlServer::bind(&options.runtime_dir.join("control.sock"), Arc::clone(&lock))?;
    let serving = tokio::spawn(server.serve());
    let mut notifier = Notifier::from_env();
    notifier.ready();
    let alias_events = watch_alias(&policy);
    let world = Node {
        senses: Senses::new(&policy, table),
        manifest_watch: watch_manifest(&policy),
        policy_watch,
        alias_events,
        pause,
        known_good,
        remembered,
    };
    let supervisor = Supervisor::new(Parts { policy, world, executor, past_cycles, audit, notifier, calls });
    supervisor.run(signals.stop()).await;
    serving.abort();
    // Joined so that the socket is unlinked before the lock is let go.
    drop(serving.await);
    drop(lock);
    Ok(())
}

/// A bad policy must not leave a manifest out that an earlier run took out.
async fn refuse_policy(options: &Options, error: LoadError, audit: &Audit) -> StartError {
    audit.emit(&AuditEvent::PolicyRejected { path: options.policy.clone(), faults: sentences(&error) });
    let state_dir = default_state_dir();
    if state_dir.is_dir()
        && let Ok(table) = AliasTable::open()
    {
        recover(&Executor::new(NodeHands::new(Arc::new(table), &state_dir)), audit).await;
    }
    audit.flush();
    StartError::Policy(error)
}

/// A policy that names another state directory than the last start's must not leave a manifest out either.
async fn recover_elsewhere(policy: &Policy, table: &Arc<AliasTable>, audit: &Audit) {
    let state_dir = default_state_dir();
    if state_dir != policy.state_dir && state_dir.is_dir() {
        recover(&Executor::new(NodeHands::new(Arc::clone(table), &state_dir)), audit).await;
    }
}

/// The state directory that the unit makes, whatever a policy says.
fn default_state_dir() -> PathBuf {
    std::env::var_os("STATE_DIRECTORY").map_or_else(|| PathBuf::from(STATE_DIR), PathBuf::from)
}

/// `PolicyWatch` answers its first question always; if that ever changes, the file is read here.
fn unreachable_first_poll(path: &Path) -> Result<Policy, StartError> {
    crate::policy::load::load(path).map_err(StartError::Policy)
}

/// Finishes an open cycle and says so; a failure is said too, and nothing is lost by it.
pub async fn recover<H: Hands>(executor: &Executor<H>, audit: &Audit) {
    say_recovered(executor.recover().await, audit);
}

/// Says how an open cycle was finished, or why it could not be.
pub fn say_recovered(outcome: Result<Option<Recovered>, CycleError>, audit: &Audit) {
    match outcome {
        Ok(None) => {}
        Ok(Some(recovered)) => {
            audit.emit(&AuditEvent::CycleRecovered { phase: recovered.phase, outcome: recovered.detail });
        }
        Err(error) => {
            tracing::error!(error = %chain(&error), "an open manifest cycle cannot be finished; it is tried again");
        }
    }
}

/// A watch on the FIP and its interface; without one the periodic read alone notices changes.
#[must_use]
pub fn watch_alias(policy: &Policy) -> Option<AliasEvents> {
    AliasEvents::subscribe(&policy.fip.interface, policy.fip.address)
        .inspect_err(|error| tracing::warn!(%error, "address changes are noticed by the periodic read alone"))
        .ok()
}

/// A watch on the directory of the policy's manifest.
#[must_use]
pub fn watch_manifest(policy: &Policy) -> ManifestWatch {
    ManifestWatch::new(policy.watched_loop.manifest.parent().unwrap_or(Path::new("/")))
}

/// Why a policy was refused, a sentence a fault.
#[must_use]
pub fn sentences(error: &LoadError) -> Vec<String> {
    match error {
        LoadError::Faults(faults) => faults.to_string().lines().map(str::to_owned).collect(),
        LoadError::Missing { .. }
        | LoadError::Unreadable { .. }
        | LoadError::NotAFile { .. }
        | LoadError::TooBig { .. }
        | LoadError::NotUtf8 { .. } => vec![chain(error)],
    }
}

/// An error and its causes, each once.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// One that the unit made is left as it is, without so much as an attempt: in observe mode nothing is to be changed.
fn make_dir(path: &Path) -> Result<(), StartError> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| StartError::Directory { path: path.to_owned(), source })
}
