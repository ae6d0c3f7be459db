//! Faults by name, each with its heal.

use std::collections::BTreeMap;

use crate::cluster::Lab;
use crate::node::NodeId;

/// Breaks something.
///
/// # Errors
/// There is no such fault, or it cannot be done.
pub async fn inject(_lab: &Lab, name: &str, _node: NodeId, _args: &BTreeMap<String, String>) -> anyhow::Result<()> {
    anyhow::bail!("there is no fault {name:?}")
}

/// Undoes it.
///
/// # Errors
/// There is no such fault, or it cannot be undone.
pub async fn heal(_lab: &Lab, name: &str, _node: NodeId, _args: &BTreeMap<String, String>) -> anyhow::Result<()> {
    anyhow::bail!("there is no fault {name:?}")
}

/// Undoes all.
///
/// # Errors
/// Something cannot be undone.
pub async fn heal_all(_lab: &Lab) -> anyhow::Result<()> {
    Ok(())
}

/// The list that a person reads.
#[must_use]
pub fn list() -> String {
    String::new()
}
