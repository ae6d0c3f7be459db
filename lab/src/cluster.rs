//! An instance of the lab: bring it up, find it again, run things in it, take it down.
//!
//! Nothing is remembered but a record of the options: nodes, namespaces and directories are found by the instance's name, so
//! that `down` works on whatever a killed `up` left. Dropping a future of `up` or `down` half-way is safe in the same sense:
//! the next `up` or `down` finishes the clearing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::cgroup::Hierarchies;
use crate::lock::{self, InstanceLock};
use crate::node::{self, Binaries, Node, NodeId};
use crate::paths::{self, Paths};
use crate::pki::Authority;
use crate::scenario::clock;
use crate::{command, host, network, ready, rootfs, seed, teardown};

/// How long the time limit inside the node may be overrun before the host gives up on `nsenter` itself.
const EXEC_SLACK: Duration = Duration::from_secs(3);
/// To say its version a program needs milliseconds; one that does not say it at all is not waited for.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// What `up` is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpOptions {
    /// The watchdog's policy; without one a minimal one is written.
    pub policy_yaml: Option<String>,
    /// Start `fip-watchdog.service`.
    pub watchdog: bool,
    /// How often the loop runs, in seconds.
    pub loop_interval_s: u32,
    /// etcd's election timeout, in seconds.
    pub election_timeout_s: u32,
    /// The pod's grace period, in seconds; none is the kubelet's 30.
    pub grace_s: Option<u32>,
    /// The watchdog to install; none is the one beside this program.
    pub watchdog_binary: Option<PathBuf>,
    /// How many nodes.
    pub nodes: u8,
}

impl Default for UpOptions {
    fn default() -> Self {
        Self {
            policy_yaml: None,
            watchdog: false,
            loop_interval_s: 5,
            election_timeout_s: 1,
            grace_s: None,
            watchdog_binary: None,
            nodes: 3,
        }
    }
}

/// A running instance.
#[derive(Debug)]
pub struct Lab {
    name: String,
    nodes: Vec<Node>,
    options: UpOptions,
    hierarchies: Hierarchies,
    _lock: Option<InstanceLock>,
}

impl Lab {
    /// Brings the instance `name` up; what is left of an earlier one of that name is removed first. Holds the instance's lock
    /// for as long as the value lives.
    ///
    /// # Errors
    /// The host lacks something, or a node does not come up: then all is removed again, and the error has the end of its journal.
    pub async fn up(name: &str, options: &UpOptions, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Self> {
        paths::check_name(name)?;
        let lab_binary = std::env::current_exe().context("cannot find this program's own file")?;
        host::need_root()?;
        let watchdog = watchdog_binary(options, &lab_binary).await?;
        let binaries = Binaries { lab: &lab_binary, watchdog: watchdog.as_deref() };
        let lock_path = Paths::new(name).lock();
        let lock = lock::acquire(name, &lock_path)?;
        let ready = async {
            host::prepare(progress).await?;
            rootfs::ensure(progress).await
        };
        let rootfs = match ready.await {
            Ok(rootfs) => rootfs,
            Err(error) => {
                // An instance that is up stays up, and needs its lock file.
                if !Paths::new(name).runtime().exists() {
                    lock::forget(name, &lock_path);
                }
                return Err(error);
            }
        };
        teardown::remove(name).await.context("cannot remove what is left of an earlier run")?;
        let error = match Self::build(name, options, &rootfs, &binaries, lock.clone(), progress).await {
            Ok(lab) => return Ok(lab),
            Err(error) => error,
        };
        match teardown::remove(name).await {
            Ok(()) => lock::forget(name, &lock_path),
            Err(second) => return Err(error.context(format!("and then clearing away failed: {second:#}"))),
        }
        Err(error)
    }

    async fn build(
        name: &str,
        options: &UpOptions,
        rootfs: &Path,
        binaries: &Binaries<'_>,
        lock: InstanceLock,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let ids = NodeId::first(options.nodes);
        progress("making networks and certificates …");
        network::create(name, &ids).await?;
        let paths = Paths::new(name);
        let authority = Authority::generate()?;
        for &id in &ids {
            seed::write_file(&paths.shared(id).join("node-name"), format!("{}\n", id.node_name()).as_bytes(), 0o644)?;
            seed::write(&paths.host(id).join("seed"), id, &ids, &authority, options)?;
        }
        let record = serde_json::to_vec_pretty(options).context("cannot write down the options")?;
        seed::write_file(&paths.record(), &record, 0o600)?;
        progress(&format!("booting {} nodes …", ids.len()));
        let hierarchies = Hierarchies::detect()?;
        for &id in &ids {
            node::boot(name, id, rootfs, &hierarchies, binaries).await?;
        }
        let nodes = ready::wait_for_leaders(name, &ids, &hierarchies).await?;
        let lab = Self { name: name.to_owned(), nodes, options: options.clone(), hierarchies, _lock: Some(lock) };
        ready::wait_for_service(&lab, progress).await?;
        Ok(lab)
    }

    /// Finds a running instance; takes no lock.
    ///
    /// # Errors
    /// It does not run, or one of its nodes does not.
    pub fn attach(name: &str) -> anyhow::Result<Self> {
        let lab = Self::attach_to_what_runs(name)?;
        let absent = NodeId::first(lab.options.nodes).into_iter().find(|&id| lab.find(id).is_err());
        match absent {
            Some(id) => anyhow::bail!("node {id} of lab {name} is not running: take the lab down and up again"),
            None => Ok(lab),
        }
    }

    /// As [`Self::attach`], but some nodes, even all of them, may be missing.
    pub(crate) fn attach_to_what_runs(name: &str) -> anyhow::Result<Self> {
        paths::check_name(name)?;
        host::need_root()?;
        let options = recorded(name)?;
        let hierarchies = Hierarchies::detect()?;
        let ids = NodeId::first(options.nodes).into_iter();
        let nodes = ids.filter_map(|id| node::leader(name, id, &hierarchies).map(|leader| Node::new(name, id, leader))).collect();
        Ok(Self { name: name.to_owned(), nodes, options, hierarchies, _lock: None })
    }

    /// Removes the instance, running, half made or half removed; nothing there is success.
    ///
    /// # Errors
    /// Somebody else works on it, or something cannot be removed.
    pub async fn down(name: &str) -> anyhow::Result<()> {
        paths::check_name(name)?;
        host::need_root()?;
        let path = Paths::new(name).lock();
        let _lock = lock::acquire(name, &path)?;
        teardown::remove(name).await?;
        lock::forget(name, &path);
        Ok(())
    }

    /// The instance's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was brought up with.
    #[must_use]
    pub fn options(&self) -> &UpOptions {
        &self.options
    }

    /// All nodes, in order.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node `id`; the first node where an instance has none of that name, which [`Self::find`] tells apart.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes.iter().find(|node| node.id == id).unwrap_or(&self.nodes[0])
    }

