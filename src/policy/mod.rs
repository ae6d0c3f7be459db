//! The policy: what an operator allows, as typed values.
//!
//! [`Policy`] is pure data and always valid: [`check::check`] is the only way from YAML to it, and it
//! reports every fault at its line. `schema` holds the one table of keys that the check, the
//! JSON Schema, the audit's `diff` and the tests of `policies/default.yaml` all read.
//!
//! ```text
//! file ──► load ──► tree (events -> nodes with positions) ──► check (table, remedies, combinations) ──► Policy
//! ```
//!
//! Only `load` and `reload` do I/O.

pub mod arithmetic;
pub mod check;
pub mod combination;
pub mod diff;
pub mod fault;
pub mod json_schema;
mod ladder;
pub mod load;
pub mod reload;
pub mod remedies;
pub mod render;
pub mod schema;
mod tree;
pub mod units;
pub(crate) mod value;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::decision::step::StepKind;
use crate::decision::verdict::Verdict;

/// A valid policy. See `policies/default.yaml` for every key with its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Act, or only say what would be done.
    pub mode: Mode,
    /// The floating IP.
    pub fip: FipPolicy,
    /// How to ask the local etcd member.
    pub etcd: EtcdPolicy,
    /// The loop that is watched.
    pub watched_loop: LoopPolicy,
    /// The manifest cycle.
    pub cycle: CyclePolicy,
    /// The ladder of steps for each verdict; a verdict that is absent is answered by observing.
    pub remedies: BTreeMap<Verdict, Vec<StepKind>>,
    /// Bounds on what may be done, and how often.
    pub limits: LimitPolicy,
    /// When the node counts as starved.
    pub host: HostPolicy,
    /// What is waited for after a boot.
    pub boot: BootPolicy,
    /// What is asked behind the FIP.
    pub api: ApiPolicy,
    /// What the nodes of a cluster do together.
    pub cluster: ClusterPolicy,
    /// Where the journal of cycles and the manifest backups live, `/var/lib/fip-watchdog`.
    pub state_dir: PathBuf,
}

/// Whether steps are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Steps are carried out.
    Enforce,
    /// Verdicts and plans are journalled; nothing is written, no address is touched, no packet is sent.
    Observe,
}

/// The floating IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FipPolicy {
    /// The address; always handled as a /32.
    pub address: Ipv4Addr,
    /// The interface that carries it, `eth0`.
    pub interface: String,
    /// What to do when the duplicate probe is answered for longer than one worst round.
    pub on_conflict: OnConflict,
    /// Whether the alias that the loop put up gets our lease while we watch and are proven to lead.
    pub lease_loop_alias: bool,
}

/// The answer to a duplicate probe that goes on being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// After one worst round a proven leader adds the alias and announces it.
    TakeOver,
    /// Go on probing as long as the proof holds.
    Wait,
    /// Give up and alarm.
    Alarm,
}

/// How to ask the local etcd member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdPolicy {
    /// Client URL of the local member, `https://127.0.0.1:2379`.
    pub endpoint: String,
    /// CA certificate (PEM).
    pub ca: PathBuf,
    /// Client certificate (PEM).
    pub cert: PathBuf,
    /// Its key (PEM).
    pub key: PathBuf,
    /// Time between two questions while all is well.
    pub poll: Duration,
    /// Time between two questions while something is not.
    pub poll_alert: Duration,
    /// Deadline of one round of questions.
    pub deadline: Duration,
    /// The leadership flaps when its term has changed so often within `flap_window`.
    pub flap_changes: u32,
    /// The window in which changes of the term count.
    pub flap_window: Duration,
    /// A leadership that flapped counts as stable when its term has not changed for this long.
    pub stable_for: Duration,
}

