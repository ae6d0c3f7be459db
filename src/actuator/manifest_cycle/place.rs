//! Where the manifest can be while a cycle is open, and how it gets back where it belongs.
//!
//! [`stage_out`] takes it out; [`bring_home`] is the only way back, for the running cycle, for a stop and
//! for a later start alike. Invariant I2 is here: nothing is renamed over anything, a copy is removed only
//! when its content is in place or in a backup, and what somebody else put there stays. All of it blocks;
//! each function may be broken off between any two calls and called again.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::actuator::durable_fs::{Dir, File, Fs, FsError};
use crate::actuator::journal::{Intent, hex, sha256_hex, unhex};
use crate::sensor::manifest::FILE_MAX;

/// The largest manifest that is cycled.
pub(super) const SIZE_MAX: usize = FILE_MAX as usize;
/// How often a manifest that comes and goes under our hands is looked at anew.
const LOOKS_MAX: usize = 5;

/// A file's content with all that must survive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) xattrs: BTreeMap<String, Vec<u8>>,
    /// Device and inode.
    pub(super) identity: (u64, u64),
}

/// A directory and a name in it.
pub(super) fn split(path: &Path) -> Result<(&Path, &OsStr), FsError> {
    let invalid = || FsError { call: "find the directory of", path: path.to_owned(), source: Errno::INVAL.into() };
    Ok((path.parent().ok_or_else(invalid)?, path.file_name().ok_or_else(invalid)?))
}

/// What a name stands for.
pub(super) enum Found {
    Absent,
    /// A regular file of bearable size.
    Regular(Snapshot),
    /// Anything else.
    Other,
}

/// Reads what `name` stands for, without following a link.
pub(super) fn inspect(fs: &Fs, dir: &Dir, name: &OsStr) -> Result<Found, FsError> {
    let Some(stat) = fs.look_up(dir, name)? else { return Ok(Found::Absent) };
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !regular || u64::try_from(stat.st_size).map_or(true, |size| size > FILE_MAX) {
        return Ok(Found::Other);
    }
    let file = match fs.open_file(dir, name) {
        Ok(file) => file,
        Err(error) if error.is(Errno::NOENT) => return Ok(Found::Absent),
        Err(error) => return Err(error),
    };
    snapshot(fs, &file).map(Found::Regular)
}

fn snapshot(fs: &Fs, file: &File) -> Result<Snapshot, FsError> {
    let stat = fs.stat(file)?;
    Ok(Snapshot {
        content: fs.read(file, SIZE_MAX)?,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        xattrs: fs.xattrs(file)?,
        identity: (stat.st_dev, stat.st_ino),
    })
}

/// Makes sure that the backup of `content` is whole and on disk. Backups are named by content.
pub(super) fn ensure_backup(fs: &Fs, backup: &Path, content: &[u8]) -> Result<(), FsError> {
    let (parent, name) = split(backup)?;
    fs.make_dir(parent)?;
    let dir = fs.open_dir(parent)?;
    if let Found::Regular(there) = inspect(fs, &dir, name)?
        && there.content == content
    {
        // Whoever wrote it may have died before it was on disk.
        fs.sync(&fs.open_file(&dir, name)?)?;
        return fs.sync_dir(&dir);
    }
    let temporary = temporary_name(name);
    fs.unlink(&dir, &temporary)?;
    let file = fs.create_new(&dir, &temporary)?;
    let written = fs.write(&file, content).and_then(|()| fs.sync(&file)).and_then(|()| fs.rename_over(&dir, &temporary, name));
    match written {
        Ok(()) => fs.sync_dir(&dir),
        Err(error) => match fs.unlink(&dir, &temporary) {
            // The next attempt removes it too.
            Ok(()) | Err(_) => Err(error),
        },
    }
}

/// Removes what a backup that was broken off has left, for good; whether there is a backup.
pub(super) fn tidy_backup(fs: &Fs, backup: &Path) -> Result<bool, FsError> {
    let (parent, name) = split(backup)?;
    let Some(dir) = open_if_there(fs, parent)? else { return Ok(false) };
    fs.unlink(&dir, &temporary_name(name))?;
    // Also where it is gone already: an earlier attempt may not have got further than that.
    fs.sync_dir(&dir)?;
    Ok(fs.look_up(&dir, name)?.is_some())
}

/// Where a content is backed up: next to the intent's own backup.
fn backup_path(intent: &Intent, content: &[u8]) -> PathBuf {
    let name = intent.manifest.file_name().unwrap_or_else(|| OsStr::new("manifest"));
    let parent = intent.backup.parent().unwrap_or_else(|| Path::new("/"));
    parent.join(backup_name(name, &sha256_hex(content)))
}