    /// The node `id`, if this instance has it.
    ///
    /// # Errors
    /// It has not; says which it has.
    pub fn find(&self, id: NodeId) -> anyhow::Result<&Node> {
        let names = || self.nodes.iter().map(|node| node.id.to_string()).collect::<Vec<_>>().join(", ");
        self.nodes
            .iter()
            .find(|node| node.id == id)
            .with_context(|| format!("lab {} has no node {id}: it has {}", self.name, names()))
    }

    /// Runs `argv` in the node to its end, at most for `limit`; a failing exit status is not an error here.
    ///
    /// # Errors
    /// It cannot be started or does not end; it is killed then, inside the node.
    pub async fn exec(&self, id: NodeId, argv: &[&str], limit: Duration) -> anyhow::Result<Output> {
        // Killing `nsenter` would leave what it started: the limit is enforced inside.
        let seconds = format!("{:.3}", limit.as_secs_f64());
        let bounded = [&["timeout", "--signal=KILL", seconds.as_str()], argv].concat();
        let mut command = self.find(id)?.command(&bounded);
        let began = clock::now();
        let output = command::output(&mut command, limit + EXEC_SLACK).await.with_context(|| format!("on node {id}"))?;
        let over = !output.status.success() && clock::now().saturating_sub(began) >= limit;
        anyhow::ensure!(!over, "{} on node {id} did not end within {limit:?}", argv.first().unwrap_or(&""));
        Ok(output)
    }

