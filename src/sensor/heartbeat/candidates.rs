//! Finding the loop's logs: `<log_root>/<namespace>_<pod>-<node>_<uid>/<container>/<restarts>.log`.
//!
//! Several directories can exist, of which some belong to pods that are gone. This module only lists; which one is
//! followed is `follow`'s business. Blocking, and bounded by [`ENTRIES_MAX`].

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::policy::LoopPolicy;

/// Most directory entries that one look reads; a node has some hundred pods.
const ENTRIES_MAX: usize = 16 * 1024;

/// Why there is no log to follow. Each names the path.
#[derive(Debug, Error)]
pub(super) enum FollowError {
    #[error("cannot list the log root {path}")]
    Root {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("no log directory {pattern} exists")]
    NoDirectory { pattern: String },
    #[error("no log {pattern} exists")]
    NoLog { pattern: String },
    #[error("cannot read the log {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// What names the loop's logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    root: PathBuf,
    /// `<namespace>_<pod>-`
    prefix: String,
    container: String,
}

/// A file, as far as its metadata name it. While one is held open no other file gets its pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    dev: u64,
    ino: u64,
}

/// A log that could be followed.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) uid: String,
    /// `N` of `N.log`.
    pub(super) restarts: u64,
    pub(super) id: FileId,
    pub(super) size: u64,
    /// Seconds and nanoseconds of the last change. Compared with each other, never with a clock.
    pub(super) changed: (i64, i64),
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }
}

impl Target {
    pub(super) fn new(policy: &LoopPolicy) -> Self {
        Self {
            root: policy.log_root.clone(),
            prefix: format!("{}_{}-", policy.namespace, policy.pod),
            container: policy.container.clone(),
        }
    }

    /// Every log of the loop, the newest last.
    ///
    /// # Errors
    /// [`FollowError::Root`] if the root cannot be listed. No logs is an empty list: `missing` says what is not there.
    pub(super) fn candidates(&self) -> Result<Vec<Candidate>, FollowError> {
        let cannot_list = |source| FollowError::Root { path: self.root.clone(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(cannot_list)?.take(ENTRIES_MAX) {
            let entry = entry.map_err(cannot_list)?;
            let name = entry.file_name();
            if let Some(uid) = name.to_str().and_then(|name| self.uid_in(name)) {
                list_logs(&entry.path().join(&self.container), uid, &mut found);
            }
        }
        found.sort_by_key(|log| (log.changed, log.restarts));
        Ok(found)
    }

    /// Says which part of the path is missing.
    pub(super) fn missing(&self) -> FollowError {
        let pattern = format!("{}/{}*_*", self.root.display(), self.prefix);
        let exists = fs::read_dir(&self.root).is_ok_and(|entries| {
            entries
                .take(ENTRIES_MAX)
                .flatten()
                .any(|entry| entry.file_name().to_str().is_some_and(|name| self.uid_in(name).is_some()))
        });
        if exists {
            FollowError::NoLog { pattern: format!("{pattern}/{}/N.log", self.container) }
        } else {
            FollowError::NoDirectory { pattern }
        }
    }

    /// The uid in a directory's name, if the directory is one of the loop's pod. Node names have no underscore.
    fn uid_in<'name>(&self, name: &'name str) -> Option<&'name str> {
        let (node, uid) = name.strip_prefix(&self.prefix)?.split_once('_')?;
        (!node.is_empty() && !uid.is_empty() && !uid.contains('_')).then_some(uid)
    }
}

/// Adds the `N.log` of one container. Directories come and go, so what is missing is left out.
fn list_logs(directory: &Path, uid: &str, found: &mut Vec<Candidate>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.take(ENTRIES_MAX).flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|number| number.parse().ok());
        // Follows docker's symbolic link to its json-file.
        let (Some(restarts), Ok(metadata)) = (number, fs::metadata(entry.path())) else { continue };
        if metadata.is_file() {
            found.push(Candidate {
                path: entry.path(),
                uid: uid.to_owned(),
                restarts,
                id: FileId::of(&metadata),
                size: metadata.len(),
                changed: (metadata.mtime(), metadata.mtime_nsec()),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn the_uid_is_the_last_part_of_the_directorys_name() {
        let target = Target::new(&Policy::with_defaults([192, 0, 2, 1].into(), "eth0").watched_loop);
        let name = "kube-system_wcp-fip-4203f2b1c0de4a5b8c7d6e5f00112233_4bf9a41669edd85822ec662e2be5008b";
        assert_eq!(target.uid_in(name), Some("4bf9a41669edd85822ec662e2be5008b"));
        for other in
            ["kube-system_wcp-fip-node", "kube-system_wcp-fip-_uid", "kube-system_etcd-node_uid", "x_wcp-fip-node_uid", ""]
        {
            assert_eq!(target.uid_in(other), None, "{other}");
        }
    }
}
