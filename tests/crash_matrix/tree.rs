//! A directory tree as a value: taken from the disk, put onto it again, compared.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, setxattr};

/// A regular file with all that must survive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileState {
    pub content: Vec<u8>,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

impl FileState {
    /// A file of ours: mode 0600, root's.
    pub fn ours(content: Vec<u8>) -> Self {
        Self { content, mode: 0o600, uid: 0, gid: 0, xattrs: BTreeMap::new() }
    }

    /// The file at `path`, if it is a regular one.
    pub fn read(path: &Path) -> Option<Self> {
        let stat = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let mut list = vec![0_u8; 4096];
        let len = llistxattr(path, list.as_mut_slice()).unwrap();
        let mut xattrs = BTreeMap::new();
        for name in list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let mut value = vec![0_u8; 4096];
            let len = lgetxattr(path, name, value.as_mut_slice()).unwrap();
            value.truncate(len);
            xattrs.insert(String::from_utf8(name.to_vec()).unwrap(), value);
        }
        let content = std::fs::read(path).unwrap();
        Some(Self { content, mode: stat.mode() & 0o7777, uid: stat.uid(), gid: stat.gid(), xattrs })
    }

    fn write(&self, path: &Path) {
        std::fs::File::create(path).and_then(|mut file| file.write_all(&self.content)).unwrap();
        chown(path, Some(self.uid), Some(self.gid)).unwrap();
        for (name, value) in &self.xattrs {
            setxattr(path, name.as_str(), value, XattrFlags::empty()).unwrap();
        }
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(self.mode)).unwrap();
    }
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    Dir,
    /// A regular file, and which: names with the same number are links to one file.
    File(u64, FileState),
}

/// Every name below a root, relative to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tree(pub BTreeMap<PathBuf, Entry>);

impl Tree {
    /// What is below `root`.
    pub fn read(root: &Path) -> Self {
        let mut tree = Self::default();
        tree.read_dir(root, Path::new(""));
        tree
    }

    fn read_dir(&mut self, root: &Path, dir: &Path) {
        for entry in std::fs::read_dir(root.join(dir)).unwrap() {
            let name = dir.join(entry.unwrap().file_name());
            let path = root.join(&name);
            if path.is_dir() {
                self.0.insert(name.clone(), Entry::Dir);
                self.read_dir(root, &name);
            } else if let Some(file) = FileState::read(&path) {
                self.0.insert(name, Entry::File(path.metadata().unwrap().ino(), file));
            }
        }
    }

    /// Makes `root` hold this and nothing else.
    pub fn write(&self, root: &Path) {
        for entry in std::fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) }.unwrap();
        }
        let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
        for (name, entry) in &self.0 {
            let path = root.join(name);
            match entry {
                Entry::Dir => std::fs::create_dir(&path).unwrap(),
                Entry::File(number, file) => match first.get(number) {
                    Some(link) => std::fs::hard_link(link, &path).unwrap(),
                    None => {
                        file.write(&path);
                        first.insert(*number, path);
                    }
                },
            }
        }
    }
}