    /// As [`Self::exec`], and a failing exit status is an error; gives the standard output.
    ///
    /// # Errors
    /// As [`Self::exec`], and a failing exit status.
    pub async fn exec_ok(&self, id: NodeId, argv: &[&str], limit: Duration) -> anyhow::Result<String> {
        let output = self.exec(id, argv, limit).await?;
        let said = command::tail(&String::from_utf8_lossy(&output.stderr), 8);
        anyhow::ensure!(output.status.success(), "{} failed on node {id} with {}: {said}", argv.join(" "), output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A command in all namespaces of the node, for readers that run long. Ending it is the caller's.
    #[must_use]
    pub fn node_command(&self, id: NodeId, argv: &[&str]) -> Command {
        self.node(id).command(argv)
    }

    /// A command of the host in the client's network namespace.
    #[must_use]
    pub fn client_command(&self, argv: &[&str]) -> Command {
        in_netns(&network::client_namespace(&self.name), argv)
    }

    /// A command of the host in the node's network namespace.
    #[must_use]
    pub fn netns_command(&self, id: NodeId, argv: &[&str]) -> Command {
        in_netns(&self.node(id).netns, argv)
    }

    /// Stops every process of a node at one instant, as a hypervisor pauses a machine; or lets them go on.
    ///
    /// # Errors
    /// The freezer cannot be written.
    pub fn freeze(&self, id: NodeId, frozen: bool) -> anyhow::Result<()> {
        self.hierarchies.freeze(&node::group(&self.name, id), frozen)
    }

    /// Whether the node is stopped as a whole.
    #[must_use]
    pub fn is_frozen(&self, id: NodeId) -> bool {
        self.hierarchies.is_frozen(&node::group(&self.name, id))
    }

    /// Freezes some of a node's processes, so that not even SIGKILL ends them.
    ///
    /// # Errors
    /// There is no freezer that does so, or it cannot be written.
    pub fn freeze_apart(&self, id: NodeId, processes: &[Pid]) -> anyhow::Result<()> {
        self.hierarchies.freeze_apart(&node::group(&self.name, id), processes)
    }

    /// Lets them go on; nothing frozen is success.
    ///
    /// # Errors
    /// The freezer cannot be written.
    pub fn thaw_apart(&self, id: NodeId) -> anyhow::Result<()> {
        self.hierarchies.thaw_apart(&node::group(&self.name, id))
    }

    /// The process that the node knows as `pid`, as the host knows it; none when it is gone.
    #[must_use]
    pub fn host_pid(&self, id: NodeId, pid: i32) -> Option<Pid> {
        self.hierarchies
            .processes(&node::group(&self.name, id))
            .into_iter()
            .find(|&candidate| node::pid_inside(candidate) == Some(pid))
    }

    /// Where a service of the node has its processes; a directory that is not there is one that never ran.
    #[must_use]
    pub fn service_groups(&self, id: NodeId, service: &str) -> Vec<PathBuf> {
        // systemd-nspawn puts the node's own tree below `payload`.
        let tree = |top: PathBuf| top.join("payload/system.slice").join(service);
        self.hierarchies.directories(&node::group(&self.name, id)).into_iter().map(tree).collect()
    }

    /// The directory that the node sees as `/run/fip-lab`.
    #[must_use]
    pub fn shared(&self, id: NodeId) -> PathBuf {
        Paths::new(&self.name).shared(id)
    }
}

fn in_netns(name: &str, argv: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", network::namespace_path(name).display())).arg("--").args(argv).kill_on_drop(true);
    command
}

/// The options that a running instance was brought up with.
fn recorded(name: &str) -> anyhow::Result<UpOptions> {
    let path = Paths::new(name).record();
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            anyhow::bail!("lab {name} is not up: bring it up with `fip-lab --lab {name} up`")
        }
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let again = || format!("cannot understand {}: take the lab down and up again", path.display());
    serde_json::from_slice(&bytes).with_context(again)
}

/// The watchdog to mount: the one asked for, or the one beside this program; it may be absent unless it is to be started.
async fn watchdog_binary(options: &UpOptions, lab_binary: &Path) -> anyhow::Result<Option<PathBuf>> {
    let path = match &options.watchdog_binary {
        Some(path) => std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))?,
        // Tests are built one directory further down.
        None => lab_binary
            .ancestors()
            .skip(1)
            .take(2)
            .map(|dir| dir.join("fip-watchdog"))
            .find(|path| path.is_file())
            .unwrap_or_default(),
    };
    let asked = options.watchdog || options.watchdog_binary.is_some();
    if !path.is_file() {
        anyhow::ensure!(!asked, "there is no watchdog at {}: build the workspace first, or say where it is", path.display());
        return Ok(None);
    }
    if asked {
        check_watchdog(&path).await?;
    }
    Ok(Some(path))
}

/// Before anything is made: in a node it would only be seen that the service does not start.
async fn check_watchdog(path: &Path) -> anyhow::Result<()> {
    let said = command::success(Command::new(path).arg("--version"), VERSION_LIMIT).await;
    let right = said.as_ref().is_ok_and(|text| text.starts_with("fip-watchdog "));
    let why = said.map_or_else(
        |error| format!("{:#}", anyhow::Error::from(error)),
        |text| format!("it says {:?}", command::tail(&text, 1)),
    );
    anyhow::ensure!(right, "{} is no fip-watchdog that runs here ({why}): say where it is", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_watchdog_is_refused_by_name_before_anything_is_made() {
        for (path, why) in [("/bin/true", "it says"), ("/etc/passwd", "cannot start"), ("/nonexistent", "there is no watchdog")] {
            let options = UpOptions { watchdog_binary: Some(path.into()), ..UpOptions::default() };
            let error = format!("{:#}", watchdog_binary(&options, Path::new("/x/fip-lab")).await.unwrap_err());
            assert!(error.contains(path) && error.contains(why), "{error}");
        }
        assert_eq!(watchdog_binary(&UpOptions::default(), Path::new("/x/fip-lab")).await.unwrap(), None);
    }
}
