//! What a disk may hold after the power was cut: a model after ALICE (Pillai et al., OSDI 2014).
//!
//! Each name and each file has a history of versions; an `fsync` of a file makes its last version durable, an
//! `fsync` of a directory the last version of each name in it, and nothing else. After the cut, a name or
//! file has its durable version or any later one.
//!
//! - [`Order::Any`], all that POSIX allows: each name and file for itself, so that a rename may have
//!   made the new name and kept the old one, or lost both.
//! - [`Order::Ext4`]: names change in the order of the calls, a rename is whole, and any `fsync` commits all
//!   names before it. The files' data are still each for itself (delayed allocation).
//!
//! The last append of a file that is not durable may have arrived in half, or as zeros of full length.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::ops::Op;
use crate::tree::{Entry, FileState, Tree};

/// More states after one cut are not looked at.
const STATES_MAX: usize = 20_000;

/// What the file system promises beyond POSIX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    Ext4,
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Dir,
    File(usize),
}

/// A history of which everything from `durable` on may be what the disk holds.
#[derive(Debug, Clone)]
struct History<T> {
    /// With the number of the operation that made it.
    versions: Vec<(usize, T)>,
    durable: usize,
}

impl<T> History<T> {
    fn new(first: T, durable_now: bool, absent: T, at: usize) -> Self {
        if durable_now {
            Self { versions: vec![(0, first)], durable: 0 }
        } else {
            Self { versions: vec![(0, absent), (at, first)], durable: 0 }
        }
    }

    fn last(&self) -> &T {
        &self.versions.last().unwrap().1
    }

    fn sync(&mut self) {
        self.durable = self.versions.len() - 1;
    }

    /// Which version was the last one when operation `at` was done.
    fn as_of(&self, at: usize) -> usize {
        self.versions.iter().rposition(|(made, _)| *made <= at).unwrap_or(0).max(self.durable)
    }
}

/// The disk and what is on its way to it.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    names: BTreeMap<PathBuf, History<Option<Node>>>,
    files: Vec<History<FileState>>,
    /// Operations so far.
    now: usize,
    /// The last one that was a sync.
    last_sync: usize,
}

impl Disk {
    /// A disk that holds `tree` durably.
    pub fn new(tree: &Tree) -> Self {
        let mut disk = Self::default();
        for (name, entry) in &tree.0 {
            let node = match entry {
                Entry::Dir => Node::Dir,
                Entry::File(_, state) => disk.add_file(state.clone()),
            };
            disk.names.insert(name.clone(), History::new(Some(node), true, None, 0));
        }
        disk
    }

    fn add_file(&mut self, state: FileState) -> Node {
        self.files.push(History { versions: vec![(self.now, state)], durable: 0 });
        Node::File(self.files.len() - 1)
    }

    fn node(&self, path: &Path) -> Option<Node> {
        *self.names.get(path)?.last()
    }

    fn set_name(&mut self, path: &Path, node: Option<Node>) {
        let now = self.now;
        match self.names.get_mut(path) {
            Some(history) => history.versions.push((now, node)),
            None => drop(self.names.insert(path.to_owned(), History::new(node, false, None, now))),
        }
    }

    fn change(&mut self, path: &Path, change: impl FnOnce(&mut FileState)) {
        let Some(Node::File(number)) = self.node(path) else { panic!("{} is no file", path.display()) };
        let mut state = self.files[number].last().clone();
        change(&mut state);
        self.files[number].versions.push((self.now, state));
    }

    /// Does one operation; the disk need not know of it yet.
    pub fn apply(&mut self, op: &Op) {
        self.now += 1;
        match op {
            Op::Mkdir(path) => self.set_name(path, Some(Node::Dir)),
            Op::Create(path, _) if self.node(path).is_some() => {}
            Op::Create(path, mode) => {
                let node = self.add_file(FileState { mode: *mode, ..FileState::ours(Vec::new()) });
                self.set_name(path, Some(node));
            }
            Op::Append(path, content) => self.change(path, |file| file.content.extend_from_slice(content)),
            Op::Truncate(path, len) => self.change(path, |file| file.content.resize(*len, 0)),
            Op::Owner(path, uid, gid) => self.change(path, |file| (file.uid, file.gid) = (*uid, *gid)),
            Op::Mode(path, mode) => self.change(path, |file| file.mode = *mode),
            Op::Xattr(path, name, value) => self.change(path, |file| drop(file.xattrs.insert(name.clone(), value.clone()))),
            Op::Rename(from, to) => {
                let node = self.node(from);
                self.set_name(to, node);
                self.set_name(from, None);
            }
            Op::Unlink(path) => self.set_name(path, None),
            Op::Sync(path) => self.sync(path),
        }
    }

