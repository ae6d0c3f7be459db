//! One node: a systemd-nspawn container whose root is the shared root file system under an overlay in memory.
//!
//! The overlay is mounted in a mount namespace of the container's own, so that it cannot outlive the container. The process
//! of the node that counts is its *leader*, the PID 1 inside: entering a node means entering all of its namespaces.

use std::fmt;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context as _;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::cgroup::Hierarchies;
use crate::network;
use crate::paths::Paths;

/// Which node: `cp1`, `cp2`, ….
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId(u8);

/// An etcd cluster of more than that is not a thing; addresses and names have one digit for it.
const NODES_MAX: u8 = 7;

impl NodeId {
    /// The first `count` nodes; never fewer than one nor more than there can be.
    #[must_use]
    pub fn first(count: u8) -> Vec<Self> {
        (1..=count.clamp(1, NODES_MAX)).map(Self).collect()
    }

    /// 1 for `cp1`.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its address on eth0.
    #[must_use]
    pub fn ip(self) -> Ipv4Addr {
        Ipv4Addr::new(192, 168, 111, 200 + self.0)
    }

    /// What a Supervisor would call it: 32 hex digits.
    #[must_use]
    pub fn node_name(self) -> String {
        format!("4203f2b1c0de4a5b8c7d6e5f0000000{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cp{}", self.0)
    }
}

impl FromStr for NodeId {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let number = text.strip_prefix("cp").filter(|digits| digits.len() == 1).and_then(|digits| digits.parse().ok());
        let number = number.filter(|number| (1..=NODES_MAX).contains(number));
        number.map(Self).with_context(|| format!("{text:?} is not a node: they are called cp1, cp2, …"))
    }
}

impl TryFrom<String> for NodeId {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        text.parse()
    }
}

impl From<NodeId> for String {
    fn from(id: NodeId) -> Self {
        id.to_string()
    }
}

/// A node that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `cp1`.
    pub id: NodeId,
    /// On eth0.
    pub ip: Ipv4Addr,
    /// 32 hex digits.
    pub node_name: String,
    /// The node's PID 1, as the host sees it.
    pub leader_pid: i32,
    /// Name of its network namespace.
    pub netns: String,
}

impl Node {
    /// Describes the node `id` of `lab` with that leader.
    #[must_use]
    pub fn new(lab: &str, id: NodeId, leader: Pid) -> Self {
        let netns = network::node_namespace(lab, id);
        Self { id, ip: id.ip(), node_name: id.node_name(), leader_pid: leader.as_raw_nonzero().get(), netns }
    }

    /// A path inside the node, as the host can open it. Absolute symbolic links on the way would lead to the host's files.
    #[must_use]
    pub fn host_path(&self, inside: &str) -> std::path::PathBuf {
        Path::new("/proc").join(self.leader_pid.to_string()).join("root").join(inside.trim_start_matches('/'))
    }

    /// A command in all namespaces of the node. Not in its cgroup: it goes on while the node is frozen.
    #[must_use]
    pub fn command(&self, argv: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.leader_pid.to_string(), "--all", "--"]).args(argv);
        command.env_clear();
        for (key, value) in ENVIRONMENT {
            command.env(key, value);
        }
        if let Some(terminal) = std::env::var_os("TERM") {
            command.env("TERM", terminal);
        }
        command.kill_on_drop(true);
        command
    }
}

/// What a root shell on a node has, and what makes `etcdctl` work without arguments.
const ENVIRONMENT: [(&str, &str); 9] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/root"),
    ("LANG", "C.UTF-8"),
    ("SYSTEMD_PAGER", "cat"),
    ("ETCDCTL_API", "3"),
    ("ETCDCTL_ENDPOINTS", "https://127.0.0.1:2379"),
    ("ETCDCTL_CACERT", "/etc/kubernetes/pki/etcd/ca.crt"),
    ("ETCDCTL_CERT", "/etc/kubernetes/pki/etcd/healthcheck-client.crt"),
    ("ETCDCTL_KEY", "/etc/kubernetes/pki/etcd/healthcheck-client.key"),
];

/// Mounts the overlay and becomes the container. `slave`: a network namespace that is removed on the host must not be held
/// by a copy of its mount in here. What systemd-nspawn itself leaves in `/run/systemd/nspawn` goes with the mount namespace too.
const BOOT: &str = r#"
for group in $FIP_LAB_CGROUPS; do echo $$ >"$group/cgroup.procs"; done
exec unshare --mount --propagation slave -- sh -euc '
  root=$1 host=$2; shift 2
  mount -t tmpfs -o mode=0755,size=384m fip-lab "$host/state"
  mkdir "$host/state/upper" "$host/state/work"
  mount -t overlay -o "lowerdir=$root,upperdir=$host/state/upper,workdir=$host/state/work" fip-lab "$host/root"
  cp -a "$host/seed/." "$host/root/"
  mkdir -p /run/systemd/nspawn
  mount -t tmpfs fip-lab /run/systemd/nspawn
  exec systemd-nspawn --directory="$host/root" "$@"
' boot "$@"
"#;

/// What is mounted into a node from the host.
#[derive(Debug)]
pub struct Binaries<'a> {
    /// `/usr/local/bin/fip-lab`.
    pub lab: &'a Path,
    /// `/usr/bin/fip-watchdog`, if there is one.
    pub watchdog: Option<&'a Path>,
}

