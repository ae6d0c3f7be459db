//! etcd's member list, kept for the time when etcd does not answer: then `diagnose` knows whom to call.
//!
//! Invariant: what is kept is only ever a memory, and nothing is done because of it. Written by the daemon alone, in mode enforce alone, when the
//! list has changed; on a blocking thread, and never waited for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::small_file;
use super::write_behind::WriteBehind;
use crate::sensor::etcd::MemberList;

/// A list of three members has some 600 bytes; [`MEMBERS_MAX`](crate::sensor::etcd::MEMBERS_MAX) with long names some 100 KiB.
const FILE_BYTES_MAX: usize = 256 * 1024;

/// The file that keeps the list.
#[derive(Debug)]
pub struct Remembered {
    path: PathBuf,
    kept: Option<Arc<MemberList>>,
    behind: WriteBehind<Arc<MemberList>>,
}

impl Remembered {
    /// Reads what a former process kept. The second value says why a file was not understood.
    #[must_use]
    pub fn open(state_dir: &Path) -> (Self, Option<String>) {
        let path = path(state_dir);
        let (kept, fault) = match recall(state_dir) {
            Ok(kept) => (kept.map(Arc::new), None),
            Err(reason) => (None, Some(reason)),
        };
        (Self { path, kept, behind: WriteBehind::default() }, fault)
    }

    /// Keeps another list. Returns at once; a failure is logged, and the next change is kept again.
    pub fn keep(&mut self, list: &Arc<MemberList>) {
        let known = self.kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, list) || kept == list);
        self.kept = Some(Arc::clone(list));
        if known {
            return;
        }
        let path = self.path.clone();
        self.behind.keep(Arc::clone(list), move |list| {
            if let Err(error) = write(&path, list) {
                tracing::warn!(path = %path.display(), %error, "etcd's member list cannot be kept");
            }
        });
    }
}

/// The list that the daemon kept in `state_dir`; `None` if it kept none. Blocking.
///
/// # Errors
/// There is a file, and it is not to be read or understood; a sentence that names it.
pub fn recall(state_dir: &Path) -> Result<Option<MemberList>, String> {
    let path = path(state_dir);
    let read = small_file::read(&path, FILE_BYTES_MAX).and_then(|bytes| Ok(serde_json::from_slice::<MemberList>(&bytes)?));
    match read {
        Ok(list) => Ok(Some(list.bounded())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} is not understood and counts as none: {error}", path.display())),
    }
}

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("members.json")
}

fn write(path: &Path, list: &MemberList) -> std::io::Result<()> {
    small_file::replace(path, &serde_json::to_vec(list)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensor::etcd::ListedMember;

    fn list(names: &[&str]) -> Arc<MemberList> {
        let member = |name: &&str| ListedMember {
            id: u64::MAX,
            name: (*name).to_owned(),
            peer_urls: vec!["https://192.0.2.1:2380".to_owned()],
            ..ListedMember::default()
        };
        Arc::new(MemberList { own_id: u64::MAX - 1, members: names.iter().map(member).collect() })
    }

    #[test]
    fn a_list_survives_a_restart_and_is_written_when_it_changes_and_only_then() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let kept = |list: &Arc<MemberList>| {
            let (mut remembered, fault) = Remembered::open(directory.path());
            assert_eq!(fault, None);
            runtime.block_on(async { remembered.keep(list) });
        };
        assert_eq!(recall(directory.path()), Ok(None));
        let changes = [list(&["cp1"]), list(&["cp1", "cp2"])];
        for changed in &changes {
            kept(changed);
            // Joins the thread that writes.
            runtime.block_on(async { tokio::task::spawn_blocking(|| ()).await.unwrap() });
            let until = std::iter::repeat_with(|| recall(directory.path())).take(1_000_000);
            let found = until.into_iter().find(|found| *found == Ok(Some(MemberList::clone(changed))));
            assert!(found.is_some(), "{:?}", recall(directory.path()));
        }
        std::fs::remove_file(path(directory.path())).unwrap();
        let (mut remembered, _) = Remembered::open(directory.path());
        remembered.kept = Some(list(&["cp1"]));
        runtime.block_on(async { remembered.keep(&list(&["cp1"])) });
        drop(runtime);
        assert_eq!(recall(directory.path()), Ok(None), "an equal list is not written");
    }

    #[test]
    fn a_file_that_is_not_understood_is_named_and_one_that_is_too_long_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        for content in ["", "{", "null", "[]", r#"{"own_id":-1,"members":[]}"#] {
            small_file::replace(&path(directory.path()), content.as_bytes()).unwrap();
            assert!(recall(directory.path()).is_err_and(|reason| reason.contains("members.json")), "{content}");
        }
        let many = list(&["cp"; 100]);
        write(&path(directory.path()), &many).unwrap();
        assert_eq!(recall(directory.path()).unwrap().unwrap().members.len(), crate::sensor::etcd::MEMBERS_MAX);
    }
}
