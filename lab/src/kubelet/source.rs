//! The manifest directory: inotify events in milliseconds, and a full list on a period.
//!
//! Invariant: events are applied one by one, each with the file's content at the time it is handled, as a kubelet does. So half a
//! written file counts, and a removal followed at once by a creation is seen as both.
//! The watch is made once: a directory that was replaced is only seen by the list.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use inotify::{EventMask, Inotify, WatchMask};

use super::manifest::{self, Pod};
use super::say;
use super::store::Store;

/// The kubelet's own bound on a manifest.
const MANIFEST_BYTES_MAX: u64 = 10 << 20;

/// A manifest directory of more files than this is refused rather than followed.
const FILES_MAX: usize = 1_000;

/// The source of static pods.
#[derive(Debug)]
pub struct FileSource {
    dir: PathBuf,
    node: String,
    store: Store,
    inotify: Option<Inotify>,
}

impl FileSource {
    /// Follow `dir` for the node `node`.
    #[must_use]
    pub fn new(dir: &Path, node: &str) -> Self {
        let mut source = Self { dir: dir.to_owned(), node: node.to_owned(), store: Store::default(), inotify: None };
        source.watch();
        source
    }

    /// Watch the directory if that has not worked before.
    pub fn watch(&mut self) {
        if self.inotify.is_some() {
            return;
        }
        // Not CLOSE_WRITE: every write is parsed, whole or not.
        let mask = WatchMask::CREATE
            | WatchMask::MODIFY
            | WatchMask::ATTRIB
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::DELETE;
        let watched = Inotify::init().and_then(|inotify| inotify.watches().add(&self.dir, mask).map(|_watch| inotify));
        match watched {
            Ok(inotify) => self.inotify = Some(inotify),
            Err(error) => say(&format!("\"Unable to read config path\" path={:?} err=\"{error}\"", self.dir)),
        }
    }

    /// The descriptor that becomes readable with an event.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Apply all pending events; what should run after each of them. With `dead` they are thrown away.
    pub fn drain(&mut self, dead: bool) -> Vec<Vec<Pod>> {
        let events = self.read_events();
        if dead {
            return Vec::new();
        }
        let mut snapshots = Vec::new();
        for (name, mask) in events {
            if name.as_bytes().starts_with(b".") {
                continue;
            }
            if mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
                self.store.remove(&name);
            } else {
                match self.read(&name) {
                    Ok(Some(pod)) => self.store.upsert(&name, pod),
                    Ok(None) => continue,
                    Err(error) => {
                        say(&format!("\"Could not process manifest file\" path={:?} err=\"{error:#}\"", self.dir.join(&name)));
                        continue;
                    }
                }
            }
            snapshots.push(self.store.pods());
        }
        snapshots
    }

    fn read_events(&mut self) -> Vec<(OsString, EventMask)> {
        let mut events = Vec::new();
        let mut buffer = [0_u8; 8192];
        while let Some(inotify) = self.inotify.as_mut() {
            match inotify.read_events(&mut buffer) {
                Ok(read) => {
                    events.extend(read.filter_map(|event| event.name.map(|name| (name.to_owned(), event.mask))));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    say(&format!("\"Error while watching config path\" err=\"{error}\""));
                    break;
                }
            }
        }
        events
    }

    /// Read the whole directory; what should run after that.
    pub fn list(&mut self) -> Vec<Pod> {
        let mut names: Vec<OsString> = match fs::read_dir(&self.dir) {
            Ok(entries) => entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).take(FILES_MAX).collect(),
            Err(error) => {
                say(&format!("\"Unable to read config path\" path={:?} err=\"{error}\"", self.dir));
                Vec::new()
            }
        };
        names.sort();
        let mut listed = Vec::new();
        for name in names {
            if name.as_bytes().starts_with(b".") {
                continue;
            }
            match self.read(&name) {
                Ok(Some(pod)) => listed.push((name, pod)),
                Ok(None) => {}
                Err(error) => {
                    say(&format!("\"Could not process manifest file\" path={:?} err=\"{error:#}\"", self.dir.join(&name)));
                }
            }
        }
        self.store.replace(listed);
        self.store.pods()
    }

    /// The pod in a file; `None` for what is not a regular file (symbolic links are followed).
    fn read(&self, name: &OsStr) -> anyhow::Result<Option<Pod>> {
        let path = self.dir.join(name);
        if !fs::metadata(&path)?.is_file() {
            return Ok(None);
        }
        let mut text = String::new();
        fs::File::open(&path)?.take(MANIFEST_BYTES_MAX).read_to_string(&mut text)?;
        Ok(Some(manifest::parse(&text, &path, &self.node)?))
    }
}
