//! Faults of a member's place in the cluster: removed from it, in it without a vote, or with data from earlier.

use std::time::Duration;

use anyhow::Context as _;

use super::Target;
use crate::node::NodeId;
use crate::ready::member_status;

/// A change of members waits until the others have been connected for 5 s; a start waits for a snapshot.
const CHANGE_LIMIT: Duration = Duration::from_secs(30);
/// Tried again as long as etcd refuses a change, which it does while it thinks the cluster unwell.
const AGAIN: &str = "for i in $(seq 50); do said=$(\"$@\" 2>&1) && exit 0; sleep 0.2; done; echo \"$said\" >&2; exit 1";
/// Empties the data and joins the cluster that is there; the unit in `/run` goes before the one in `/usr/lib`.
const JOIN: &str = "systemctl stop etcd.service; rm -rf /var/lib/etcd/member; mkdir -p /run/systemd/system; \
                    sed s/cluster-state=new/cluster-state=existing/ /usr/lib/systemd/system/etcd.service \
                    >/run/systemd/system/etcd.service; systemctl daemon-reload; systemctl reset-failed etcd.service; \
                    systemctl start --no-block etcd.service";
/// Where the data of now stay while those of earlier are in their place.
const NEWER: &str = "/var/lib/etcd.newer";

pub(super) async fn remove(target: &Target<'_>) -> anyhow::Result<()> {
    let id = own_id(target).await?;
    ask_another(target, &["etcdctl", "member", "remove", &id]).await
}

pub(super) async fn add_again(target: &Target<'_>) -> anyhow::Result<()> {
    if listed(target).await?.is_some() {
        return Ok(());
    }
    add(target, &[]).await
}

/// Takes the vote away: what was a member is removed, and joins again as a learner with empty data.
pub(super) async fn make_learner(target: &Target<'_>) -> anyhow::Result<()> {
    remove(target).await?;
    add(target, &["--learner"]).await
}

pub(super) async fn give_vote(target: &Target<'_>) -> anyhow::Result<()> {
    let (id, learner) = listed(target).await?.context("it is not in the member list")?;
    if !learner {
        return Ok(());
    }
    // Refused until its log has caught up.
    ask_another(target, &["etcdctl", "member", "promote", &id]).await
}

/// As after going back to a snapshot of the machine: the data are put back to what they were before the cluster went on. The leader
/// remembers what this member had acknowledged, and the member panics.
pub(super) async fn revert(target: &Target<'_>) -> anyhow::Result<()> {
    let script = "[ ! -e \"$1\" ] || { echo 'its data are those of earlier already: heal that first' >&2; exit 1; }";
    target.shell(script, &[NEWER]).await?;
    let keep = "systemctl stop etcd.service; cp -a --sparse=always /var/lib/etcd \"$1.older\"; systemctl start etcd.service";
    target.lab.exec_ok(target.node, &["sh", "-euc", keep, "fip-lab", NEWER], CHANGE_LIMIT).await?;
    for step in 0..5 {
        ask_another(target, &["etcdctl", "put", "fip-lab/went-on", &step.to_string()]).await?;
    }
    let script = "systemctl stop etcd.service; mv /var/lib/etcd \"$1\"; mv \"$1.older\" /var/lib/etcd; \
                  systemctl start --no-block etcd.service";
    target.lab.exec_ok(target.node, &["sh", "-euc", script, "fip-lab", NEWER], CHANGE_LIMIT).await?;
    Ok(())
}

pub(super) async fn unrevert(target: &Target<'_>) -> anyhow::Result<()> {
    let script = "[ -e \"$1\" ] || exit 0; systemctl stop etcd.service; rm -rf /var/lib/etcd \"$1.older\"; mv \"$1\" /var/lib/etcd; \
                  systemctl reset-failed etcd.service; systemctl start --no-block etcd.service";
    target.shell(script, &[NEWER]).await?;
    Ok(())
}

async fn add(target: &Target<'_>, how: &[&str]) -> anyhow::Result<()> {
    let url = format!("--peer-urls=https://{}:2380", target.node.ip());
    let name = target.node.to_string();
    ask_another(target, &[&["etcdctl", "member", "add", &name, &url], how].concat()).await?;
    target.shell(JOIN, &[]).await?;
    Ok(())
}

async fn own_id(target: &Target<'_>) -> anyhow::Result<String> {
    let own = member_status(target.lab, target.node).await.context("its etcd does not answer")?;
    let id: u64 = own.member_id.parse().with_context(|| format!("etcd's member id is {:?}", own.member_id))?;
    Ok(format!("{id:x}"))
}

/// The member with this node's address, and whether it is a learner.
async fn listed(target: &Target<'_>) -> anyhow::Result<Option<(String, bool)>> {
    let list = target.lab.exec_ok(another(target)?, &["etcdctl", "member", "list"], CHANGE_LIMIT).await?;
    let url = format!("https://{}:2380", target.node.ip());
    Ok(list.lines().find(|line| line.contains(&url)).and_then(member))
}

/// `8211f1d0f64f3269, started, cp1, https://192.168.111.201:2380, https://192.168.111.201:2379, false`
fn member(line: &str) -> Option<(String, bool)> {
    let words: Vec<&str> = line.split(", ").collect();
    Some(((*words.first()?).to_owned(), words.last().is_some_and(|last| last.trim() == "true")))
}

async fn ask_another(target: &Target<'_>, argv: &[&str]) -> anyhow::Result<()> {
    let argv = [&["sh", "-uc", AGAIN, "fip-lab"], argv].concat();
    target.lab.exec_ok(another(target)?, &argv, CHANGE_LIMIT).await?;
    Ok(())
}

fn another(target: &Target<'_>) -> anyhow::Result<NodeId> {
    let other = target.lab.nodes().iter().map(|node| node.id).find(|&id| id != target.node);
    other.context("a lab of one node has no other member to ask")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learner_is_known_by_the_last_word_of_its_line() {
        let line = "8211f1d0f64f3269, started, cp1, https://192.168.111.201:2380, https://192.168.111.201:2379, true";
        assert_eq!(member(line), Some(("8211f1d0f64f3269".to_owned(), true)));
        assert_eq!(member("91bc, unstarted, , https://192.168.111.201:2380, , false"), Some(("91bc".to_owned(), false)));
    }
}