/// The name of a manifest's backup.
pub(super) fn backup_name(manifest: &OsStr, sha256: &str) -> OsString {
    let mut name = manifest.to_owned();
    name.push(".");
    name.push(sha256);
    name
}

/// A dotfile, which the kubelet does not read.
fn temporary_name(name: &OsStr) -> OsString {
    let mut bytes = b".".to_vec();
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(b".fip-watchdog");
    OsString::from(OsStr::from_bytes(&bytes))
}

/// Takes the manifest out: rename, then both directories to the disk, then a look at what was taken.
///
/// # Errors
/// In words, and then the manifest may be anywhere: call [`bring_home`].
pub(super) fn stage_out(fs: &Fs, intent: &Intent, identity: (u64, u64)) -> Result<(), super::CycleError> {
    let ((home, name), (staging, staged_name)) = (split(&intent.manifest)?, split(&intent.staging)?);
    let (home, staging) = (fs.open_dir(home)?, fs.open_dir(staging)?);
    fs.rename_new((&home, name), (&staging, staged_name))?;
    fs.sync_dir(&staging)?;
    fs.sync_dir(&home)?;
    match inspect(fs, &staging, staged_name)? {
        Found::Regular(taken) if taken.identity == identity && sha256_hex(&taken.content) == intent.sha256 => Ok(()),
        Found::Absent | Found::Other | Found::Regular(_) => Err(super::CycleError::Changed(intent.manifest.clone())),
    }
}

/// Whether the manifest is in staging and not in its place.
pub(super) fn is_out(fs: &Fs, intent: &Intent) -> Result<bool, FsError> {
    let ((home, name), (staging, staged_name)) = (split(&intent.manifest)?, split(&intent.staging)?);
    let (home, staging) = (fs.open_dir(home)?, open_if_there(fs, staging)?);
    let staged = staging.map(|dir| fs.look_up(&dir, staged_name)).transpose()?.flatten();
    Ok(staged.is_some() && fs.look_up(&home, name)?.is_none())
}

