//! The power is cut after each operation: of a cycle, and of a cycle or a recovery that follows one which was
//! killed, with nothing of it on the disk yet that was not synced.

use std::collections::BTreeMap;
use std::path::Path;

use crate::child::Task;
use crate::disk::{Disk, Order};
use crate::ops::{Op, ops};
use crate::site::{Before, Site};
use crate::strace::record;
use crate::tree::Tree;

/// What cutting the power came to.
#[derive(Debug, Default)]
pub struct Cuts {
    /// Operations after which the power was cut.
    pub cuts: usize,
    /// Different disks that were recovered from, and whether ext4 can leave them.
    pub disks: BTreeMap<Tree, Order>,
}

/// Records a cycle, and what follows it if it is killed after its first `killed_after` operations; every disk
/// that a cut in what follows can leave. `None`: the cycle has fewer operations.
pub fn cuts(site: &Site, before: Before, killed_after: Option<usize>) -> Option<Cuts> {
    let tree = site.before(before);
    tree.write(site.root());
    let mut cycle = ops(&record(site, Task::Cycle, true), site.root());
    let mut disk = Disk::new(&tree);
    if let Some(killed_after) = killed_after {
        if killed_after >= cycle.len() {
            return None;
        }
        cycle[..killed_after].iter().for_each(|op| disk.apply(op));
        disk.live().write(site.root());
        // Finishes what is open; runs a whole cycle if nothing is.
        cycle = ops(&record(site, Task::Cycle, true), site.root());
    }
    Some(collect(disk, &cycle))
}

/// Every disk that a cut in a cycle could leave if the syncs of `forgotten` were not made; below the root, whose
/// own path is empty.
pub fn cuts_without_sync(site: &Site, forgotten: impl Fn(&Path) -> bool) -> Cuts {
    let tree = site.before(Before::Nothing);
    tree.write(site.root());
    let mut cycle = ops(&record(site, Task::Cycle, true), site.root());
    cycle.retain(|op| !matches!(op, Op::Sync(path) if forgotten(path)));
    collect(Disk::new(&tree), &cycle)
}

fn collect(mut disk: Disk, ops: &[Op]) -> Cuts {
    let mut cuts = Cuts { cuts: ops.len() + 1, disks: BTreeMap::new() };
    let mut look = |disk: &Disk| {
        for order in [Order::Ext4, Order::Any] {
            for tree in disk.after_cut(order) {
                cuts.disks.entry(tree).or_insert(order);
            }
        }
    };
    look(&disk);
    for op in ops {
        disk.apply(op);
        look(&disk);
    }
    cuts
}

/// Starts on such a disk, and looks.
///
/// # Errors
/// What is wrong afterwards.
pub fn start_on(site: &Site, disk: &Tree, order: Order) -> Result<(), String> {
    disk.write(site.root());
    let fault = |what: String| format!("power cut, {order:?}, with {:?} on disk: {what}", disk.0.keys());
    let recovered = site.recover().map_err(fault)?;
    site.is_home().and_then(|()| site.is_clean()).map_err(|what| fault(format!("{what}, after {recovered}")))
}
