//! Run-time modes of the stand-in, read from a control file with one word a line.
//! Invariant: a missing file is normal operation, an unknown word is said and ignored. The file is written by whoever injects the fault.

use std::fs;
use std::path::{Path, PathBuf};

use inotify::{Inotify, WatchMask};

use super::phase::Conditions;
use super::say;

/// Which faults the kubelet has at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modes {
    /// Removals are logged, nothing is killed: no API server was reached since the start.
    pub sources_not_ready: bool,
    /// Events of the manifest directory are lost, only the list works.
    pub watch_dead: bool,
    /// Containers do not die by signals.
    pub unkillable: bool,
    /// The eviction manager ends every pod and lets none start: a node under disk pressure.
    pub evict: bool,
    /// The worker of a pod that is removed never finishes.
    pub termination_stuck: bool,
    /// The log reader of the containers that run when this is switched on is killed; a new container has a new one.
    pub log_reader_dead: bool,
}

impl Modes {
    /// Parse the control file's text.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut modes = Self::default();
        for word in text.lines().map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "sources-not-ready" => modes.sources_not_ready = true,
                "watch-dead" => modes.watch_dead = true,
                "unkillable" => modes.unkillable = true,
                "evict" => modes.evict = true,
                "termination-stuck" => modes.termination_stuck = true,
                "log-reader-dead" => modes.log_reader_dead = true,
                other => say(&format!("\"Unknown mode\" mode={other:?}")),
            }
        }
        modes
    }

    /// What the pod workers have to know.
    #[must_use]
    pub fn conditions(self) -> Conditions {
        Conditions {
            sources_not_ready: self.sources_not_ready,
            unkillable: self.unkillable,
            evict: self.evict,
            termination_stuck: self.termination_stuck,
        }
    }
}

/// The control file and the watch on its directory.
#[derive(Debug)]
pub struct ModeFile {
    path: PathBuf,
    inotify: Option<Inotify>,
}

impl ModeFile {
    /// Watch the directory of `path`. Without a watch the file is still read at each tick.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let mask = WatchMask::CLOSE_WRITE | WatchMask::MOVED_TO | WatchMask::MOVED_FROM | WatchMask::DELETE;
        let inotify = fs::create_dir_all(parent)
            .and_then(|()| Inotify::init())
            .and_then(|inotify| inotify.watches().add(parent, mask).map(|_watch| inotify));
        if let Err(error) = &inotify {
            say(&format!("\"Unable to watch the mode file\" path={path:?} err=\"{error}\""));
        }
        Self { path: path.to_owned(), inotify: inotify.ok() }
    }

    /// The watch.
    #[must_use]
    pub fn inotify(&self) -> Option<&Inotify> {
        self.inotify.as_ref()
    }

    /// Throw the pending events away and read the file.
    pub fn read(&mut self) -> Modes {
        let mut buffer = [0_u8; 4096];
        while let Some(inotify) = self.inotify.as_mut() {
            if inotify.read_events(&mut buffer).is_err() {
                break;
            }
        }
        Modes::parse(&fs::read_to_string(&self.path).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_mode_and_unknown_words_change_nothing() {
        assert_eq!(Modes::parse(""), Modes::default());
        let modes = Modes::parse("sources-not-ready\n nonsense\n\nunkillable\n");
        assert_eq!(modes, Modes { sources_not_ready: true, unkillable: true, ..Modes::default() });
    }
}
