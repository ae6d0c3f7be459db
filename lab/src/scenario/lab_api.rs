//! The seam to the lab: all that scenarios and the probe need of it, in one place.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

pub use crate::cluster::{Lab, UpOptions};
use crate::node::NodeId;
use crate::probe::client::{Client, OnChange};
use crate::seed::LAB_HOST;
use crate::{agent, fault, network};

use super::clock;
use super::diagnosis::Diagnosis;
use super::file::LabWishes;
use super::node::Node;
use super::source::journal::MARK;

/// The floating IP, as `ip` prints it.
pub const FIP: &str = "192.168.111.200";
/// The interface that carries it.
pub const INTERFACE: &str = "eth0";
/// A diagnosis has its own limit; one that is not kept ends here.
const DIAGNOSE_LIMIT: Duration = Duration::from_secs(12);
/// Writing a token and syncing journald takes milliseconds; a frozen node never answers.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);
/// Reading the last lines of a journal for a report.
const TAIL_LIMIT: Duration = Duration::from_secs(10);

/// The names in the catalogue of faults.
#[must_use]
pub fn fault_names() -> Vec<&'static str> {
    fault::catalogue().iter().map(|fault| fault.name).collect()
}

/// What is wrong with the arguments that a fault is given; none if nothing is.
#[must_use]
pub fn fault_flaw(name: &str, args: &BTreeMap<String, String>) -> Option<String> {
    let fault = fault::catalogue().iter().find(|fault| fault.name == name)?;
    let known = || fault.args.iter().map(|arg| arg.key).collect::<Vec<_>>().join(", ");
    let unknown = args.keys().find(|key| fault.args.iter().all(|arg| arg.key != *key));
    let missing = fault.args.iter().find(|arg| arg.required && !args.contains_key(arg.key));
    let odd = || args.iter().find_map(|(key, value)| fault.args.iter().find(|arg| arg.key == key)?.flaw(value));
    unknown
        .map(|key| format!("{name} takes no `{key}`; it takes: {}", known()))
        .or_else(|| missing.map(|arg| format!("{name} needs `{}`: {}", arg.key, arg.values)))
        .or_else(|| odd().map(|what| format!("{name}: {what}")))
}

/// The lab that a scenario asks for.
///
/// # Errors
/// The policy is no mapping.
pub fn options(wishes: &LabWishes, watchdog_binary: Option<PathBuf>) -> anyhow::Result<UpOptions> {
    let whole_seconds = |length: Duration| u32::try_from(length.as_secs().max(1)).unwrap_or(u32::MAX);
    Ok(UpOptions {
        policy_yaml: policy(&wishes.policy)?,
        watchdog: wishes.watchdog,
        loop_interval_s: whole_seconds(wishes.loop_interval.0),
        election_timeout_s: whole_seconds(wishes.election_timeout.0),
        grace_s: wishes.grace.map(|grace| whole_seconds(grace.0)),
        watchdog_binary,
        nodes: wishes.nodes,
    })
}

/// The least policy with a scenario's wishes merged over it. JSON is YAML.
fn policy(wishes: &serde_json::Value) -> anyhow::Result<Option<String>> {
    let wishes = wishes.as_object().context("lab.policy is no mapping")?;
    if wishes.is_empty() {
        return Ok(None);
    }
    let host: serde_json::Value = serde_json::from_str(LAB_HOST)?;
    let mut policy = serde_json::json!({ "version": 1, "fip": { "address": FIP, "interface": INTERFACE }, "host": host });
    merge(&mut policy, &serde_json::Value::Object(wishes.clone()));
    Ok(Some(policy.to_string()))
}

fn merge(base: &mut serde_json::Value, over: &serde_json::Value) {
    if let (Some(base), Some(over)) = (base.as_object_mut(), over.as_object()) {
        for (key, value) in over {
            merge(base.entry(key.clone()).or_insert(serde_json::Value::Null), value);
        }
    } else {
        base.clone_from(over);
    }
}

/// The nodes, in both ways of naming them.
pub fn nodes(lab: &Lab) -> impl Iterator<Item = (Node, NodeId)> {
    lab.nodes().iter().map(|node| (Node::new(node.id.number()), node.id))
}