/// Starts the container and leaves it running by itself, in a session of its own.
///
/// # Errors
/// The directories cannot be made or the process not be started. That it comes up is for the caller to see.
pub async fn boot(
    lab: &str,
    id: NodeId,
    rootfs: &Path,
    hierarchies: &Hierarchies,
    binaries: &Binaries<'_>,
) -> anyhow::Result<()> {
    let paths = Paths::new(lab);
    let host = paths.host(id);
    for directory in ["state", "root", "seed"].map(|name| host.join(name)) {
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    }
    let shared = paths.shared(id);
    fs::create_dir_all(&shared).with_context(|| format!("cannot create {}", shared.display()))?;
    let group = group(lab, id);
    hierarchies.create(&group)?;
    let groups: Vec<String> = hierarchies.directories(&group).iter().map(|path| path.display().to_string()).collect();
    let console = fs::File::create(host.join("console.log")).context("cannot create the console's log")?;
    let errors = console.try_clone().context("cannot share the console's log")?;
    let mut command = Command::new("setsid");
    command.args(["sh", "-euc", BOOT, "boot"]).arg(rootfs).arg(&host);
    command.args(nspawn_arguments(lab, id, &shared, binaries));
    command.env("FIP_LAB_CGROUPS", groups.join(" "));
    command.stdin(std::process::Stdio::null()).stdout(console).stderr(errors).process_group(0);
    // Not waited for: it belongs to the instance, not to this process.
    command.spawn().with_context(|| format!("cannot start node {id}"))?;
    Ok(())
}

/// The cgroup of a node, relative to the lab's own.
#[must_use]
pub fn group(lab: &str, id: NodeId) -> String {
    format!("{lab}/{id}")
}

fn nspawn_arguments(lab: &str, id: NodeId, shared: &Path, binaries: &Binaries<'_>) -> Vec<String> {
    let escaped = |path: &Path| path.display().to_string().replace('\\', "\\\\").replace(':', "\\:");
    let mut arguments: Vec<String> = ["--quiet", "--register=no", "--keep-unit"].map(String::from).into();
    arguments.push(format!("--machine={lab}-{id}"));
    arguments.push(format!("--hostname={}", id.node_name()));
    arguments.push(format!("--uuid={}", id.node_name()));
    arguments.push(format!("--network-namespace-path={}", network::namespace_path(&network::node_namespace(lab, id)).display()));
    // A foreign network namespace takes CAP_NET_ADMIN away unless it is named.
    arguments.push("--capability=CAP_NET_ADMIN,CAP_NET_RAW".to_owned());
    arguments.extend(["--link-journal=no", "--resolv-conf=off", "--timezone=off", "--console=pipe"].map(String::from));
    arguments.push(format!("--bind={}:/run/fip-lab", escaped(shared)));
    arguments.push(format!("--bind-ro={}:/usr/local/bin/fip-lab", escaped(binaries.lab)));
    if let Some(watchdog) = binaries.watchdog {
        arguments.push(format!("--bind-ro={}:/usr/bin/fip-watchdog", escaped(watchdog)));
    }
    arguments.extend(["--boot", "systemd.log_target=journal", "systemd.show_status=0"].map(String::from));
    arguments
}

/// The node's PID 1 once it is systemd itself, found among the processes of its cgroup.
#[must_use]
pub fn leader(lab: &str, id: NodeId, hierarchies: &Hierarchies) -> Option<Pid> {
    hierarchies.processes(&group(lab, id)).into_iter().find(|pid| {
        let process = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let comm = fs::read_to_string(process.join("comm")).unwrap_or_default();
        is_first_in_one_namespace(&status) && comm.trim() == "systemd"
    })
}

/// `NSpid:\t4711\t1`: one pid namespace below the reader's, and PID 1 in it. A pod's PID 1 has three numbers.
fn is_first_in_one_namespace(status: &str) -> bool {
    matches!(pid_numbers(status).as_slice(), [_, 1])
}

/// A process's numbers, from the reader's pid namespace inwards.
fn pid_numbers(status: &str) -> Vec<i32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or("");
    line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// The number that a process of a node has inside the node.
pub(crate) fn pid_inside(pid: Pid) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let zombie = status.lines().any(|line| line.starts_with("State:\tZ"));
    pid_numbers(&status).get(1).copied().filter(|_| !zombie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_ids_parse_only_as_they_are_printed() {
        assert_eq!("cp2".parse::<NodeId>().unwrap().to_string(), "cp2");
        for bad in ["cp0", "cp8", "cp", "cp01", "cp12", "CP1", "1", "cp+1"] {
            assert!(bad.parse::<NodeId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn node_names_are_32_hex_digits_and_differ() {
        let names: Vec<String> = NodeId::first(3).into_iter().map(NodeId::node_name).collect();
        assert!(names.iter().all(|name| name.len() == 32 && name.chars().all(|c| c.is_ascii_hexdigit())));
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn a_pods_first_process_is_not_the_nodes_leader() {
        assert!(is_first_in_one_namespace("Name:\tsystemd\nNSpid:\t4711\t1\n"));
        assert!(!is_first_in_one_namespace("NSpid:\t4711\t90\t1\n"));
        assert!(!is_first_in_one_namespace("NSpid:\t4711\t90\n"));
        assert!(!is_first_in_one_namespace("NSpid:\t1\n"));
    }

    #[test]
    fn colons_in_paths_do_not_end_the_bind_mount() {
        let binaries = Binaries { lab: Path::new("/a:b/fip-lab"), watchdog: None };
        let arguments = nspawn_arguments("fip", NodeId(1), Path::new("/run/x"), &binaries);
        assert!(arguments.contains(&"--bind-ro=/a\\:b/fip-lab:/usr/local/bin/fip-lab".to_owned()));
    }
}
