//! The end of etcd's log among the logs of pods: `<root>/kube-system_etcd-<node>_<uid>/etcd/<attempt>.log`.
//!
//! A start makes a new file, so that what the last run died of stands in the one before: the newest files together give the end that is
//! looked at. Invariant: at most [`BYTES_MAX`] are read, and nothing is waited for but the disk. Blocking.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;

/// Of the end of the log, this much is read: minutes of a partition, hours of a quiet time.
pub(super) const BYTES_MAX: u64 = 256 * 1024;

/// The files that this much may be spread over: a crash loop writes some 10 KiB a run.
const FILES_MAX: usize = 8;

/// Entries of a directory that are looked at; a node has some hundred pods.
const ENTRIES_MAX: usize = 4096;

/// How the directories of etcd's pods begin.
const POD: &str = "kube-system_etcd-";

/// The container's name, and so its directory's.
const CONTAINER: &str = "etcd";

/// A piece of the log, and whether it begins inside a line.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) inside_line: bool,
}

/// The end of etcd's log: the newest file's path, and the pieces, oldest first. `Ok(None)` if there is no such log.
pub(super) fn end(root: &Path) -> Result<Option<(PathBuf, Vec<Piece>)>, String> {
    let fail = |path: &Path, error: &io::Error| format!("{} cannot be read: {error}", path.display());
    let pods = match entries(root) {
        Ok(pods) => pods,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(root, &error)),
    };
    let of_etcd = pods.iter().filter(|pod| pod.file_name().as_encoded_bytes().starts_with(POD.as_bytes()));
    let newest = of_etcd.filter_map(|pod| logs(&pod.path().join(CONTAINER))).max_by_key(|(written, _)| *written);
    let Some((_, logs)) = newest else { return Ok(None) };
    let Some(newest) = logs.last().cloned() else { return Ok(None) };
    let mut room = BYTES_MAX;
    let mut pieces = Vec::new();
    for path in logs.iter().rev().take(FILES_MAX) {
        match tail(path, room) {
            Ok(piece) => {
                room = room.saturating_sub(u64::try_from(piece.bytes.len()).unwrap_or(u64::MAX));
                pieces.push(piece);
            }
            // Rotated away meanwhile; the newest one is what it is about.
            Err(_) if !pieces.is_empty() => break,
            Err(error) => return Err(fail(path, &error)),
        }
        if room == 0 {
            break;
        }
    }
    pieces.reverse();
    Ok(Some((newest, pieces)))
}

fn entries(dir: &Path) -> io::Result<Vec<DirEntry>> {
    fs::read_dir(dir)?.take(ENTRIES_MAX).collect()
}

/// A container's logs, oldest first, and when the newest was written; `None` if there are none.
fn logs(dir: &Path) -> Option<(SystemTime, Vec<PathBuf>)> {
    let mut found: Vec<(Age, PathBuf)> =
        entries(dir).ok()?.iter().filter_map(|entry| Some((Age::of(entry.file_name().to_str()?)?, entry.path()))).collect();
    found.sort();
    let (_, newest) = found.last()?;
    // Follows docker's links.
    let written = fs::metadata(newest).and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    Some((written, found.into_iter().map(|(_, path)| path).collect()))
}

/// The order of a container's logs: `0.log.20261130-084845` (rotated), `0.log`, `1.log`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Age {
    attempt: u32,
    is_current: bool,
    rotated: String,
}

impl Age {
    fn of(name: &str) -> Option<Self> {
        let (attempt, rest) = name.split_once(".log")?;
        let is_rotated =
            rest.strip_prefix('.').is_some_and(|stamp| stamp.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'));
        (rest.is_empty() || is_rotated).then_some(())?;
        Some(Self { attempt: attempt.parse().ok()?, is_current: rest.is_empty(), rotated: rest.to_owned() })
    }
}

fn tail(path: &Path, bytes_max: u64) -> io::Result<Piece> {
    // A FIFO in its place must not keep us.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let mut file: File = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let from = meta.len().saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(Piece { bytes, inside_line: from > 0 })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;

    fn put(root: &Path, path: &str, content: &[u8], written: u64) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = File::create(path).unwrap();
        file.write_all(content).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(written)).unwrap();
    }

    fn text(pieces: &[Piece]) -> String {
        pieces.iter().map(|piece| String::from_utf8_lossy(&piece.bytes).into_owned()).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn the_newest_directorys_files_are_read_in_the_order_in_which_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        put(root, "kube-system_etcd-cp1_0123/etcd/4.log", b"old pod", 100);
        put(root, "kube-system_etcd-cp1_4567/etcd/10.log", b"tenth", 300);
        put(root, "kube-system_etcd-cp1_4567/etcd/9.log", b"ninth", 200);
        put(root, "kube-system_etcd-cp1_4567/etcd/10.log.20261130-010203", b"rotated", 250);
        put(root, "kube-system_etcd-cp1_4567/etcd/10.log.20261130-010101.gz", b"packed", 240);
        put(root, "kube-system_etcd-cp1_4567/etcd/notes", b"no log", 900);
        put(root, "kube-system_kube-scheduler-cp1_89ab/kube-scheduler/0.log", b"another", 999);
        let (path, pieces) = end(root).unwrap().unwrap();
        assert!(path.ends_with("kube-system_etcd-cp1_4567/etcd/10.log"), "{}", path.display());
        assert_eq!(text(&pieces), "ninth|rotated|tenth");
    }

    #[test]
    fn only_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let long = vec![b'x'; usize::try_from(BYTES_MAX).unwrap() + 10];
        put(dir.path(), "kube-system_etcd-cp1_0123/etcd/0.log", &long, 1);
        put(dir.path(), "kube-system_etcd-cp1_0123/etcd/1.log", b"end", 2);
        let (_, pieces) = end(dir.path()).unwrap().unwrap();
        let sizes: Vec<_> = pieces.iter().map(|piece| (piece.bytes.len(), piece.inside_line)).collect();
        assert_eq!(sizes, [(usize::try_from(BYTES_MAX).unwrap() - 3, true), (3, false)]);
    }

    #[test]
    fn no_log_is_none_and_one_that_cannot_be_read_says_why() {
        let dir = tempfile::tempdir().unwrap();
        assert!(end(&dir.path().join("absent")).unwrap().is_none());
        assert!(end(dir.path()).unwrap().is_none());
        fs::create_dir_all(dir.path().join("kube-system_etcd-cp1_0123/etcd")).unwrap();
        assert!(end(dir.path()).unwrap().is_none());
        let log = dir.path().join("kube-system_etcd-cp1_0123/etcd/0.log");
        rustix::fs::mknodat(rustix::fs::CWD, &log, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(end(dir.path()).unwrap_err().ends_with("0.log cannot be read: it is no regular file"));
        put(dir.path(), "file", b"", 1);
        assert!(end(&dir.path().join("file")).is_err());
    }
}
