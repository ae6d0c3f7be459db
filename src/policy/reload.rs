//! Watches the policy file and says when it has new content.
//!
//! Editors rename a new file over the old one, so the *directory* is watched, and because events get lost (queue overflow, a directory
//! that was itself replaced, a symbolic link whose target lies elsewhere) the file is looked at on a period too. Events only wake;
//! what counts is the content.
//!
//! A file that is being written is not judged: its content must have been the same for [`QUIET`], or changing for
//! [`QUIET_MAX`]. Whether the new policy takes over is the caller's business; a bad one is handed over as its error, once.
//!
//! [`PolicyWatch::wake`] is cancel-safe: it holds nothing, all state is in `poll`. The file is read by `poll` alone, at most 64 KiB of it.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use crate::decision::time::Moment;
use crate::runtime::clock;

use super::Policy;
use super::load::{LoadError, judge, read};

/// How long content must have stayed the same: `cp` and every editor write 64 KiB in less.
pub const QUIET: Duration = Duration::from_millis(200);
/// A file that never comes to rest is judged all the same after this time.
pub const QUIET_MAX: Duration = Duration::from_secs(2);
/// How often the file is looked at without an event.
pub const PERIOD: Duration = Duration::from_secs(5);

/// Watches one policy file.
#[derive(Debug)]
pub struct PolicyWatch {
    path: PathBuf,
    woken: Arc<Notify>,
    watch: Option<DirectoryWatch>,
    judged: Option<Content>,
    /// Content that differs from `judged`, and since when: the first difference, and the last change.
    pending: Option<Pending>,
}

/// The content of the file, or the kind of failure to read it, as far as it can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Bytes(Vec<u8>),
    Unreadable(String),
}

#[derive(Debug)]
struct Pending {
    content: Content,
    since: Moment,
    changed: Moment,
}

#[derive(Debug)]
struct DirectoryWatch {
    /// Dropping it ends the watch.
    _watcher: RecommendedWatcher,
    /// Device and inode: a directory that was replaced is not watched any more.
    directory: (u64, u64),
}

impl PolicyWatch {
    /// Starts to watch. The file need not exist: its directory is looked for on each [`PERIOD`].
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let mut watch = Self { path: path.to_owned(), woken: Arc::new(Notify::new()), watch: None, judged: None, pending: None };
        watch.arm();
        watch
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until [`poll`](Self::poll) is worth a call: an event in the directory, the end of a quiet time, or the period.
    pub async fn wake(&self) {
        let limit = if self.pending.is_some() { QUIET } else { PERIOD };
        // Both outcomes mean the same: look.
        drop(tokio::time::timeout(limit, self.woken.notified()).await);
    }

    /// The file's judgement if its content is not what it was at the last answer; the first call always answers.
    pub fn poll(&mut self) -> Option<Result<Policy, LoadError>> {
        self.poll_at(clock::now())
    }

    /// As [`poll`](Self::poll), with the time as an argument.
    pub fn poll_at(&mut self, now: Moment) -> Option<Result<Policy, LoadError>> {
        self.arm();
        let outcome = read(&self.path);
        let content = match &outcome {
            Ok(bytes) => Content::Bytes(bytes.clone()),
            Err(error) => Content::Unreadable(format!("{error:?}")),
        };
        if self.judged.as_ref() == Some(&content) {
            self.pending = None;
            return None;
        }
        if self.judged.is_some() && !self.at_rest(&content, now) {
            return None;
        }
        self.pending = None;
        self.judged = Some(content);
        Some(outcome.and_then(|bytes| judge(&self.path, &bytes)))
    }

    fn at_rest(&mut self, content: &Content, now: Moment) -> bool {
        match &mut self.pending {
            Some(pending) if pending.content == *content => {}
            Some(pending) => {
                pending.content = content.clone();
                pending.changed = now;
            }
            none => *none = Some(Pending { content: content.clone(), since: now, changed: now }),
        }
        self.pending.as_ref().is_some_and(|pending| now.since(pending.changed) >= QUIET || now.since(pending.since) >= QUIET_MAX)
    }

    /// Watches the directory, anew if it is another one than before. A failure leaves the period alone to find edits.
    fn arm(&mut self) {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = std::fs::metadata(parent).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        if self.watch.as_ref().map(|watch| watch.directory) == directory {
            return;
        }
        self.watch = directory.and_then(|directory| {
            let woken = Arc::clone(&self.woken);
            let name = self.path.file_name().map(OsString::from);
            let wake_on = move |event: notify::Result<notify::Event>| {
                if event.as_ref().map_or(true, |event| concerns(event, name.as_ref())) {
                    woken.notify_one();
                }
            };
            let mut watcher = notify::recommended_watcher(wake_on).ok()?;
            watcher.watch(parent, RecursiveMode::NonRecursive).ok()?;
            Some(DirectoryWatch { _watcher: watcher, directory })
        });
    }
}