/// The loop that is watched, and when it counts as stalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopPolicy {
    /// Path of its manifest in the kubelet's manifest directory.
    pub manifest: PathBuf,
    /// Namespace of the pod.
    pub namespace: String,
    /// `metadata.name` of the pod (the kubelet appends `-<node>`).
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// Where the kubelet keeps pod logs, `/var/log/pods`.
    pub log_root: PathBuf,
    /// The kubelet's systemd service.
    pub kubelet_unit: String,
    /// How often the loop runs.
    pub interval: Duration,
    /// The `-m` of its curl.
    pub query_timeout: Duration,
    /// Log and process both frozen for this long: stalled.
    pub stalled_after: Duration,
    /// The process cannot be seen and the log is frozen for this long: stalled.
    pub stalled_after_log_only: Duration,
    /// How long the loop may take to finish its first round under a changed manifest, before it is judged like any other.
    pub settle_after_change: Duration,
}

impl LoopPolicy {
    /// The longest that a healthy loop can take to correct the alias: a whole interval, a query that
    /// times out, and 1 s for the rest of the round.
    #[must_use]
    pub fn worst_round(&self) -> Duration {
        self.interval.saturating_add(self.query_timeout).saturating_add(Duration::from_secs(1))
    }
}

/// The manifest cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CyclePolicy {
    /// Where the manifest waits while it is out: on the same mount as the manifest directory, and not
    /// in it. By default `<parent of the manifest directory>/fip-watchdog.staging`.
    pub staging_dir: PathBuf,
    /// How long the manifest has been out when the loop's process, if it still lives, is killed by us; `None` is never.
    pub kill_after: Option<Duration>,
    /// How long the old pod may take to die, beyond its own grace period or after it was killed.
    pub death_margin: Duration,
    /// How long to stay out after the old pod's end; under one housekeeping tick of the kubelet (2 s) a
    /// restart counts as a crash.
    pub settle: Duration,
    /// How long the new pod may take to beat.
    pub verify_timeout: Duration,
}

/// Bounds on what may be done, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitPolicy {
    /// How long a verdict must have held before the manifest is cycled for it; the alias does not wait.
    pub confirm: Duration,
    /// Least time between two cycles.
    pub cooldown: Duration,
    /// Most cycles in any hour.
    pub cycles_per_hour: u32,
    /// `valid_lft` of an alias that we apply; renewed at half-life.
    pub alias_lease: Duration,
    /// Least time between two attempts of the same alias step.
    pub alias_cooldown: Duration,
    /// Most applications of the alias in any hour (renewals do not count).
    pub alias_per_hour: u32,
    /// How old a proof of leadership may be when a step starts.
    pub proof_max_age: Duration,
    /// How long ages count from zero again after the daemon itself did not run.
    pub grace: Duration,
}

/// When the node counts as starved, so that the loop's silence means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPolicy {
    /// How many times in a minute this daemon may wake half a second late, less one.
    pub late_ticks: u32,
    /// Percentage of time in which some task waits for a CPU (PSI) that may be exceeded; 100 cannot.
    pub cpu_pressure: u32,
    /// How long it must not have shown until it counts as over.
    pub calm_after: Duration,
    /// How long it counts at most.
    pub starved_max: Duration,
}

impl Default for HostPolicy {
    fn default() -> Self {
        Self { late_ticks: 3, cpu_pressure: 95, calm_after: Duration::from_secs(30), starved_max: Duration::from_secs(600) }
    }
}

/// What is waited for after a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootPolicy {
    /// Names of systemd units with a blank between them; one that does not exist is not waited for.
    pub wait_for: String,
    /// How long after the boot they are waited for at most; zero is not at all.
    pub hold_off_max: Duration,
}

impl Default for BootPolicy {
    fn default() -> Self {
        let wait_for = "hypercrypt.service kubelet.service".to_owned();
        Self { wait_for, hold_off_max: Duration::from_secs(300) }
    }
}

/// Whether the holder of the FIP asks if anything answers behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiPolicy {
    /// Whether it is asked.
    pub check: bool,
    /// The TCP port, 1 to 65535.
    pub port: u32,
}

impl Default for ApiPolicy {
    fn default() -> Self {
        Self { check: true, port: 6443 }
    }
}

impl ApiPolicy {
    /// The port, if it is to be asked.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        u16::try_from(self.port).ok().filter(|port| self.check && *port != 0)
    }
}

