//! The systemd units of a node. Pure: ids in, text out.

use crate::etcd_log;
use crate::network::FIP;
use crate::node::NodeId;

/// The unit that ships to real nodes, unchanged.
pub const WATCHDOG: &str = include_str!("../../systemd/fip-watchdog.service");

/// Its name.
pub const WATCHDOG_NAME: &str = "fip-watchdog.service";

/// What its process is called.
pub const WATCHDOG_PROCESS: &str = "fip-watchdog";

/// What the watchdog's service runs where it is traced or has a wall clock of its own: a shell that stops itself, and becomes the daemon when it is let go on.
pub const HELD: &str = "/bin/sh -c 'kill -STOP $$$$; exec /usr/bin/fip-watchdog run'";
/// What executes that, before it becomes the daemon.
pub const HELD_NAME: &str = "sh";
/// The drop-in that says so.
pub const HELD_DROP_IN: &str = "/run/systemd/system/fip-watchdog.service.d/fip-lab-begin.conf";

/// What `journalctl --catalog` says about its entries.
pub const WATCHDOG_CATALOG: &str = include_str!("../../systemd/fip-watchdog.catalog");

const PKI: &str = "/etc/kubernetes/pki/etcd";

/// etcd as kubeadm's static pod runs it: mutual TLS everywhere, its log where a pod's is, a heartbeat of 100 ms; kubeadm's election timeout
/// is 1 s.
#[must_use]
pub fn etcd(node: NodeId, nodes: &[NodeId], election_timeout_s: u32) -> String {
    let ip = node.ip();
    let cluster: Vec<String> = nodes.iter().map(|node| format!("{node}=https://{}:2380", node.ip())).collect();
    let flags = [
        format!("--name={node}"),
        "--data-dir=/var/lib/etcd".to_owned(),
        format!("--initial-cluster={}", cluster.join(",")),
        "--initial-cluster-state=new".to_owned(),
        format!("--initial-advertise-peer-urls=https://{ip}:2380"),
        format!("--advertise-client-urls=https://{ip}:2379"),
        format!("--listen-client-urls=https://127.0.0.1:2379,https://{ip}:2379"),
        format!("--listen-peer-urls=https://{ip}:2380"),
        "--listen-metrics-urls=http://127.0.0.1:2381".to_owned(),
        "--client-cert-auth=true".to_owned(),
        format!("--trusted-ca-file={PKI}/ca.crt"),
        format!("--cert-file={PKI}/server.crt"),
        format!("--key-file={PKI}/server.key"),
        "--peer-client-cert-auth=true".to_owned(),
        format!("--peer-trusted-ca-file={PKI}/ca.crt"),
        format!("--peer-cert-file={PKI}/peer.crt"),
        format!("--peer-key-file={PKI}/peer.key"),
        format!("--election-timeout={}", u64::from(election_timeout_s) * 1000),
        "--logger=zap".to_owned(),
        "--log-outputs=stderr".to_owned(),
    ];
    // A member without quorum is not ready for as long as that lasts, and that is no reason to restart it. Nice: a leader that the lab's
    // own load deposes would be a fault that no scenario asked for.
    format!(
        "[Unit]\nDescription=etcd member {node}\nStartLimitIntervalSec=0\n\n\
         [Service]\nType=notify\nSyslogIdentifier=etcd\nExecStart=/usr/local/bin/fip-lab etcd {} /usr/bin/etcd \\\n  {}\n\
         Restart=always\nRestartSec=2\nTimeoutStartSec=infinity\nLimitNOFILE=65536\nNice=-15\n",
        etcd_log::directory(&node.node_name()),
        flags.join(" \\\n  ")
    )
}

/// The kubelet stand-in. Pods outlive it, as they outlive a kubelet. Not ordered after etcd: one without quorum is never
/// ready, and the kubelet must start all the same.
#[must_use]
pub fn kubelet(node: NodeId) -> String {
    format!(
        "[Unit]\nDescription=kubelet stand-in\nStartLimitIntervalSec=0\n\n\
         [Service]\nEnvironment=NODE_NAME={} FIP_LAB_NODE={node}\nExecStart=/usr/local/bin/fip-lab kubelet\n\
         KillMode=process\nDelegate=yes\nRestart=always\nRestartSec=1\nRestartPreventExitStatus=69\nOOMPolicy=continue\n",
        node.node_name()
    )
}

/// What answers on the FIP.
#[must_use]
pub fn agent(node: NodeId) -> String {
    format!(
        "[Unit]\nDescription=answers on the floating IP\nStartLimitIntervalSec=0\n\n\
         [Service]\nExecStart=/usr/local/bin/fip-lab agent {FIP} {node}\nRestart=always\nRestartSec=1\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_knows_all_members_and_listens_on_its_own_address() {
        let nodes = NodeId::first(3);
        let text = etcd(nodes[1], &nodes, 3);
        assert!(text.contains("--election-timeout=3000 "), "{text}");
        assert!(text.contains("--initial-cluster=cp1=https://192.168.111.201:2380,cp2=https://192.168.111.202:2380,cp3="));
        assert!(text.contains("--listen-client-urls=https://127.0.0.1:2379,https://192.168.111.202:2379"));
    }

    #[test]
    fn pods_survive_the_kubelet() {
        assert!(kubelet(NodeId::first(1)[0]).contains("KillMode=process"));
    }
}