    fn sync(&mut self, path: &Path) {
        self.last_sync = self.now;
        match self.node(path) {
            Some(Node::File(number)) => self.files[number].sync(),
            Some(Node::Dir) | None => {
                let inside = self.names.iter_mut().filter(|(name, _)| name.parent() == Some(path));
                inside.for_each(|(_, history)| history.sync());
            }
        }
    }

    /// The tree as a process sees it while the power is on.
    pub fn live(&self) -> Tree {
        self.tree(&self.names.values().map(|history| *history.last()).collect::<Vec<_>>(), |number| {
            self.files[number].last().clone()
        })
    }

    /// Every tree that the disk may hold if the power is cut now.
    pub fn after_cut(&self, order: Order) -> BTreeSet<Tree> {
        let mut trees = BTreeSet::new();
        for names in self.names_after_cut(order) {
            self.with_every_content(&names, &mut trees);
        }
        assert!(trees.len() < STATES_MAX, "bounded: {} states after one cut", trees.len());
        trees
    }

    fn names_after_cut(&self, order: Order) -> Vec<Vec<Option<Node>>> {
        let of = |history: &History<Option<Node>>, version: usize| history.versions[version].1;
        if order == Order::Ext4 {
            let whole = |at| self.names.values().map(|history| of(history, history.as_of(at))).collect();
            return (self.last_sync..=self.now).map(whole).collect();
        }
        let mut all: Vec<Vec<Option<Node>>> = vec![Vec::new()];
        for history in self.names.values() {
            let later = history.durable..history.versions.len();
            all = all
                .iter()
                .flat_map(|names| later.clone().map(|version| [&names[..], &[of(history, version)]].concat()))
                .collect();
            assert!(all.len() < STATES_MAX, "bounded: {} states of names after one cut", all.len());
        }
        all
    }

    fn with_every_content(&self, names: &[Option<Node>], trees: &mut BTreeSet<Tree>) {
        let undecided: Vec<usize> = (0..self.files.len()).filter(|number| names.contains(&Some(Node::File(*number)))).collect();
        let choices: Vec<Vec<FileState>> = undecided.iter().map(|number| contents(&self.files[*number])).collect();
        let total: usize = choices.iter().map(Vec::len).product();
        assert!(total < STATES_MAX, "bounded: {total} states of contents after one cut");
        for mut index in 0..total {
            let mut chosen = BTreeMap::new();
            for (number, choices) in undecided.iter().zip(&choices) {
                chosen.insert(*number, choices[index % choices.len()].clone());
                index /= choices.len();
            }
            trees.insert(self.tree(names, |number| chosen[&number].clone()));
        }
    }

    fn tree(&self, names: &[Option<Node>], content: impl Fn(usize) -> FileState) -> Tree {
        let mut tree = Tree::default();
        for (path, node) in self.names.keys().zip(names) {
            // A directory that was lost takes with it what was in it.
            let parent = path.parent().filter(|parent| *parent != Path::new(""));
            if parent.is_some_and(|parent| tree.0.get(parent) != Some(&Entry::Dir)) {
                continue;
            }
            match node {
                None => {}
                Some(Node::Dir) => drop(tree.0.insert(path.clone(), Entry::Dir)),
                Some(Node::File(number)) => {
                    let number_on_disk = u64::try_from(*number).unwrap();
                    tree.0.insert(path.clone(), Entry::File(number_on_disk, content(*number)));
                }
            }
        }
        tree
    }
}

/// Every content that a file may have after the cut.
fn contents(history: &History<FileState>) -> Vec<FileState> {
    let mut contents = BTreeSet::new();
    let possible = &history.versions[history.durable..];
    for ((_, before), (_, after)) in possible.iter().zip(possible.iter().skip(1)) {
        let (old, new) = (before.content.len(), after.content.len());
        if new > old {
            let half = &after.content[..old + (new - old) / 2];
            let zeros = [&before.content[..], &vec![0; new - old][..]].concat();
            contents.extend([half.to_vec(), zeros].map(|content| FileState { content, ..after.clone() }));
        }
        // The inode may be ahead of the data.
        contents.insert(FileState { content: possible[0].1.content.clone(), ..after.clone() });
    }
    contents.extend(possible.iter().map(|(_, state)| state.clone()));
    contents.into_iter().collect()
}
