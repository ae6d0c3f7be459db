//! What makes a node *this* node: the files that are laid over the shared root file system before it boots.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::Path;

use anyhow::Context as _;

use crate::cluster::UpOptions;
use crate::network::FIP;
use crate::node::NodeId;
use crate::pki::Authority;
use crate::units;

/// The static pod of the vendor's loop, with placeholders.
const MANIFEST: &str = include_str!("../assets/wcp-fip.yaml");
/// Where the kubelet looks for it.
pub const MANIFEST_PATH: &str = "/etc/kubernetes/manifests/wcp-fip.yaml";
/// The interface that carries the FIP.
const INTERFACE: &str = "eth0";

const PUBLIC: u32 = 0o644;
/// kubeadm and the vendor write manifests for root's eyes only.
const MANIFEST_MODE: u32 = 0o600;

/// Audit entries must not be dropped, whatever else is logged; the size bound keeps a noisy node out of the host's memory.
const JOURNALD: &str = "[Journal]\nStorage=persistent\nSystemMaxUse=64M\nRateLimitIntervalSec=0\n";
/// A node is switched off, not maintained: nothing may hold it up for systemd's 90 s.
const SYSTEM: &str = "[Manager]\nDefaultTimeoutStopSec=5s\n";

/// Writes everything for `node` below `root`.
///
/// # Errors
/// A file cannot be written.
pub fn write(root: &Path, node: NodeId, nodes: &[NodeId], authority: &Authority, options: &UpOptions) -> anyhow::Result<()> {
    let put = |path: &str, text: &str, mode: u32| write_file(&root.join(path.trim_start_matches('/')), text.as_bytes(), mode);
    put("/etc/hostname", &format!("{}\n", node.node_name()), PUBLIC)?;
    put("/etc/hosts", &hosts(nodes), PUBLIC)?;
    put("/etc/systemd/journald.conf.d/lab.conf", JOURNALD, PUBLIC)?;
    put("/etc/systemd/system.conf.d/lab.conf", SYSTEM, PUBLIC)?;
    authority.write_node(&root.join("etc/kubernetes/pki/etcd"), &node.node_name(), node.ip())?;
    put(MANIFEST_PATH, &manifest(options), MANIFEST_MODE)?;
    put("/etc/fip-watchdog/policy.yaml", &policy(options), PUBLIC)?;
    // Where packages put units: one in /etc could not be masked.
    put("/usr/lib/systemd/system/etcd.service", &units::etcd(node, nodes, options.election_timeout_s), PUBLIC)?;
    put("/usr/lib/systemd/system/kubelet.service", &units::kubelet(node), PUBLIC)?;
    put("/usr/lib/systemd/system/fip-lab-agent.service", &units::agent(node), PUBLIC)?;
    put("/usr/lib/systemd/system/fip-watchdog.service", units::WATCHDOG, PUBLIC)?;
    put("/usr/lib/systemd/catalog/fip-watchdog.catalog", units::WATCHDOG_CATALOG, PUBLIC)?;
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).with_context(|| format!("cannot create {}", wants.display()))?;
    for unit in ["etcd.service", "kubelet.service", "fip-lab-agent.service"] {
        symlink(format!("/usr/lib/systemd/system/{unit}"), wants.join(unit)).with_context(|| format!("cannot enable {unit}"))?;
    }
    Ok(())
}

/// The manifest that these options ask for.
#[must_use]
pub fn manifest(options: &UpOptions) -> String {
    let filled = MANIFEST
        .replace("@FIP@", &FIP.to_string())
        .replace("@INTERFACE@", INTERFACE)
        .replace("@INTERVAL@", &options.loop_interval_s.to_string());
    let mut text = String::new();
    for line in filled.lines() {
        match options.grace_s {
            _ if !line.contains("@GRACE@") => text.push_str(line),
            Some(grace) => text.push_str(&line.replace("@GRACE@", &grace.to_string())),
            // No line is the kubelet's own default.
            None => continue,
        }
        text.push('\n');
    }
    text
}

/// The nodes of a lab share a machine that may be hard-pressed by other labs; that is not what its scenarios are about.
pub const LAB_HOST: &str = r#"{ "late_ticks": 60, "cpu_pressure": 100 }"#;

fn policy(options: &UpOptions) -> String {
    let least = || format!("version: 1\nfip: {{ address: {FIP}, interface: {INTERFACE} }}\nhost: {LAB_HOST}\n");
    options.policy_yaml.clone().unwrap_or_else(least)
}

fn hosts(nodes: &[NodeId]) -> String {
    let lines = nodes.iter().map(|node| format!("{} {} {node}\n", node.ip(), node.node_name()));
    std::iter::once("127.0.0.1 localhost\n".to_owned()).chain(lines).collect()
}

/// Writes a new file with exactly `mode`, and the directories above it.
///
/// # Errors
/// Names the path.
pub fn write_file(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    use std::io::Write as _;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_has_no_placeholder_left() {
        for grace_s in [None, Some(5)] {
            let text = manifest(&UpOptions { grace_s, ..UpOptions::default() });
            for placeholder in ["@FIP@", "@INTERFACE@", "@INTERVAL@", "@GRACE@"] {
                assert!(!text.contains(placeholder), "{placeholder} is left in {text}");
            }
            assert_eq!(text.contains("terminationGracePeriodSeconds: 5"), grace_s.is_some());
        }
    }
}
