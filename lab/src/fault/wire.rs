//! Faults of the network between the nodes, made where no node can look: at the ports of the switch.
//!
//! In the netdev family, which sees a frame as it enters a port and can answer it: a bridge's own rules cannot in every kernel.

use std::net::Ipv4Addr;

use super::{EXEC_LIMIT, Target};
use crate::command::{self, run};
use crate::network::{self, bridge_namespace, ip, namespace_path};

/// The switch's table for one node and one fault.
fn table(target: &Target<'_>, fault: &str) -> String {
    format!("fiplab_{fault}_{}", target.node)
}

/// Replaces what that fault has at the switch by `rules`, seen by each frame of each port.
pub(super) async fn filter(target: &Target<'_>, fault: &str, rules: &str) -> anyhow::Result<()> {
    pass(target, fault).await?;
    let ports: Vec<String> = target.lab.nodes().iter().map(|node| node.id.to_string()).chain(["client".to_owned()]).collect();
    let chain = format!("type filter hook ingress devices = {{ {} }} priority 0; policy accept; {rules}", ports.join(", "));
    nft(target, &format!("table netdev {} {{\nchain ports {{ {chain} }}\n}}", table(target, fault))).await
}

pub(super) async fn pass(target: &Target<'_>, fault: &str) -> anyhow::Result<()> {
    let table = table(target, fault);
    nft(target, &format!("add table netdev {table}; delete table netdev {table}")).await
}

async fn nft(target: &Target<'_>, rules: &str) -> anyhow::Result<()> {
    let mut command = tokio::process::Command::new("ip");
    command.args(["netns", "exec", &bridge_namespace(target.lab.name()), "nft", rules]);
    command::success(&mut command, EXEC_LIMIT).await?;
    Ok(())
}

/// Frames of more than `bytes` to and from the node are lost, and nobody is told.
pub(super) async fn black_hole(target: &Target<'_>) -> anyhow::Result<()> {
    let bytes: u16 = target.arg("bytes", "1400").parse().map_err(|_error| anyhow::anyhow!("bytes= must be a number"))?;
    let ip = target.node.ip();
    let rules = format!("ip saddr {ip} ip length > {bytes} drop; ip daddr {ip} ip length > {bytes} drop;");
    filter(target, "mtu", &rules).await
}

pub(super) async fn fill_hole(target: &Target<'_>) -> anyhow::Result<()> {
    pass(target, "mtu").await
}

/// A station with the node's address and a MAC of its own, that tells everybody so when it comes up.
pub(super) async fn add_twin(target: &Target<'_>) -> anyhow::Result<()> {
    let lab = target.lab.name();
    remove_twin(target).await?;
    network::add_twin(lab, target.node.ip()).await
}

pub(super) async fn remove_twin(target: &Target<'_>) -> anyhow::Result<()> {
    let twin = network::twin_namespace(target.lab.name());
    if namespace_path(&twin).exists() {
        ip(&twin, "link del eth0").await.ok();
        run(&["ip", "netns", "del", &twin], EXEC_LIMIT).await?;
    }
    Ok(())
}

/// Ten above the node's own.
fn new_address(target: &Target<'_>) -> Ipv4Addr {
    let [a, b, c, d] = target.node.ip().octets();
    Ipv4Addr::new(a, b, c, d.saturating_add(10))
}

pub(super) async fn change_address(target: &Target<'_>) -> anyhow::Result<()> {
    move_address(target, target.node.ip(), new_address(target)).await?;
    if target.choice("restart", &["no", "yes"])? == "yes" { super::etcd::restart_soon(target).await } else { Ok(()) }
}

pub(super) async fn change_address_back(target: &Target<'_>) -> anyhow::Result<()> {
    move_address(target, new_address(target), target.node.ip()).await
}

/// The old one goes first: the new one would be its secondary, and go with it.
async fn move_address(target: &Target<'_>, from: Ipv4Addr, to: Ipv4Addr) -> anyhow::Result<()> {
    let netns = &target.lab.node(target.node).netns;
    ip(netns, &format!("addr del {from}/24 dev eth0")).await.ok();
    ip(netns, &format!("addr replace {to}/24 brd + dev eth0")).await?;
    Ok(())
}
