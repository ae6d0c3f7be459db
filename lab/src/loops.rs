//! Finding the loop's container in a node, from what the kubelet stand-in writes to `/run/fip-lab/kubelet.json`.

use std::fs;

use anyhow::Context as _;
use serde::Deserialize;

use crate::cluster::Lab;
use crate::node::NodeId;

/// The container of the vendor's loop.
pub const CONTAINER: &str = "wcp-fip";
/// Printed once in each finished round, one or the other.
const BEATS: [&str; 2] = ["Is the current leader!", "return 4"];
/// A log that is longer than this has beaten long ago.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// One container, as the stand-in describes it. Pids are those of the node's pid namespace.
#[derive(Debug, Clone, Deserialize)]
pub struct Container {
    /// The container's name in its pod.
    pub container: String,
    /// The container's first process.
    pub pid: i32,
    /// Which start of the container this is.
    #[serde(default)]
    pub attempt: u32,
    /// Path of its log, inside the node.
    #[serde(default)]
    pub log: String,
    /// The process that drains its pipe into the log.
    #[serde(default)]
    pub reader_pid: Option<i32>,
    /// The process that holds it.
    #[serde(default)]
    pub shim_pid: Option<i32>,
    /// Its identity.
    #[serde(default)]
    pub id: String,
    /// `running`, `terminating` or `exited`.
    #[serde(default)]
    pub state: String,
}

#[derive(Debug, Deserialize)]
struct Kubelet {
    #[serde(default)]
    containers: Vec<Container>,
}

/// The loop's container on a node, if the kubelet says that there is one.
///
/// # Errors
/// The kubelet's file cannot be read or understood.
pub fn find(lab: &Lab, id: NodeId) -> anyhow::Result<Option<Container>> {
    let path = lab.shared(id).join("kubelet.json");
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    parse(&bytes).with_context(|| format!("cannot understand {}", path.display()))
}

/// As [`find`], and none is an error.
///
/// # Errors
/// As [`find`], and when there is none.
pub fn expect(lab: &Lab, id: NodeId) -> anyhow::Result<Container> {
    find(lab, id)?.with_context(|| format!("no container {CONTAINER} runs on node {id}"))
}

fn parse(bytes: &[u8]) -> anyhow::Result<Option<Container>> {
    // The list alone, or the list under a key.
    let containers = match serde_json::from_slice::<Vec<Container>>(bytes) {
        Ok(containers) => containers,
        Err(_) => serde_json::from_slice::<Kubelet>(bytes)?.containers,
    };
    Ok(containers.into_iter().rfind(|found| found.container == CONTAINER && found.pid > 0 && found.state != "exited"))
}

/// Whether the loop has finished a round.
#[must_use]
pub fn beats(lab: &Lab, id: NodeId, container: &Container) -> bool {
    use std::io::Read as _;
    let mut text = Vec::new();
    let read =
        fs::File::open(lab.node(id).host_path(&container.log)).and_then(|file| file.take(LOG_BYTES_MAX).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    read.is_ok() && BEATS.iter().any(|beat| text.contains(beat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_found_among_other_containers() {
        let text = br#"{"containers":[{"container":"other","pid":3},{"container":"wcp-fip","pid":7,"attempt":1,"log":"/l","reader_pid":6,"x":1}]}"#;
        let found = parse(text).unwrap().unwrap();
        assert_eq!((found.pid, found.attempt, found.reader_pid), (7, 1, Some(6)));
        assert!(parse(b"[]").unwrap().is_none());
        assert!(parse(b"{").is_err());
    }
}
