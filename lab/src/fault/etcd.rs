//! Faults of etcd.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use super::Target;
use super::network::{delete_table, netns_nft};
use crate::node::NodeId;
use crate::ready::{MemberStatus, member_status};

const UNIT: &str = "etcd.service";
/// The table that `etcd-unreachable` makes.
const TABLE: &str = "fiplab_etcd";
/// A leader hands over within an election timeout or refuses.
const MOVE_LIMIT: Duration = Duration::from_secs(8);
/// A restart setting of the unit, gone with the next boot like everything in the node.
const NO_RESTART: &str = "/run/systemd/system/etcd.service.d/fip-lab.conf";

/// Settings with which etcd ends at its start, likewise.
const UNUSABLE: &str = "/run/systemd/system/etcd.service.d/fip-lab-unusable.conf";
/// The quota of the unit, likewise.
const SMALL_QUOTA: &str = "/run/systemd/system/etcd.service.d/fip-lab-quota.conf";
/// A member is ready within a second or two of its start, when there is a leader; writes wait for a leader too.
const RESTART_LIMIT: Duration = Duration::from_secs(40);

/// The main process of a unit of the node, as the host sees it; none when it does not run.
pub(super) async fn main_process(target: &Target<'_>, unit: &str) -> anyhow::Result<Option<Pid>> {
    let text = target.run(&["systemctl", "show", "--property=MainPID", "--value", unit]).await?;
    let inside: i32 = text.trim().parse().with_context(|| format!("systemd says that the main process of {unit} is {text:?}"))?;
    Ok(Some(inside).filter(|&pid| pid > 0).and_then(|pid| target.lab.host_pid(target.node, pid)))
}

pub(super) async fn etcd(target: &Target<'_>) -> anyhow::Result<Pid> {
    main_process(target, UNIT).await?.context("etcd does not run")
}

pub(super) async fn stop(target: &Target<'_>) -> anyhow::Result<()> {
    kill_process(etcd(target).await?, Signal::STOP).context("cannot stop etcd")
}

pub(super) async fn resume(target: &Target<'_>) -> anyhow::Result<()> {
    match main_process(target, UNIT).await? {
        Some(pid) => kill_process(pid, Signal::CONT).context("cannot continue etcd"),
        None => Ok(()),
    }
}

/// Established connections too: the watchdog keeps one.
pub(super) async fn cut_off(target: &Target<'_>) -> anyhow::Result<()> {
    delete_table(target, TABLE).await?;
    let chain = |hook: &str, link: &str| {
        format!(
            " chain {hook} {{ type filter hook {hook} priority 0; policy accept; {link} lo tcp dport 2379 drop; {link} lo tcp sport 2379 drop; }}\n"
        )
    };
    let rules = format!("table ip {TABLE} {{\n{}{}}}\n", chain("input", "iif"), chain("output", "oif"));
    netns_nft(target, &rules).await
}

pub(super) async fn let_in(target: &Target<'_>) -> anyhow::Result<()> {
    delete_table(target, TABLE).await
}

pub(super) async fn kill(target: &Target<'_>) -> anyhow::Result<()> {
    if target.choice("restart", &["yes", "no"])? == "no" {
        let script = "mkdir -p \"${1%/*}\"; printf '[Service]\\nRestart=no\\n' >\"$1\"; systemctl daemon-reload";
        target.shell(script, &[NO_RESTART]).await?;
    }
    kill_process(etcd(target).await?, Signal::KILL).context("cannot kill etcd")
}

pub(super) async fn restart(target: &Target<'_>) -> anyhow::Result<()> {
    // It is ready when it has a leader; an election may be on its way.
    target.lab.exec_ok(target.node, &["systemctl", "restart", UNIT], RESTART_LIMIT).await?;
    Ok(())
}

