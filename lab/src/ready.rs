//! When is an instance up? All nodes booted, etcd has a leader that every member knows, every loop has finished a round.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Pid;
use serde_json::Value;

use crate::cgroup::Hierarchies;
use crate::cluster::Lab;
use crate::node::{self, Node, NodeId};
use crate::paths::Paths;
use crate::{command, loops};

/// A node boots in about a second on an idle machine; this is for a very busy one.
const BOOT_LIMIT: Duration = Duration::from_secs(60);
/// etcd forms within seconds once all members are there, and a loop beats within one interval after that.
const SERVICE_LIMIT: Duration = Duration::from_secs(60);
/// Type=notify, or a start limit reached.
const WATCHDOG_LIMIT: Duration = Duration::from_secs(30);
/// Between two looks; each costs a process in a node.
const LOOK_INTERVAL: Duration = Duration::from_millis(150);
const EXEC_LIMIT: Duration = Duration::from_secs(5);
/// How much of a journal an error carries.
const TAIL_LINES: usize = 25;
/// `EX_UNAVAILABLE`: this build has no kubelet stand-in.
const NO_KUBELET: &str = "ExecMainStatus=69";

/// Asks the local member what the vendor's loop asks it.
const STATUS: &str = "curl -m 2 --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt \
    --key /etc/kubernetes/pki/etcd/server.key -q -s -X POST -d {} https://127.0.0.1:2379/v3/maintenance/status";

/// Waits until every node's systemd runs.
pub(crate) async fn wait_for_leaders(lab: &str, ids: &[NodeId], hierarchies: &Hierarchies) -> anyhow::Result<Vec<Node>> {
    let mut found: BTreeMap<NodeId, Pid> = BTreeMap::new();
    let all = async {
        while found.len() < ids.len() {
            for &id in ids {
                if let Some(leader) = node::leader(lab, id, hierarchies) {
                    found.insert(id, leader);
                }
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    if tokio::time::timeout(BOOT_LIMIT, all).await.is_err() {
        let absent: Vec<NodeId> = ids.iter().copied().filter(|id| !found.contains_key(id)).collect();
        let tails: Vec<String> = absent.iter().map(|&id| console(lab, id)).collect();
        anyhow::bail!("not booted within {BOOT_LIMIT:?}:\n{}", tails.join("\n"));
    }
    Ok(found.into_iter().map(|(id, leader)| Node::new(lab, id, leader)).collect())
}

fn console(lab: &str, id: NodeId) -> String {
    let path = Paths::new(lab).host(id).join("console.log");
    let text = std::fs::read(&path).unwrap_or_default();
    format!("--- console of {id} ---\n{}", command::tail(&String::from_utf8_lossy(&text), TAIL_LINES))
}

/// Waits for etcd, the loops, and the watchdog if it was asked for.
pub(crate) async fn wait_for_service(lab: &Lab, progress: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    progress("waiting for etcd to elect a leader …");
    for node in lab.nodes() {
        wait(lab, node.id, "etcd", SERVICE_LIMIT, async || etcd_knows_a_leader(lab, node.id).await).await?;
    }
    progress("waiting for the loops' first rounds …");
    for node in lab.nodes() {
        wait(lab, node.id, "kubelet", SERVICE_LIMIT, async || loop_beats(lab, node.id).await).await?;
    }
    if lab.options().watchdog {
        progress("starting the watchdog …");
        for node in lab.nodes() {
            // What installing the package does.
            lab.exec_ok(node.id, &["journalctl", "--update-catalog"], EXEC_LIMIT).await?;
            lab.exec_ok(node.id, &["systemctl", "enable", "--quiet", "fip-watchdog.service"], EXEC_LIMIT).await?;
            let started = lab.exec(node.id, &["systemctl", "start", "fip-watchdog.service"], WATCHDOG_LIMIT).await;
            if !started.is_ok_and(|output| output.status.success()) {
                anyhow::bail!(
                    "the watchdog does not start on node {}:\n{}",
                    node.id,
                    journal(lab, node.id, "fip-watchdog").await
                );
            }
        }
    }
    Ok(())
}

/// Looks until `done`, and quotes the unit's journal when that takes too long or cannot come any more.
async fn wait(
    lab: &Lab,
    id: NodeId,
    unit: &str,
    limit: Duration,
    done: impl AsyncFn() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let looking = async {
        while !done().await? {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(limit, looking).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.context(format!("{unit} on node {id}:\n{}", journal(lab, id, unit).await))),
        Err(_elapsed) => anyhow::bail!("{unit} on node {id} is not ready after {limit:?}:\n{}", journal(lab, id, unit).await),
    }
}

/// What etcd's local member says of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberStatus {
    pub member_id: String,
    pub leader: Option<String>,
    pub raft_term: String,
}

/// The local member's status; none when it does not answer.
pub(crate) async fn member_status(lab: &Lab, id: NodeId) -> Option<MemberStatus> {
    let argv: Vec<&str> = STATUS.split_ascii_whitespace().collect();
    let output = lab.exec(id, &argv, EXEC_LIMIT).await.ok().filter(|output| output.status.success())?;
    parse_status(&output.stdout)
}

fn parse_status(bytes: &[u8]) -> Option<MemberStatus> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    // The gateway omits fields that are zero: no leader is no field.
    Some(MemberStatus {
        member_id: text(&value["header"]["member_id"])?,
        leader: text(&value["leader"]),
        raft_term: text(&value["raftTerm"]).unwrap_or_default(),
    })
}

async fn etcd_knows_a_leader(lab: &Lab, id: NodeId) -> anyhow::Result<bool> {
    Ok(member_status(lab, id).await.is_some_and(|status| status.leader.is_some()))
}

async fn loop_beats(lab: &Lab, id: NodeId) -> anyhow::Result<bool> {
    if let Some(container) = loops::find(lab, id)? {
        return Ok(loops::beats(lab, id, &container));
    }
    let unit = lab.exec_ok(id, &["systemctl", "show", "--property=ExecMainStatus", "kubelet.service"], EXEC_LIMIT).await?;
    Ok(unit.trim() == NO_KUBELET)
}

/// The end of a unit's journal, or of the console when the node cannot be entered.
async fn journal(lab: &Lab, id: NodeId, unit: &str) -> String {
    let (unit_argument, lines) = (format!("--unit={unit}"), format!("--lines={TAIL_LINES}"));
    let argv = ["journalctl", "--no-pager", "--output=short-precise", &unit_argument, &lines];
    match lab.exec(id, &argv, EXEC_LIMIT).await.context("cannot read the journal") {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim_end().to_owned(),
        Err(error) => format!("{error:#}\n{}", console(lab.name(), id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_without_leader_is_told_from_one_with() {
        let with = parse_status(br#"{"header":{"member_id":"14","raft_term":"2"},"leader":"14","raftTerm":"2"}"#).unwrap();
        assert_eq!(with.leader.as_deref(), Some("14"));
        let without = parse_status(br#"{"header":{"member_id":"14"},"errors":["etcdserver: no leader"]}"#).unwrap();
        assert_eq!(without.leader, None);
        assert_eq!(parse_status(b"not json"), None);
    }
}
