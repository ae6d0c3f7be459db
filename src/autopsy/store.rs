//! The files in `<state_dir>/autopsies`: one JSON document an autopsy, the newest [`KEPT`], none larger than [`BYTES_MAX`].
//!
//! Written aside, synced and renamed, so that a file that is there is whole. A failure costs the file and nothing else: the
//! journal has the same evidence. Blocking.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Autopsy;
use crate::actuator::durable_fs::{Fs, FsError};
use crate::runtime::small_file;
use crate::runtime::startup::chain;

/// How many are kept.
pub const KEPT: usize = 16;

/// Most bytes of one file.
pub const BYTES_MAX: usize = 128 * 1024;

/// What is being written; a leftover of an earlier life is overwritten.
const ASIDE: &str = "new";

/// Where autopsies are kept.
#[must_use]
pub fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("autopsies")
}

/// The numbers of those that are kept, oldest first; whatever the names belong to.
///
/// # Errors
/// The directory cannot be listed. One that is not there holds none.
pub fn numbers(state_dir: &Path) -> std::io::Result<Vec<u32>> {
    let entries = match std::fs::read_dir(directory(state_dir)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers: Vec<u32> = entries.flatten().filter_map(|entry| number(&entry.file_name())).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The file of an autopsy.
#[must_use]
pub fn path(state_dir: &Path, number: u32) -> PathBuf {
    directory(state_dir).join(name(number))
}

fn name(number: u32) -> OsString {
    format!("{number:04}.json").into()
}

/// The number of a name that [`name`] gives, and of no other: `+1.json` is nothing of ours.
fn number(file: &OsStr) -> Option<u32> {
    let number = file.to_str()?.strip_suffix(".json")?.parse().ok()?;
    (name(number) == file).then_some(number)
}

/// Reads one.
///
/// # Errors
/// It is not there, is no regular file, cannot be read, is too large, or is no autopsy.
pub fn read(state_dir: &Path, number: u32) -> std::io::Result<Autopsy> {
    serde_json::from_slice(&small_file::read(&path(state_dir, number), BYTES_MAX)?).map_err(std::io::Error::other)
}

/// Writes an autopsy under the next number, and removes what is too old.
///
/// # Errors
/// A call failed, the document is too large, or the directory is reached by a link; nothing that was there is lost.
pub(super) fn write(fs: &Fs, state_dir: &Path, autopsy: &mut Autopsy) -> Result<u32, FsError> {
    let path = directory(state_dir);
    let failed = |call, source| FsError { call, path: path.clone(), source };
    fs.make_dir(&path)?;
    let dir = fs.open_own_dir(&path)?;
    let mut known = numbers(state_dir).map_err(|source| failed("list", source))?;
    let number = known.last().map_or(1, |last| last.saturating_add(1));
    autopsy.number = Some(number);
    let document = serde_json::to_vec_pretty(autopsy).map_err(|error| failed("write", error.into()))?;
    if document.len() > BYTES_MAX {
        return Err(failed("write", Errno::FBIG.into()));
    }
    fs.replace_whole(&dir, (OsStr::new(ASIDE), &name(number)), &document)?;
    known.push(number);
    for old in &known[..known.len().saturating_sub(KEPT)] {
        // Something that is no file must not keep the others from being removed.
        if let Err(error) = fs.unlink(&dir, &name(*old)) {
            tracing::warn!(error = %chain(&error), "an old autopsy stays");
        }
    }
    Ok(number)
}
