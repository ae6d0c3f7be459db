//! Faults of the client, the same one for all nodes.

use super::{EXEC_LIMIT, Target};
use crate::command;
use crate::network::FIP;

/// How long a neighbour entry is good without being looked at again, in milliseconds.
pub(super) const HOUR: &str = "3600000";
/// The kernel's own.
pub(super) const DEFAULT: &str = "30000";
/// The table that `client-misses-announcement` makes.
const TABLE: &str = "fiplab_missed";

pub(super) async fn keep_neighbours(target: &Target<'_>, milliseconds: &str) -> anyhow::Result<()> {
    // `eth0` for its entries, `default` only for interfaces to come; a new value holds at once.
    let script = "echo \"$1\" >/proc/sys/net/ipv4/neigh/eth0/base_reachable_time_ms";
    client(target, &["sh", "-euc", script, "fip-lab", milliseconds]).await
}

pub(super) async fn miss_announcement(target: &Target<'_>) -> anyhow::Result<()> {
    hear_again(target).await?;
    // An announcement is a request and a reply. A packet has 28 bytes, padded on some links to 46: the first one of its
    // kind stays below the quota, the second does not.
    let missed = ["request", "reply"]
        .map(|kind| format!("arp operation {kind} arp saddr ip {FIP} arp daddr ip {FIP} quota until 47 bytes drop;"));
    let chain = format!("type filter hook input priority 0; policy accept; {}", missed.concat());
    client(target, &["nft", &format!("table arp {TABLE} {{\nchain input {{ {chain} }}\n}}")]).await
}

pub(super) async fn hear_again(target: &Target<'_>) -> anyhow::Result<()> {
    client(target, &["nft", &format!("add table arp {TABLE}; delete table arp {TABLE}")]).await
}

async fn client(target: &Target<'_>, argv: &[&str]) -> anyhow::Result<()> {
    command::success(&mut target.lab.client_command(argv), EXEC_LIMIT).await?;
    Ok(())
}
