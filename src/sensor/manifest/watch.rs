//! Wakes when something in the manifest directory may have changed.
//!
//! A watch is tied to an inode: a directory that was removed and made again, or renamed, is no longer
//! watched, and nobody says so. So the parent is watched too, and after each full read
//! [`ManifestWatch::check`] compares device and inode and watches anew. Nothing here is fatal: without a
//! watch (limit reached, directory missing) the periodic read goes on, and [`ManifestWatch::trouble`]
//! says why it is alone. `changed` is cancel-safe: a wake-up that nobody awaits is kept.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// How many checks pass between two attempts to get a watch that was refused: a new attempt costs an
/// inotify instance and a thread, and the limit is seldom raised within seconds.
const RETRY_EVERY: u32 = 30;

/// A watch on one directory and its parent.
pub struct ManifestWatch {
    dir: PathBuf,
    wake: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    inodes: [Option<(u64, u64)>; 2],
    trouble: Option<String>,
    checks_until_retry: u32,
}

impl ManifestWatch {
    /// Begins to watch; never fails, see [`Self::trouble`].
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let wake = Arc::new(Notify::new());
        let mut watch =
            Self { dir: dir.to_owned(), wake, watcher: None, inodes: [None; 2], trouble: None, checks_until_retry: 0 };
        watch.begin();
        watch
    }

    /// Waits until something may have changed since the last call.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }

    /// Why changes are noticed by the periodic read alone; `None` while the watch works.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Call after each full read: watches anew if the directory is another one by now. A few `stat`s.
    pub fn check(&mut self) {
        let moved = self.inodes != self.current();
        self.checks_until_retry = self.checks_until_retry.saturating_sub(1);
        if moved || (self.trouble.is_some() && self.checks_until_retry == 0) {
            self.begin();
            // What happened between the two watches was seen by nobody.
            self.wake.notify_one();
        }
    }

    fn parent(&self) -> &Path {
        self.dir.parent().unwrap_or_else(|| Path::new("/"))
    }

    fn current(&self) -> [Option<(u64, u64)>; 2] {
        [self.dir.as_path(), self.parent()].map(|path| std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino())))
    }

    fn begin(&mut self) {
        // Before the watch is set: a directory replaced in between is found by the next check.
        self.inodes = self.current();
        self.checks_until_retry = RETRY_EVERY;
        self.watcher = None;
        match self.watch() {
            Ok((watcher, trouble)) => {
                self.watcher = Some(watcher);
                self.trouble = trouble;
            }
            Err(error) => self.trouble = Some(format!("manifest directory {} cannot be watched: {error}", self.dir.display())),
        }
    }

    fn watch(&self) -> notify::Result<(RecommendedWatcher, Option<String>)> {
        let (wake, dir) = (Arc::clone(&self.wake), self.dir.clone());
        let handler = move |event: notify::Result<Event>| {
            if event.map_or(true, |event| concerns(&event, &dir)) {
                wake.notify_one();
            }
        };
        let mut watcher = notify::recommended_watcher(handler)?;
        let mut trouble = None;
        for path in [self.parent(), &self.dir] {
            if let Err(error) = watcher.watch(path, RecursiveMode::NonRecursive) {
                trouble = Some(format!("{} cannot be watched: {error}", path.display()));
            }
        }
        Ok((watcher, trouble))
    }
}

/// Reads raise events too, our own among them: they would wake us for ever. Other names in the parent
/// are none of our business. An overflow names no path and concerns everybody.
fn concerns(event: &Event, dir: &Path) -> bool {
    let read = matches!(event.kind, EventKind::Access(kind) if kind != notify::event::AccessKind::Close(notify::event::AccessMode::Write));
    !read && (event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(|path| path.starts_with(dir)))
}
