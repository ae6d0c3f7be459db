//! The wires: one namespace with a bridge, one for the client, one for each node, joined by veth pairs.
//!
//! The end in `<lab>-net` has the name of whoever is at the other end (`cp1`, `client`); the other end is always `eth0`.
//! No route leads out: nothing in the lab can reach the host's network.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::command::run;
use crate::node::NodeId;

/// The floating IP of every instance; instances do not see each other.
pub const FIP: Ipv4Addr = Ipv4Addr::new(192, 168, 111, 200);
/// The client's address.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 168, 111, 10);
/// The MAC of a station that has a node's address.
const TWIN_MAC: &str = "00:50:56:87:5b:ee";
/// Where `ip netns` keeps its names.
const NETNS: &str = "/run/netns";
/// `ip` talks to the kernel only; longer than this is a machine in trouble.
const IP_LIMIT: Duration = Duration::from_secs(10);

/// Name of the namespace with the bridge.
#[must_use]
pub fn bridge_namespace(lab: &str) -> String {
    format!("{lab}-net")
}

/// Name of the client's namespace.
#[must_use]
pub fn client_namespace(lab: &str) -> String {
    format!("{lab}-client")
}

/// Name of a node's namespace.
#[must_use]
pub fn node_namespace(lab: &str, node: NodeId) -> String {
    format!("{lab}-{node}")
}

/// Name of the namespace of a station that is no node and has a node's address.
#[must_use]
pub fn twin_namespace(lab: &str) -> String {
    format!("{lab}-twin")
}

/// The path by which a namespace is entered.
#[must_use]
pub fn namespace_path(name: &str) -> PathBuf {
    Path::new(NETNS).join(name)
}

/// VMware's prefix, as on a Supervisor's nodes, and fixed, so that captures can be compared.
#[must_use]
pub fn mac(node: NodeId) -> String {
    format!("00:50:56:87:5b:d{}", node.number())
}

/// Runs `ip` in the namespace `netns`; `words` is split at blanks.
///
/// # Errors
/// `ip` fails.
pub async fn ip(netns: &str, words: &str) -> anyhow::Result<String> {
    let mut argv = vec!["ip", "-n", netns];
    argv.extend(words.split_ascii_whitespace());
    Ok(run(&argv, IP_LIMIT).await?)
}

/// Makes everything; the caller has removed what was there before.
///
/// # Errors
/// `ip` fails.
pub async fn create(lab: &str, nodes: &[NodeId]) -> anyhow::Result<()> {
    let net = bridge_namespace(lab);
    add_namespace(&net).await?;
    ip(&net, "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0").await?;
    ip(&net, "link set br0 up").await?;
    let client = client_namespace(lab);
    add_namespace(&client).await?;
    plug(&net, "client", &client, "00:50:56:87:5b:0a", CLIENT).await?;
    for &node in nodes {
        let namespace = node_namespace(lab, node);
        add_namespace(&namespace).await?;
        plug(&net, &node.to_string(), &namespace, &mac(node), node.ip()).await?;
    }
    Ok(())
}

/// Makes a station that has this address too, and announces it.
///
/// # Errors
/// `ip` or `sysctl` fails.
pub async fn add_twin(lab: &str, address: Ipv4Addr) -> anyhow::Result<()> {
    let twin = twin_namespace(lab);
    add_namespace(&twin).await?;
    // An announcement when its MAC is set while it is up (Linux's ip-sysctl, arp_notify).
    let argv = ["ip", "netns", "exec", &twin, "sysctl", "-q", "-w", "net.ipv4.conf.default.arp_notify=1"];
    run(&argv, IP_LIMIT).await?;
    plug(&bridge_namespace(lab), "twin", &twin, TWIN_MAC, address).await?;
    ip(&twin, &format!("link set eth0 address {TWIN_MAC}")).await?;
    Ok(())
}

async fn add_namespace(name: &str) -> anyhow::Result<()> {
    run(&["ip", "netns", "add", name], IP_LIMIT).await.with_context(|| format!("cannot add the network namespace {name}"))?;
    ip(name, "link set lo up").await?;
    Ok(())
}

async fn plug(net: &str, port: &str, namespace: &str, mac: &str, address: Ipv4Addr) -> anyhow::Result<()> {
    ip(net, &format!("link add {port} type veth peer name eth0 address {mac} netns {namespace}")).await?;
    ip(net, &format!("link set {port} master br0 up")).await?;
    ip(namespace, &format!("addr add {address}/24 brd + dev eth0")).await?;
    ip(namespace, "link set eth0 up").await?;
    Ok(())
}

/// Names of this instance's namespaces that exist now.
///
/// # Errors
/// The directory of names cannot be read.
pub fn existing(lab: &str) -> anyhow::Result<Vec<String>> {
    let entries = match std::fs::read_dir(NETNS) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot list {NETNS}")),
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| belongs(lab, name)).collect();
    names.sort();
    Ok(names)
}

/// Another instance's name may begin with this one's: the rest must be exactly one of ours.
fn belongs(lab: &str, name: &str) -> bool {
    let Some(role) = name.strip_prefix(lab).and_then(|rest| rest.strip_prefix('-')) else { return false };
    matches!(role, "net" | "client" | "twin") || role.parse::<NodeId>().is_ok()
}

/// Removes all of it; nothing there is success.
///
/// # Errors
/// A namespace stays; the others are removed all the same.
pub async fn remove(lab: &str) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for name in existing(lab)? {
        // A namespace lives as long as anything refers to it; the link, and with it the address, goes now.
        ip(&name, "link del eth0").await.ok();
        if let Err(error) = run(&["ip", "netns", "del", &name], IP_LIMIT).await {
            // Killed between making the file and mounting on it: a plain file is left.
            if std::fs::remove_file(namespace_path(&name)).is_err() {
                failed.push(format!("{name}: {error}"));
            }
        }
    }
    anyhow::ensure!(failed.is_empty(), "cannot remove network namespaces: {}", failed.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_instances_own_namespaces_belong_to_it() {
        for name in ["fip-net", "fip-client", "fip-twin", "fip-cp1", "fip-cp3"] {
            assert!(belongs("fip", name), "{name}");
        }
        for name in ["fip", "fip-", "fip-cp", "fip-cp0", "fip-b-net", "fip-b-cp1", "fipx-net", "other"] {
            assert!(!belongs("fip", name), "{name}");
        }
    }
}
