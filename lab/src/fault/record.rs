//! What has been injected and not healed: one JSON file in the instance's runtime directory, replaced as a whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::cluster::Lab;
use crate::node::NodeId;
use crate::paths::Paths;

/// A script that injects in a loop must not grow the file for ever: the oldest go.
const RECORDS_MAX: usize = 200;
/// The list is written in less than a millisecond; longer, and its writer hangs.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
const LOCK_LOOK_INTERVAL: Duration = Duration::from_millis(5);

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

/// The different arguments with which that fault was injected on that node, newest first: of those that include `given`.
pub(super) fn args(
    lab: &Lab,
    name: &str,
    node: NodeId,
    given: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<BTreeMap<String, String>>> {
    Ok(different(all(lab)?, name, node, given))
}

fn different(list: Vec<Injected>, name: &str, node: NodeId, given: &BTreeMap<String, String>) -> Vec<BTreeMap<String, String>> {
    let mut found: Vec<BTreeMap<String, String>> = Vec::new();
    for injected in list.into_iter().rev().filter(|injected| injected.name == name && injected.node == node) {
        let includes = given.iter().all(|(key, value)| injected.args.get(key) == Some(value));
        if includes && !found.contains(&injected.args) {
            found.push(injected.args);
        }
    }
    found
}

pub(super) fn add(lab: &Lab, injected: Injected) -> anyhow::Result<()> {
    let _alone = lock(lab)?;
    let mut list = all(lab)?;
    list.push(injected);
    let surplus = list.len().saturating_sub(RECORDS_MAX);
    store(lab, &list[surplus..])
}

/// Forgets it, however often it was injected in just this way.
pub(super) fn remove(lab: &Lab, healed: &Injected) -> anyhow::Result<()> {
    let _alone = lock(lab)?;
    let mut list = all(lab)?;
    list.retain(|injected| injected != healed);
    store(lab, &list)
}

/// The list is read, changed and replaced by one process at a time; the kernel lets go when that one ends.
fn lock(lab: &Lab) -> anyhow::Result<File> {
    let path = Paths::new(lab.name()).runtime().join("faults.lock");
    let file = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let deadline = LOCK_LIMIT.as_millis() / LOCK_LOOK_INTERVAL.as_millis();
    for _ in 0..deadline {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOCK_LOOK_INTERVAL),
            Err(error) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }
    anyhow::bail!("{} has been locked by another fip-lab for {LOCK_LIMIT:?}: is one stopped?", path.display())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn injected(node: u8, path: &str) -> Injected {
        let args = BTreeMap::from([("how".to_owned(), "mount".to_owned()), ("path".to_owned(), path.to_owned())]);
        Injected { name: "disk-full".to_owned(), node: NodeId::first(node)[usize::from(node) - 1], args }
    }

    #[test]
    fn a_fault_in_two_places_is_two_faults_and_twice_in_one_place_is_one() {
        let list = || vec![injected(1, "/a"), injected(2, "/c"), injected(1, "/b"), injected(1, "/b")];
        let paths = |given: &[(&str, &str)]| {
            let given = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let found = different(list(), "disk-full", NodeId::first(1)[0], &given);
            found.into_iter().map(|args| args["path"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(paths(&[]), ["/b", "/a"]);
        assert_eq!(paths(&[("path", "/a")]), ["/a"]);
        assert!(paths(&[("path", "/c")]).is_empty());
    }
}