/// What the nodes of a cluster do together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterPolicy {
    /// Whether this node puts what it sees of its peers into etcd, under a lease, for the diagnoses of the others, and reads theirs.
    pub share_views: bool,
}

impl Policy {
    /// The default policy for a FIP on an interface: what `policies/default.yaml` says.
    #[must_use]
    pub fn with_defaults(address: Ipv4Addr, interface: &str) -> Self {
        let pki = |name: &str| PathBuf::from("/etc/kubernetes/pki/etcd").join(name);
        Self {
            mode: Mode::Enforce,
            fip: FipPolicy {
                address,
                interface: interface.to_owned(),
                on_conflict: OnConflict::TakeOver,
                lease_loop_alias: false,
            },
            etcd: EtcdPolicy {
                endpoint: "https://127.0.0.1:2379".to_owned(),
                ca: pki("ca.crt"),
                cert: pki("server.crt"),
                key: pki("server.key"),
                poll: Duration::from_secs(1),
                poll_alert: Duration::from_millis(250),
                deadline: Duration::from_millis(1500),
                flap_changes: 4,
                flap_window: Duration::from_secs(60),
                stable_for: Duration::from_secs(15),
            },
            watched_loop: LoopPolicy {
                manifest: PathBuf::from("/etc/kubernetes/manifests/wcp-fip.yaml"),
                namespace: "kube-system".to_owned(),
                pod: "wcp-fip".to_owned(),
                container: "wcp-fip".to_owned(),
                log_root: PathBuf::from("/var/log/pods"),
                kubelet_unit: "kubelet.service".to_owned(),
                interval: Duration::from_secs(5),
                query_timeout: Duration::from_secs(10),
                stalled_after: Duration::from_secs(20),
                stalled_after_log_only: Duration::from_secs(60),
                settle_after_change: Duration::from_secs(900),
            },
            cycle: CyclePolicy {
                staging_dir: PathBuf::from("/etc/kubernetes/fip-watchdog.staging"),
                kill_after: Some(Duration::from_millis(2500)),
                death_margin: Duration::from_secs(15),
                settle: Duration::from_secs(3),
                verify_timeout: Duration::from_secs(30),
            },
            remedies: default_remedies(),
            limits: LimitPolicy {
                confirm: Duration::from_secs(5),
                cooldown: Duration::from_secs(120),
                cycles_per_hour: 3,
                alias_lease: Duration::from_secs(10),
                alias_cooldown: Duration::from_secs(1),
                alias_per_hour: 60,
                proof_max_age: Duration::from_secs(2),
                grace: Duration::from_secs(20),
            },
            host: HostPolicy::default(),
            boot: BootPolicy::default(),
            api: ApiPolicy::default(),
            cluster: ClusterPolicy::default(),
            state_dir: PathBuf::from("/var/lib/fip-watchdog"),
        }
    }
}

/// The ladders of `policies/default.yaml`.
fn default_remedies() -> BTreeMap<Verdict, Vec<StepKind>> {
    use StepKind::{AnnounceAlias, ApplyAlias, CycleManifest, ReleaseAlias};
    BTreeMap::from([
        (Verdict::ManifestShadowed, vec![ApplyAlias]),
        (Verdict::LoopStalledFipMissing, vec![ApplyAlias, CycleManifest]),
        (Verdict::LoopStalledFipHeld, vec![AnnounceAlias, CycleManifest]),
        (Verdict::LoopStalledFollower, vec![CycleManifest]),
        (Verdict::FipOrphaned, vec![ReleaseAlias, CycleManifest]),
        (Verdict::FipMissing, vec![ApplyAlias]),
        (Verdict::FipDuplicated, vec![AnnounceAlias, ReleaseAlias]),
        (Verdict::LoopBlind, vec![ApplyAlias]),
        (Verdict::LoopMistaken, vec![ApplyAlias, CycleManifest]),
        (Verdict::LoopAbsent, vec![ApplyAlias]),
        (Verdict::PodStuck, vec![ApplyAlias]),
        (Verdict::KubeletDown, vec![ApplyAlias]),
        (Verdict::NoQuorum, vec![ReleaseAlias]),
    ])
}
