//! What has been injected and not healed: one JSON file in the instance's runtime directory, replaced as a whole.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::cluster::Lab;
use crate::node::NodeId;
use crate::paths::Paths;

/// A script that injects in a loop must not grow the file for ever: the oldest go.
const RECORDS_MAX: usize = 200;

/// One injected fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Injected {
    pub name: String,
    pub node: NodeId,
    pub args: BTreeMap<String, String>,
}

/// All, oldest first.
pub(super) fn all(lab: &Lab) -> anyhow::Result<Vec<Injected>> {
    let path = path(lab);
    match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("cannot understand {}", path.display())),
    }
}

/// The newest arguments of that fault on that node.
pub(super) fn args(lab: &Lab, name: &str, node: NodeId) -> anyhow::Result<BTreeMap<String, String>> {
    let found = all(lab)?.into_iter().rfind(|injected| injected.name == name && injected.node == node);
    Ok(found.map(|injected| injected.args).unwrap_or_default())
}

pub(super) fn add(lab: &Lab, name: &str, node: NodeId, args: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let mut list = all(lab)?;
    list.push(Injected { name: name.to_owned(), node, args: args.clone() });
    let surplus = list.len().saturating_sub(RECORDS_MAX);
    store(lab, &list[surplus..])
}

pub(super) fn remove(lab: &Lab, name: &str, node: NodeId) -> anyhow::Result<()> {
    let mut list = all(lab)?;
    list.retain(|injected| injected.name != name || injected.node != node);
    store(lab, &list)
}

fn store(lab: &Lab, list: &[Injected]) -> anyhow::Result<()> {
    let path = path(lab);
    let write = || -> anyhow::Result<()> {
        let file = tempfile::NamedTempFile::new_in(Paths::new(lab.name()).runtime())?;
        serde_json::to_writer(&file, list)?;
        file.persist(&path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn path(lab: &Lab) -> PathBuf {
    Paths::new(lab.name()).runtime().join("faults.json")
}