fn open_if_there(fs: &Fs, path: &Path) -> Result<Option<Dir>, FsError> {
    match fs.open_dir(path) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.is(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where the manifest is after [`bring_home`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Home {
    /// Ours is in place, and was before.
    InPlace,
    /// Ours was put back from staging.
    PutBack,
    /// Ours was written anew from the backup.
    FromBackup,
    /// Somebody else's is in place and stays; ours is kept here.
    Replaced(PathBuf),
    /// Nothing is in place, by somebody else's will; ours is kept here.
    RemovedByOther(PathBuf),
    /// No copy of ours exists any more.
    Lost,
}

/// What to do when the manifest is neither in place nor staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfNowhere {
    /// We had it out: write it anew from the backup.
    Restore,
    /// We had not taken it, or had brought it back: whoever removed it meant to.
    Leave,
}

/// Brings the manifest home: the table in the module's head of `recover`. May be called in any state,
/// any number of times.
///
/// # Errors
/// A call failed; nothing is lost, call it again later.
pub(super) fn bring_home(fs: &Fs, intent: &Intent, if_nowhere: IfNowhere) -> Result<Home, FsError> {
    let ((home, name), (staging, staged_name)) = (split(&intent.manifest)?, split(&intent.staging)?);
    for _ in 0..LOOKS_MAX {
        let home = fs.open_dir(home)?;
        let staging = open_if_there(fs, staging)?;
        // Left by a restore that was broken off.
        fs.unlink(&home, &temporary_name(name))?;
        let place = inspect(fs, &home, name)?;
        let staged = match &staging {
            Some(staging) => inspect(fs, staging, staged_name)?,
            None => Found::Absent,
        };
        match (place, &staging, staged) {
            (Found::Absent, Some(staging), Found::Regular(copy)) => {
                if put_back(fs, (staging, staged_name), (&home, name), &copy)? {
                    return Ok(Home::PutBack);
                }
            }
            (Found::Absent, _, _) => {
                if let Some(end) = from_backup(fs, intent, &home, name, if_nowhere)? {
                    return Ok(end);
                }
            }
            (place @ (Found::Regular(_) | Found::Other), staging, staged) => {
                // A rename that was done may not be on disk yet.
                fs.sync_dir(&home)?;
                let kept = match (staging, staged) {
                    (Some(staging), Found::Regular(copy)) => keep(fs, intent, staging, staged_name, &copy)?,
                    (Some(staging), _) => fs.sync_dir(staging).map(|()| intent.backup.clone())?,
                    (None, _) => intent.backup.clone(),
                };
                let ours = matches!(place, Found::Regular(there) if sha256_hex(&there.content) == intent.sha256);
                return Ok(if ours { Home::InPlace } else { Home::Replaced(kept) });
            }
        }
    }
    Err(FsError { call: "bring back", path: intent.manifest.clone(), source: Errno::BUSY.into() })
}

/// Puts the staged copy into place; false if somebody else was quicker.
fn put_back(fs: &Fs, from: (&Dir, &OsStr), to: (&Dir, &OsStr), copy: &Snapshot) -> Result<bool, FsError> {
    match fs.rename_new(from, to) {
        Ok(()) => {
            fs.sync_dir(to.0)?;
            fs.sync_dir(from.0)?;
            Ok(true)
        }
        Err(error) if error.is(Errno::EXIST) => Ok(false),
        // The directory was replaced by one on another mount while the manifest was out. The staged
        // copy goes when the next look finds its content in place.
        Err(error) if error.is(Errno::XDEV) => match write_new(fs, to.0, to.1, copy) {
            Err(error) if !error.is(Errno::EXIST) => Err(error),
            Ok(()) | Err(_) => Ok(false),
        },
        Err(error) => Err(error),
    }
}

/// Moves the staged copy into a backup; where it is kept.
fn keep(fs: &Fs, intent: &Intent, staging: &Dir, name: &OsStr, copy: &Snapshot) -> Result<PathBuf, FsError> {
    let backup = backup_path(intent, &copy.content);
    ensure_backup(fs, &backup, &copy.content)?;
    fs.unlink(staging, name)?;
    fs.sync_dir(staging)?;
    Ok(backup)
}

/// Neither in place nor staged. `None`: look again.
fn from_backup(fs: &Fs, intent: &Intent, home: &Dir, name: &OsStr, how: IfNowhere) -> Result<Option<Home>, FsError> {
    if how == IfNowhere::Leave {
        return Ok(Some(Home::RemovedByOther(intent.backup.clone())));
    }
    let (backups, backup_name) = split(&intent.backup)?;
    let found = match open_if_there(fs, backups)? {
        Some(backups) => inspect(fs, &backups, backup_name)?,
        None => Found::Absent,
    };
    let content = match found {
        Found::Regular(backup) if sha256_hex(&backup.content) == intent.sha256 => backup.content,
        Found::Regular(_) | Found::Absent | Found::Other => return Ok(Some(Home::Lost)),
    };
    let Intent { mode, uid, gid, .. } = *intent;
    let xattrs = intent.xattrs.iter().map(|(name, value)| (name.clone(), unhex(value).unwrap_or_default())).collect();
    let snapshot = Snapshot { content, mode, uid, gid, xattrs, identity: (0, 0) };
    match write_new(fs, home, name, &snapshot) {
        Ok(()) => Ok(Some(Home::FromBackup)),
        Err(error) if error.is(Errno::EXIST) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file anew, whole or not at all, never over another: dotfile, fsync, rename, fsync.
fn write_new(fs: &Fs, dir: &Dir, name: &OsStr, snapshot: &Snapshot) -> Result<(), FsError> {
    let temporary = temporary_name(name);
    let file = fs.create_new(dir, &temporary)?;
    let written = fill(fs, &file, snapshot).and_then(|()| fs.rename_new((dir, &temporary), (dir, name)));
    match written {
        Ok(()) => fs.sync_dir(dir),
        Err(error) => match fs.unlink(dir, &temporary) {
            // The next look removes it too.
            Ok(()) | Err(_) => Err(error),
        },
    }
}

fn fill(fs: &Fs, file: &File, snapshot: &Snapshot) -> Result<(), FsError> {
    fs.write(file, &snapshot.content)?;
    // The owner first: chown clears set-id bits and capabilities. The mode last: an ACL sets some of it.
    unless_denied(fs.set_owner(file, snapshot.uid, snapshot.gid))?;
    for (name, value) in &snapshot.xattrs {
        unless_denied(fs.set_xattr(file, name, value))?;
    }
    fs.set_mode(file, snapshot.mode)?;
    fs.sync(file)
}

/// Better a manifest without its owner or label than no manifest: the unit's capabilities may not allow them.
fn unless_denied(done: Result<(), FsError>) -> Result<(), FsError> {
    match done {
        Err(error) if error.is(Errno::PERM) || error.is(Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}

/// Extended attributes as the journal holds them.
pub(super) fn xattrs_as_hex(snapshot: &Snapshot) -> BTreeMap<String, String> {
    snapshot.xattrs.iter().map(|(name, value)| (name.clone(), hex(value))).collect()
}