/// Our own reads raise events too, and would wake us for ever.
fn concerns(event: &notify::Event, name: Option<&OsString>) -> bool {
    let ours = event.paths.is_empty() || event.paths.iter().any(|path| path.file_name().map(OsString::from).as_ref() == name);
    event.need_rescan() || (ours && !event.kind.is_access())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    const GOOD: &str = "version: 1\nfip: { address: 192.0.2.10 }\n";
    const OTHER: &str = "version: 1\nmode: observe\nfip: { address: 192.0.2.10 }\n";

    fn write(path: &Path, text: &str) {
        File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn at(millis: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(1_000_000 + millis))
    }

    fn watched() -> (tempfile::TempDir, PathBuf, PolicyWatch) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.yaml");
        write(&path, GOOD);
        let mut watch = PolicyWatch::new(&path);
        assert!(watch.poll_at(at(0)).expect("the first call answers").is_ok());
        (dir, path, watch)
    }

    #[test]
    fn unchanged_content_is_no_news_even_when_the_file_is_written_again() {
        let (_dir, path, mut watch) = watched();
        write(&path, GOOD);
        assert!(watch.poll_at(at(1000)).is_none());
        assert!(watch.poll_at(at(5000)).is_none());
    }

    #[test]
    fn new_content_is_judged_once_after_it_was_quiet() {
        let (_dir, path, mut watch) = watched();
        write(&path, OTHER);
        assert!(watch.poll_at(at(1000)).is_none());
        assert!(watch.poll_at(at(1100)).is_none());
        let policy = watch.poll_at(at(1200)).expect("quiet for 200 ms").expect("good");
        assert_eq!(policy.mode, super::super::Mode::Observe);
        assert!(watch.poll_at(at(1300)).is_none());
    }

    #[test]
    fn a_half_written_file_that_is_completed_in_time_is_never_judged() {
        let (_dir, path, mut watch) = watched();
        write(&path, "version: 1\nmode: obs");
        assert!(watch.poll_at(at(1000)).is_none());
        write(&path, OTHER);
        assert!(watch.poll_at(at(1150)).is_none());
        assert!(watch.poll_at(at(1300)).is_none());
        assert!(watch.poll_at(at(1350)).expect("quiet").is_ok());
    }

    #[test]
    fn a_file_that_never_rests_is_judged_after_two_seconds() {
        let (_dir, path, mut watch) = watched();
        let answer = (0..=20_u64).find_map(|round| {
            write(&path, &format!("{GOOD}# {round}\n"));
            watch.poll_at(at(1000 + round * 100)).map(|_| round)
        });
        assert_eq!(answer, Some(20));
    }

    #[test]
    fn a_bad_and_a_missing_file_are_told_once_each() {
        let (_dir, path, mut watch) = watched();
        write(&path, "version: 2\n");
        assert!(watch.poll_at(at(1000)).is_none());
        assert!(matches!(watch.poll_at(at(1300)), Some(Err(LoadError::Faults(_)))));
        assert!(watch.poll_at(at(1600)).is_none());
        std::fs::remove_file(&path).unwrap();
        assert!(watch.poll_at(at(2000)).is_none());
        assert!(matches!(watch.poll_at(at(2300)), Some(Err(LoadError::Missing { .. }))));
        assert!(watch.poll_at(at(2600)).is_none());
    }

    /// Runs the watch as its driver does, until it answers.
    async fn next(watch: &mut PolicyWatch) -> Result<Policy, LoadError> {
        loop {
            watch.wake().await;
            if let Some(answer) = watch.poll() {
                return answer;
            }
        }
    }

    #[tokio::test]
    async fn an_editors_rename_wakes_the_watch_long_before_its_period() {
        let (dir, path, mut watch) = watched();
        let aside = dir.path().join(".policy.yaml.swp");
        write(&aside, OTHER);
        rustix::fs::rename(&aside, &path).unwrap();
        let answer = tokio::time::timeout(PERIOD - Duration::from_secs(1), next(&mut watch)).await;
        assert!(answer.expect("an event, not the period").is_ok());
    }

    #[tokio::test]
    async fn a_directory_that_was_replaced_is_watched_again() {
        let (dir, _, _) = watched();
        let inner = dir.path().join("etc");
        std::fs::create_dir(&inner).unwrap();
        let path = inner.join("policy.yaml");
        write(&path, GOOD);
        let mut watch = PolicyWatch::new(&path);
        assert!(watch.poll().is_some());
        rustix::fs::rename(&inner, dir.path().join("old")).unwrap();
        std::fs::create_dir(&inner).unwrap();
        write(&path, GOOD);
        assert!(watch.poll().is_none(), "the same content");
        write(&path, OTHER);
        let answer = tokio::time::timeout(PERIOD - Duration::from_secs(1), next(&mut watch)).await;
        assert!(answer.expect("an event in the new directory").is_ok());
    }
}
