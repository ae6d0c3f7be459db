//! What is done in front of each point: a task, on a tree that an earlier task may have been killed in.

use std::path::{Path, PathBuf};

use crate::child::Task;
use crate::site::{Before, NEWER, Site};
use std::collections::BTreeMap;

use crate::strace::{Call, Fault, Shot, Thread, paths, record, shoot};
use crate::tree::{Entry, FileState, Tree};

/// Where the cycle before a recovery was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// The intent is journalled, the manifest still in place.
    BeforeOut,
    /// It is out, and nothing says so.
    AfterOut,
    /// It is out, and journalled as out.
    BeforeIn,
    /// It is back, and nothing says so.
    AfterIn,
    /// As [`Cut::BeforeIn`], and somebody emptied the staging place: it is written anew from the backup.
    StagingEmptied,
    /// As [`Cut::BeforeIn`], and somebody put a newer manifest there.
    Theirs,
}

/// A task and what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// The first cycle on a node.
    First,
    /// A cycle at whose end the journal is rewritten.
    Compacting,
    /// A cycle during which somebody puts a newer manifest there.
    WithTheirs,
    /// The recovery of a cycle.
    Recovery(Cut),
    /// The recovery of one at whose end the journal is rewritten.
    CompactingRecovery,
}

/// Every scene.
pub const SCENES: [Scene; 10] = [
    Scene::First,
    Scene::Compacting,
    Scene::WithTheirs,
    Scene::Recovery(Cut::BeforeOut),
    Scene::Recovery(Cut::AfterOut),
    Scene::Recovery(Cut::BeforeIn),
    Scene::Recovery(Cut::AfterIn),
    Scene::Recovery(Cut::StagingEmptied),
    Scene::Recovery(Cut::Theirs),
    Scene::CompactingRecovery,
];

impl Scene {
    pub const fn task(self) -> Task {
        match self {
            Self::First | Self::Compacting => Task::Cycle,
            Self::WithTheirs => Task::CycleWithTheirs,
            Self::Recovery(_) | Self::CompactingRecovery => Task::Recover,
        }
    }

    /// The tree that the task finds.
    pub fn tree(self, site: &Site) -> Tree {
        match self {
            Self::First | Self::WithTheirs => site.before(Before::Nothing),
            Self::Compacting => site.before(Before::FullJournal),
            Self::Recovery(cut) => after_cut(site, &site.before(Before::Nothing), cut),
            Self::CompactingRecovery => after_cut(site, &site.before(Before::FullJournal), Cut::BeforeIn),
        }
    }
}

/// A scene set up on a site of its own, with what strace saw of it.
pub struct Stage {
    pub scene: Scene,
    pub site: Site,
    pub tree: Tree,
    pub calls: Vec<Call>,
    /// The paths that they touch.
    pub paths: Vec<String>,
}

impl Stage {
    pub fn new(scene: Scene) -> Self {
        let site = Site::new();
        let tree = scene.tree(&site);
        tree.write(site.root());
        let calls = record(&site, scene.task(), false);
        let paths = paths(&calls, site.root().to_str().unwrap());
        Self { scene, site, tree, calls, paths }
    }

    /// The calls that touch a file, counted by thread and name among themselves.
    pub fn file_calls(&self) -> Vec<Call> {
        let mut counts: BTreeMap<(Thread, &str), usize> = BTreeMap::new();
        let mut number = |call: &'_ Call, name| {
            let nth = counts.entry((call.thread, name)).or_default();
            *nth += 1;
            Call { nth: *nth, ..call.clone() }
        };
        self.calls.iter().filter(|call| call.touches(&self.paths)).map(|call| number(call, call.name.as_str())).collect()
    }
}

/// The tree after a cycle that was killed at `cut`.
fn after_cut(site: &Site, before: &Tree, cut: Cut) -> Tree {
    before.write(site.root());
    let calls = record(site, Task::Cycle, false);
    let mine: Vec<&Call> = calls.iter().filter(|call| call.thread == Thread::Worker).collect();
    let moves: Vec<usize> = (0..mine.len()).filter(|at| mine[*at].name == "renameat2").collect();
    let at = match (cut, moves.as_slice()) {
        (Cut::BeforeOut, [out, ..]) => *out,
        (Cut::AfterOut, [out, ..]) => out + 1,
        (Cut::BeforeIn | Cut::StagingEmptied | Cut::Theirs, [_, back]) => *back,
        (Cut::AfterIn, [_, back]) => back + 1,
        (_, moves) => panic!("a cycle moves the manifest twice: {moves:?}"),
    };
    before.write(site.root());
    let shot = Shot { thread: Thread::Worker, call: mine[at].name.clone(), nth: mine[at].nth, fault: Fault::Kill };
    assert!(shoot(site, Task::Cycle, &shot, &[]).killed(), "the cycle can be killed {cut:?}");
    let mut tree = Tree::read(site.root());
    let staged = tree.0.contains_key(Path::new("staging/wcp-fip.yaml"));
    let out = matches!(cut, Cut::AfterOut | Cut::BeforeIn | Cut::StagingEmptied | Cut::Theirs);
    assert_eq!(staged, out, "{cut:?} is where it should be");
    match cut {
        Cut::StagingEmptied => drop(tree.0.remove(Path::new("staging/wcp-fip.yaml"))),
        Cut::Theirs => {
            let theirs = Entry::File(u64::MAX, FileState::ours(NEWER.to_vec()));
            tree.0.insert(PathBuf::from("manifests/wcp-fip.yaml"), theirs);
        }
        Cut::BeforeOut | Cut::AfterOut | Cut::BeforeIn | Cut::AfterIn => {}
    }
    tree
}
