//! One look at the manifest directory: the manifest itself, and whoever else declares its pod.
//!
//! Bounded: at most [`FILES_MAX`] names, and no file over [`FILE_MAX`] is read. What cannot be decided is
//! said ([`Listing::undecided`]), never guessed. Every call blocks; nothing is written.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::pod_file::PodFile;

/// The largest file that is read: a static pod's manifest is a few KiB.
pub const FILE_MAX: u64 = 1 << 20;
/// The most names that are looked at: a control plane has about ten.
pub const FILES_MAX: usize = 512;

/// What changes when a file's content does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Identity {
    fn of(meta: &Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.size(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            ctime: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// The pod whose manifest is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Path of its manifest.
    pub manifest: PathBuf,
    /// Its namespace.
    pub namespace: String,
    /// Its `metadata.name`.
    pub name: String,
}

impl Wanted {
    /// The manifest directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.manifest.parent().unwrap_or_else(|| Path::new("/"))
    }
}

/// The other files of the directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Those that the kubelet reads and that declare the same pod, in order.
    pub shadows: Vec<PathBuf>,
    /// A file of which that cannot be told, and why.
    pub undecided: Option<String>,
}

/// What was found out about other files, so that only changed ones are read again.
#[derive(Debug, Clone, Default)]
pub struct Known(BTreeMap<OsString, (Identity, bool)>);

/// Looks at every file but the manifest. Which names count: everything but dotfiles and directories,
/// `.bak`, `~` and `.txt` included, links followed (kubelet, `pkg/kubelet/config/file_linux.go`).
///
/// # Errors
/// The directory cannot be read, or holds too many names; in words.
pub fn list_others(wanted: &Wanted, known: &mut Known) -> Result<Listing, String> {
    let dir = wanted.dir();
    let failed = |error: std::io::Error| format!("manifest directory {} cannot be read: {error}", dir.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name());
        if names.len() > FILES_MAX {
            return Err(format!("manifest directory {} holds more than {FILES_MAX} names", dir.display()));
        }
    }
    names.retain(|name| !name.as_bytes().starts_with(b".") && Some(name.as_os_str()) != wanted.manifest.file_name());
    names.sort();
    known.0.retain(|name, _| names.contains(name));
    let mut listing = Listing::default();
    for name in names {
        match declares(wanted, &name, known) {
            Ok(true) => listing.shadows.push(dir.join(&name)),
            Ok(false) => {}
            Err(reason) => listing.undecided = Some(format!("{} {reason}", dir.join(&name).display())),
        }
    }
    Ok(listing)
}

/// Whether the file `name` declares the pod that is wanted.
fn declares(wanted: &Wanted, name: &OsStr, known: &mut Known) -> Result<bool, String> {
    let path = wanted.dir().join(name);
    let meta = match std::fs::metadata(&path) {
        Ok(meta) if meta.is_file() => meta,
        // A directory, a socket; or a link to nowhere, or a file that has just gone.
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let identity = Identity::of(&meta);
    if let Some((_, declared)) = known.0.get(name).filter(|(before, _)| *before == identity) {
        return Ok(*declared);
    }
    let content = match read_bounded(&path, false) {
        Ok((content, _)) => content,
        Err(ReadFault::Absent) => return Ok(false),
        Err(ReadFault::Unreadable(reason)) => return Err(reason),
    };
    let declared = PodFile::parse(&content).is_some_and(|pod| pod.is(&wanted.namespace, &wanted.name));
    known.0.insert(name.to_owned(), (identity, declared));
    Ok(declared)
}

/// Why a file gave no content.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// There is no such file.
    Absent,
    /// There is, but; in words that follow the file's name.
    Unreadable(String),
}

/// The status of the manifest itself, no link followed.
///
/// # Errors
/// It is absent, or not a regular file of bearable size.
pub fn manifest_identity(path: &Path) -> Result<Identity, ReadFault> {
    let meta = std::fs::symlink_metadata(path).map_err(fault)?;
    if meta.file_type().is_symlink() {
        return Err(ReadFault::Unreadable("is a symbolic link".to_owned()));
    }
    check(&meta)?;
    Ok(Identity::of(&meta))
}

/// A regular file's content, and the identity that it was read under.
///
/// # Errors
/// It is absent, not a regular file, too large, changing, or cannot be read.
pub fn read_bounded(path: &Path, no_link: bool) -> Result<(Vec<u8>, Identity), ReadFault> {
    let mut flags = OFlags::NONBLOCK;
    flags.set(OFlags::NOFOLLOW, no_link);
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(fault)?;
    let before = file.metadata().map_err(fault)?;
    check(&before)?;
    let mut content = Vec::new();
    (&mut file).take(FILE_MAX + 1).read_to_end(&mut content).map_err(fault)?;
    let after = file.metadata().map_err(fault)?;
    check(&after)?;
    if Identity::of(&before) != Identity::of(&after) {
        return Err(ReadFault::Unreadable("changes while it is read".to_owned()));
    }
    Ok((content, Identity::of(&after)))
}

fn check(meta: &Metadata) -> Result<(), ReadFault> {
    if !meta.is_file() {
        return Err(ReadFault::Unreadable("is not a regular file".to_owned()));
    }
    if meta.size() > FILE_MAX {
        return Err(ReadFault::Unreadable(format!("is larger than {FILE_MAX} bytes")));
    }
    Ok(())
}

fn fault(error: std::io::Error) -> ReadFault {
    match error.kind() == std::io::ErrorKind::NotFound {
        true => ReadFault::Absent,
        false => ReadFault::Unreadable(format!("cannot be read: {error}")),
    }
}
