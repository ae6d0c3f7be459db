//! `fip-lab status`: one line a node. Reads only.

use std::time::Duration;

use serde::Serialize;

use crate::cluster::Lab;
use crate::network::FIP;
use crate::node::NodeId;
use crate::ready::member_status;
use crate::{command, loops};

const EXEC_LIMIT: Duration = Duration::from_secs(3);

/// What is known of a node.
#[derive(Debug, Clone, Serialize)]
pub struct NodeStatus {
    /// `cp1`.
    pub node: NodeId,
    /// Its name as a Supervisor would call it.
    pub node_name: String,
    /// Its address.
    pub ip: std::net::Ipv4Addr,
    /// Its PID 1 on the host; none when it does not run.
    pub leader_pid: Option<i32>,
    /// `leader`, `follower`, `no leader` or `no answer`.
    pub etcd: &'static str,
    /// etcd's raft term, as that member sees it.
    pub raft_term: Option<String>,
    /// Whether the node has the FIP.
    pub fip: Option<bool>,
    /// The loop's pid inside the node.
    pub loop_pid: Option<i32>,
    /// What systemd says of the watchdog's unit.
    pub watchdog: Option<String>,
}

/// Reads the status of every node of the instance.
///
/// # Errors
/// The instance is not up at all.
pub async fn read(name: &str) -> anyhow::Result<Vec<NodeStatus>> {
    let lab = Lab::attach_to_what_runs(name)?;
    let mut all = Vec::new();
    for id in NodeId::first(lab.options().nodes) {
        all.push(if lab.find(id).is_ok() { read_node(&lab, id).await } else { absent(id) });
    }
    Ok(all)
}

fn absent(id: NodeId) -> NodeStatus {
    NodeStatus {
        node: id,
        node_name: id.node_name(),
        ip: id.ip(),
        leader_pid: None,
        etcd: "no answer",
        raft_term: None,
        fip: None,
        loop_pid: None,
        watchdog: None,
    }
}

async fn read_node(lab: &Lab, id: NodeId) -> NodeStatus {
    let member = member_status(lab, id).await;
    let etcd = match &member {
        None => "no answer",
        Some(status) if status.leader.is_none() => "no leader",
        Some(status) if status.leader.as_ref() == Some(&status.member_id) => "leader",
        Some(_) => "follower",
    };
    let loop_pid = loops::find(lab, id).ok().flatten().map(|container| container.pid);
    let unit = lab.exec(id, &["systemctl", "is-active", "fip-watchdog.service"], EXEC_LIMIT).await;
    let watchdog = unit.ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let watchdog = watchdog.filter(|said| !said.is_empty());
    let leader_pid = Some(lab.node(id).leader_pid);
    NodeStatus {
        leader_pid,
        etcd,
        raft_term: member.map(|m| m.raft_term),
        fip: holds_fip(lab, id).await,
        loop_pid,
        watchdog,
        ..absent(id)
    }
}

/// Whether the node has the FIP, whatever its prefix.
pub(crate) async fn holds_fip(lab: &Lab, id: NodeId) -> Option<bool> {
    let mut list = lab.netns_command(id, &["ip", "-4", "-o", "addr", "show", "dev", "eth0"]);
    let text = command::success(&mut list, EXEC_LIMIT).await.ok()?;
    Some(text.contains(&format!(" {FIP}/")))
}

/// The table that a person reads.
#[must_use]
pub fn table(all: &[NodeStatus]) -> String {
    let mut text = format!(
        "{:<5} {:<16} {:<8} {:<10} {:<5} {:<5} {:<6} {}\n",
        "NODE", "ADDRESS", "PID", "ETCD", "TERM", "FIP", "LOOP", "WATCHDOG"
    );
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for node in all {
        let fip = match node.fip {
            Some(true) => "here",
            Some(false) => "",
            None => "?",
        };
        text.push_str(&format!(
            "{:<5} {:<16} {:<8} {:<10} {:<5} {fip:<5} {:<6} {}\n",
            node.node.to_string(),
            node.ip.to_string(),
            or_dash(node.leader_pid.map(|pid| pid.to_string())),
            node.etcd,
            or_dash(node.raft_term.clone()),
            or_dash(node.loop_pid.map(|pid| pid.to_string())),
            or_dash(node.watchdog.clone()),
        ));
    }
    text
}
