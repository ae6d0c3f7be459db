//! What nodes share through etcd: keys under a lease, and nothing at all unless the policy says so.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fip_watchdog::audit::facts::Sense;
use fip_watchdog::control::client;
use fip_watchdog::control::protocol::{Request, Response};
use fip_watchdog::control::report::StatusReport;
use fip_watchdog::decision::plan::EtcdDepth;
use fip_watchdog::diagnose::evidence::Connect;
use fip_watchdog::diagnose::view::{self, SharedView};
use fip_watchdog::runtime::clock;
use fip_watchdog::sensor::etcd::{EtcdSensor, read_prefix};

use crate::cluster::{Cluster, eventually, write};
use crate::{answered, until_confirmed};

const DEADLINE: Duration = Duration::from_secs(5);

/// Longer than a busy machine takes between two calls, shorter than the patience for its end.
const LEASE: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_shared_value_is_read_by_the_others_and_is_gone_with_its_lease() {
    let mut cluster = Cluster::start(3);
    let mut sensor = EtcdSensor::new(&cluster.policy(0));
    let prover = sensor.prover();
    let id = until_confirmed(&mut sensor).await.member_id;
    assert_eq!(prover.peer_addresses(id).await.unwrap().len(), 2);

    let key = view::key(id);
    let put = async |value: &str, lease| prover.put_leased(&key, value.into(), lease, LEASE).await;
    let lease = eventually("a key", async || put("one", None).await, Result::is_ok).await.unwrap();
    assert_eq!(put("two", Some(lease)).await, Ok(lease), "the lease is renewed");
    assert!(put("two", Some(lease + 1)).await.is_ok_and(|new| new != lease), "another one is taken when it is gone");

    let other = cluster.policy(1);
    let read = async || read_prefix(&other, view::PREFIX, DEADLINE).await;
    let wanted = Ok(vec![(key.clone(), b"two".to_vec())]);
    eventually("the value at another member", read, |found| *found == wanted).await.unwrap();
    eventually("its end", read, |found| *found == Ok(Vec::new())).await.unwrap();

    put("three", None).await.unwrap();
    let third = Ok(vec![(key.clone(), b"three".to_vec())]);
    eventually("the third at another member", read, |found| *found == third).await.unwrap();
    cluster.members[0].kill();
    cluster.members[2].kill();
    assert_eq!(read().await, third, "it is read without a quorum");
    assert!(prover.put_leased(&key, "four".into(), None, DEADLINE).await.is_err());
}

/// A daemon beside member 0, on an interface that no machine has; killed on drop.
struct Daemon(Child, std::path::PathBuf);

impl Daemon {
    fn start(cluster: &Cluster, name: &str, lines: &str) -> Self {
        let dir = cluster.dir.path().join(name);
        let etcd = cluster.policy(0);
        let (dir_name, ca, cert, key) = (dir.display(), etcd.ca.display(), etcd.cert.display(), etcd.key.display());
        let policy = format!(
            "version: 1\nfip: {{ address: 192.0.2.200, interface: fipwd-lan }}\netcd: {{ endpoint: \"{}\", ca: {ca}, cert: {cert}, key: {key} }}\n\
             loop: {{ manifest: {dir_name}/manifests/wcp-fip.yaml, log_root: {dir_name}/log }}\nboot: {{ hold_off_max: 0s }}\n\
             state_dir: {dir_name}/state\n{lines}\n",
            etcd.endpoint
        );
        std::fs::create_dir_all(&dir).unwrap();
        write(&dir.join("policy.yaml"), &policy);
        let mut command = Command::new(env!("CARGO_BIN_EXE_fip-watchdog"));
        command.arg("run").arg("--policy").arg(dir.join("policy.yaml")).arg("--runtime-dir").arg(dir.join("run"));
        command.env("STATE_DIRECTORY", dir.join("state")).env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap(), dir.join("run/control.sock"))
    }

    /// Waits until it has seen etcd's leader and has run for so long.
    fn has_run_for(&self, length: Duration) {
        let end = clock::now() + Duration::from_secs(40);
        let wanted = |report: &StatusReport| {
            matches!(report.facts.etcd, Sense::Fresh { .. }) && u128::from(report.uptime_ms) >= length.as_millis()
        };
        while !status(&self.1).is_some_and(|report| wanted(&report)) {
            assert!(clock::now() < end, "the daemon sees no etcd");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn status(socket: &Path) -> Option<StatusReport> {
    match client::ask(socket, &Request::Status, client::DEADLINE).ok()? {
        Response::Status(report) => Some(*report),
        Response::Explain(_) | Response::Paused { .. } | Response::Resumed { .. } | Response::Refused { .. } => None,
    }
}

#[tokio::test]
async fn a_daemon_writes_nothing_to_etcd_unless_it_shares_and_enforces() {
    let cluster = Cluster::start(2);
    let mut sensor = EtcdSensor::new(&cluster.policy(0));
    until_confirmed(&mut sensor).await;
    let mut revision = async || answered(&sensor.read(EtcdDepth::Status).await).map(|status| status.revision);
    let before = revision().await;
    assert!(before.is_some());
    let shared = async || read_prefix(&cluster.policy(1), view::PREFIX, DEADLINE).await.unwrap_or_default();

    for (name, lines) in [("plain", ""), ("observing", "mode: observe\ncluster: { share_views: true }")] {
        let daemon = Daemon::start(&cluster, name, lines);
        daemon.has_run_for(Duration::from_secs(7));
        assert_eq!((shared().await.len(), revision().await), (0, before), "{name}");
    }

    let _daemon = Daemon::start(&cluster, "sharing", "cluster: { share_views: true }");
    let found = eventually("a view", shared, |found| !found.is_empty()).await;
    let [(key, value)] = found.as_slice() else { panic!("{found:?}") };
    let wall_ms = u64::try_from(clock::wall().as_millis()).unwrap();
    let view = SharedView::decode(value, wall_ms).unwrap();
    assert!(view::member_of(key).is_some() && !view.node.is_empty() && view.age_ms < 20_000, "{view:?}");
    assert!(matches!(view.peer_ports.as_slice(), [(_, Connect::Open)]), "{view:?}");
}