pub(super) async fn spend_quota(target: &Target<'_>) -> anyhow::Result<()> {
    let script = "mkdir -p \"${1%/*}\"; printf '[Service]\\nEnvironment=ETCD_QUOTA_BACKEND_BYTES=2097152\\n' >\"$1\"; \
                  systemctl daemon-reload; systemctl restart \"$2\"; \
                  for i in 1 2 3 4 5 6 7 8; do \
                  said=$(head -c 1000000 /dev/zero | tr '\\0' x | etcdctl put fip-lab/filler$i 2>&1) && continue; \
                  case $said in *'space exceeded'*) exit 0 ;; *) echo \"$said\" >&2; exit 1 ;; esac; done; echo 'eight writes fit' >&2; exit 1";
    let argv = ["sh", "-euc", script, "fip-lab", SMALL_QUOTA, UNIT];
    target.lab.exec_ok(target.node, &argv, RESTART_LIMIT).await?;
    Ok(())
}

pub(super) async fn free_quota(target: &Target<'_>) -> anyhow::Result<()> {
    let script = "rm -f \"$1\"; systemctl daemon-reload; systemctl restart \"$2\"; etcdctl alarm disarm";
    let argv = ["sh", "-euc", script, "fip-lab", SMALL_QUOTA, UNIT];
    target.lab.exec_ok(target.node, &argv, RESTART_LIMIT).await?;
    Ok(())
}

pub(super) async fn start(target: &Target<'_>) -> anyhow::Result<()> {
    // Not waited for: it is ready only when there is a quorum.
    let script =
        "rm -f \"$1\"; systemctl daemon-reload; systemctl reset-failed etcd.service; systemctl start --no-block etcd.service";
    target.shell(script, &[NO_RESTART]).await?;
    Ok(())
}

/// Not waited for: it is ready only when there is a quorum.
pub(super) async fn restart_soon(target: &Target<'_>) -> anyhow::Result<()> {
    target.shell("systemctl reset-failed etcd.service; systemctl restart --no-block etcd.service", &[]).await?;
    Ok(())
}

/// A heartbeat interval above the election timeout: etcd says so and ends, and systemd starts it again every two seconds.
pub(super) async fn crash(target: &Target<'_>) -> anyhow::Result<()> {
    let script = "mkdir -p \"${1%/*}\"; printf '[Service]\\nEnvironment=ETCD_HEARTBEAT_INTERVAL=60000\\n' >\"$1\"; systemctl daemon-reload";
    target.shell(script, &[UNUSABLE]).await?;
    restart_soon(target).await
}

pub(super) async fn crash_no_more(target: &Target<'_>) -> anyhow::Result<()> {
    target.shell("rm -f \"$1\"; systemctl daemon-reload", &[UNUSABLE]).await?;
    restart_soon(target).await
}

pub(super) async fn move_leader(target: &Target<'_>) -> anyhow::Result<()> {
    let wanted = member_status(target.lab, target.node).await.context("its etcd does not answer")?;
    let leader = wanted.leader.clone().context("its etcd knows no leader")?;
    if leader == wanted.member_id {
        return Ok(());
    }
    let holder = find_member(target, &leader).await?;
    let id: u64 = wanted.member_id.parse().with_context(|| format!("etcd's member id is {:?}", wanted.member_id))?;
    let argv = ["etcdctl", "move-leader", &format!("{id:x}")];
    target.lab.exec_ok(holder, &argv, MOVE_LIMIT).await?;
    Ok(())
}

/// The node whose etcd has that member id.
pub(super) async fn find_member(target: &Target<'_>, member_id: &str) -> anyhow::Result<NodeId> {
    for node in target.lab.nodes().iter().filter(|node| node.id != target.node) {
        let status: Option<MemberStatus> = member_status(target.lab, node.id).await;
        if status.is_some_and(|status| status.member_id == member_id) {
            return Ok(node.id);
        }
    }
    anyhow::bail!("no node that answers has the leading member {member_id}")
}
