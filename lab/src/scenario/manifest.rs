//! The manifest directory of a node, as it is on disk: what `manifest_intact` compares.
//!
//! Read from the host through the node's root (`/proc/<leader>/root`), so that it works while the node is frozen.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Where the kubelet looks, in the node.
pub const MANIFESTS: &str = "etc/kubernetes/manifests";
/// The loop's manifest in there.
pub const LOOP_MANIFEST: &str = "wcp-fip.yaml";
/// A manifest is some KiB; a larger file is compared by its begin and its size.
const BYTES_MAX: usize = 1 << 20;

/// Every name in the directory, with what must not change about it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Directory(pub BTreeMap<String, FileMark>);

/// What must not change about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileMark {
    /// Of its content, lower-case hex.
    pub sha256: String,
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Directory {
    /// Reads the directory below the node's root.
    ///
    /// # Errors
    /// The directory or a file in it cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut marks = BTreeMap::new();
        for entry in std::fs::read_dir(root.join(MANIFESTS))? {
            let entry = entry?;
            let about = entry.metadata()?;
            let mut content = if about.is_file() { std::fs::read(entry.path())? } else { Vec::new() };
            content.truncate(BYTES_MAX);
            let digest = Sha256::digest(&content);
            let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let mark = FileMark { sha256, mode: about.mode(), uid: about.uid(), gid: about.gid() };
            marks.insert(entry.file_name().to_string_lossy().into_owned(), mark);
        }
        Ok(Self(marks))
    }

    /// Whether `after` is the same, and what differs.
    #[must_use]
    pub fn compare(&self, after: &Self) -> (bool, String) {
        let mut differences = Vec::new();
        for (name, mark) in &self.0 {
            match after.0.get(name) {
                None => differences.push(format!("{name} is gone")),
                Some(now) if now.sha256 != mark.sha256 => differences.push(format!("{name} has other content")),
                Some(now) if now != mark => {
                    differences.push(format!(
                        "{name} is {:o} {}:{}, was {:o} {}:{}",
                        now.mode, now.uid, now.gid, mark.mode, mark.uid, mark.gid
                    ));
                }
                Some(_) => {}
            }
        }
        differences.extend(after.0.keys().filter(|name| !self.0.contains_key(*name)).map(|name| format!("{name} is new")));
        if self.0.is_empty() {
            return (false, "was empty at the begin".to_owned());
        }
        if differences.is_empty() { (true, "intact".to_owned()) } else { (false, differences.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn content_mode_and_strangers_in_the_directory_are_noticed() {
        let root = tempfile::tempdir().unwrap();
        let manifests = root.path().join(MANIFESTS);
        fs::create_dir_all(&manifests).unwrap();
        let file = manifests.join(LOOP_MANIFEST);
        fs::write(&file, "kind: Pod").unwrap();
        let before = Directory::read(root.path()).unwrap();
        assert_eq!(before.compare(&Directory::read(root.path()).unwrap()), (true, "intact".to_owned()));

        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(before.compare(&Directory::read(root.path()).unwrap()).1.contains("100640"));
        fs::write(&file, "kind: Pox").unwrap();
        assert!(before.compare(&Directory::read(root.path()).unwrap()).1.contains("other content"));
        fs::write(manifests.join("wcp-fip.yaml.bak"), "").unwrap();
        fs::remove_file(&file).unwrap();
        let (intact, said) = before.compare(&Directory::read(root.path()).unwrap());
        assert_eq!((intact, said.as_str()), (false, "wcp-fip.yaml is gone, wcp-fip.yaml.bak is new"));
    }

    #[test]
    fn an_empty_directory_at_the_begin_proves_nothing() {
        assert!(!Directory::default().compare(&Directory::default()).0);
    }
}