fn id(node: Node) -> anyhow::Result<NodeId> {
    node.to_string().parse()
}

/// A node's root directory, as the host can open it.
///
/// # Errors
/// There is no such node.
pub fn node_root(lab: &Lab, node: NodeId) -> anyhow::Result<PathBuf> {
    Ok(lab.find(node)?.host_path("/"))
}

/// Where the node's kubelet publishes its containers.
#[must_use]
pub fn kubelet_state(lab: &Lab, node: NodeId) -> PathBuf {
    lab.shared(node).join("kubelet.json")
}

/// A client of the lab's FIP.
///
/// # Errors
/// The lab is not there.
pub fn client(lab: &str, on_change: OnChange) -> anyhow::Result<Client> {
    let namespace = network::namespace_path(&network::client_namespace(lab));
    Client::start(namespace, network::FIP, agent::PORT, on_change)
        .with_context(|| format!("cannot be a client of the lab `{lab}`"))
}

/// Injects or heals a fault.
///
/// # Errors
/// It cannot be done; the lab says why.
pub async fn apply(lab: &Lab, heal: bool, name: &str, node: Node, args: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let node = id(node)?;
    if heal { fault::heal(lab, name, node, args).await } else { fault::inject(lab, name, node, args).await }
}

/// What `fip-watchdog diagnose` says on a node, to root or to a user without rights.
///
/// # Errors
/// It does not end, or says no diagnosis.
pub async fn diagnose(lab: &Lab, node: Node, without_rights: bool) -> anyhow::Result<Diagnosis> {
    const NOBODY: &[&str] = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let user = if without_rights { NOBODY } else { &[] };
    let began = clock::now();
    let output = lab.exec(id(node)?, &[user, &["/usr/bin/fip-watchdog", "diagnose", "--json"]].concat(), DIAGNOSE_LIMIT).await?;
    let took = clock::now().saturating_sub(began);
    Diagnosis::parse(&output.stdout, took).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::anyhow!("{node}: {error} ({}): {}", output.status, said.trim())
    })
}

/// Makes the node's journal say `token` after all that it was told before.
///
/// # Errors
/// The node does not answer in time.
pub async fn flush_journal(lab: &Lab, node: Node, token: &str) -> anyhow::Result<()> {
    let script = "echo \"$0\" | systemd-cat -t \"$1\" && journalctl --sync";
    let output = lab.exec(id(node)?, &["sh", "-c", script, token, MARK], FLUSH_LIMIT).await?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// The last lines of what matters in a node's journal, for a person who looks for the reason of a failure.
///
/// # Errors
/// The node does not answer in time.
pub async fn journal_tail(lab: &Lab, node: Node) -> anyhow::Result<String> {
    let units = ["-u", "fip-watchdog.service", "-u", "kubelet.service"];
    let mut argv = vec!["journalctl", "--no-pager", "--quiet", "--output=short-monotonic", "--lines=15"];
    argv.extend(units);
    let output = lab.exec(id(node)?, &argv, TAIL_LIMIT).await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The manifest directory of each node, as far as it can be read.
pub fn directories(lab: &Lab) -> BTreeMap<Node, io::Result<super::manifest::Directory>> {
    let read = |id| node_root(lab, id).map_err(io::Error::other).and_then(|root| super::manifest::Directory::read(&root));
    nodes(lab).map(|(node, id)| (node, read(id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_merged_key_by_key_over_the_least_one() {
        assert_eq!(policy(&serde_json::json!({})).unwrap(), None);
        let merged = policy(&serde_json::json!({ "mode": "observe", "fip": { "on_conflict": "wait" } })).unwrap().unwrap();
        let merged: serde_json::Value = serde_json::from_str(&merged).unwrap();
        assert_eq!(merged["mode"], "observe");
        assert_eq!(merged["fip"], serde_json::json!({ "address": FIP, "interface": "eth0", "on_conflict": "wait" }));
        assert!(policy(&serde_json::json!([1])).is_err());
    }

    #[test]
    fn the_fip_is_the_labs() {
        assert_eq!(network::FIP.to_string(), FIP);
    }
}
