//! The small files of the state directory: read without waiting, written whole.
//!
//! Invariants: a pipe, a device or a directory in a file's place keeps nobody waiting, and neither does one where the new
//! content is staged; no link is followed when writing. Blocking; each call is whole or not done.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::actuator::durable_fs::Fs;

/// At most `bytes_max` of a regular file.
///
/// # Errors
/// It is not there, is no regular file, is larger, or cannot be read.
pub(crate) fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>> {
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        return Err(Error::other(format!("it is larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Puts `content` in the place of `path`, by way of `<path>.new`. A leftover under that name is removed first.
///
/// # Errors
/// A call failed; what was there is there still, unless all that failed was to sync the directory.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(ErrorKind::InvalidInput.into()) };
    let mut aside = name.to_owned();
    aside.push(OsStr::new(".new"));
    let fs = Fs::default();
    let replaced = fs.open_dir(parent).and_then(|dir| fs.replace_whole(&dir, (&aside, name), content));
    replaced.map_err(|error| error.source)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn pipe(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    #[test]
    fn what_lies_where_the_content_is_staged_is_neither_waited_for_nor_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside, other) = (dir.path().join("a.json"), dir.path().join("a.json.new"), dir.path().join("other"));
        fs::File::create(&other).unwrap();
        pipe(&aside);
        replace(&path, b"1").unwrap();
        symlink(&other, &aside).unwrap();
        replace(&path, b"22").unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        replace(&path, b"333").unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"333");
        assert_eq!((fs::metadata(&other).unwrap().len(), aside.exists()), (0, false));
        fs::create_dir(&aside).unwrap();
        replace(&path, b"4444").unwrap_err();
        assert_eq!(read(&path, 3).unwrap(), b"333");
    }

    #[test]
    fn only_a_regular_file_of_bearable_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        assert_eq!(read(&path, 3).unwrap_err().kind(), ErrorKind::NotFound);
        pipe(&path);
        assert_eq!(read(&path, 3).unwrap_err().to_string(), "it is no regular file");
        fs::remove_file(&path).unwrap();
        replace(&path, b"4444").unwrap();
        assert_eq!(read(&path, 3).unwrap_err().to_string(), "it is larger than 3 bytes");
        assert_eq!(read(&path, 4).unwrap(), b"4444");
    }
}
