//! A container's log file and its rotation as a kubelet does it: compress what was rotated before, rename, open anew.
//! Invariant: no byte is lost; the name is missing for a moment, and at most five files are kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

/// containerLogMaxFiles: with the current one.
const FILES_MAX: usize = 5;

/// Between rename and reopen a real kubelet leaves 1 to 3 ms without a log.
const GAP: Duration = Duration::from_millis(2);

/// The open log.
#[derive(Debug)]
pub struct RotatingLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl RotatingLog {
    /// Open or create the log at `path`, mode 0640; it is rotated when it has more than `bytes_max` bytes.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let file = create(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes, bytes_max })
    }

    /// Append whole lines.
    ///
    /// # Errors
    /// The disk is full, or the file cannot be written.
    pub fn append(&mut self, lines: &[u8], now: Timestamp) -> io::Result<()> {
        self.file.write_all(lines)?;
        self.bytes += u64::try_from(lines.len()).unwrap_or(u64::MAX);
        if self.bytes > self.bytes_max { self.rotate(now) } else { Ok(()) }
    }

    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let target = self.suffixed(&now.strftime(".%Y%m%d-%H%M%S").to_string());
        // Names have whole seconds; a second rotation in one would overwrite the first.
        if target.exists() {
            return Ok(());
        }
        let mut rotated = rotated_logs(&self.path)?;
        let excess = rotated.len().saturating_sub(FILES_MAX - 2);
        for old in rotated.drain(..excess) {
            fs::remove_file(old)?;
        }
        for old in rotated.iter().filter(|old| old.extension().is_none_or(|extension| extension != "gz")) {
            compress(old)?;
        }
        fs::rename(&self.path, &target)?;
        std::thread::sleep(GAP);
        self.file = create(&self.path)?;
        self.bytes = 0;
        Ok(())
    }

    fn suffixed(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    }
}

/// Rotated files of the log at `path`, oldest first.
///
/// # Errors
/// The directory cannot be read.
pub fn rotated_logs(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(Vec::new()) };
    let prefix = format!("{}.", name.to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&prefix) && !name.ends_with(UNFINISHED) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

/// As the kubelet does: under another name until it is whole (kubernetes `pkg/kubelet/logs/container_log_manager.go`).
fn compress(path: &Path) -> io::Result<()> {
    let with = |suffix: &str| {
        let mut name = path.to_owned().into_os_string();
        name.push(suffix);
        name
    };
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o640).open(with(UNFINISHED))?;
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?;
    fs::rename(with(UNFINISHED), with(".gz"))?;
    fs::remove_file(path)
}

/// What the name of a file ends in that is being compressed.
const UNFINISHED: &str = ".tmp";

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn rotation_compresses_the_older_files_keeps_five_and_loses_nothing_of_those() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("0.log");
        let mut log = RotatingLog::open(&path, 10).expect("open");
        for second in 0..8 {
            let now = Timestamp::from_second(1_796_001_700 + second).expect("in range");
            log.append(format!("{second} line of text\n").as_bytes(), now).expect("append");
        }
        let rotated = rotated_logs(&path).expect("list");
        let plain: Vec<&PathBuf> = rotated.iter().filter(|old| old.extension().is_some_and(|e| e != "gz")).collect();
        assert_eq!(rotated.len(), FILES_MAX - 1);
        assert_eq!(plain, [rotated.last().expect("some")]);
        let mut text = String::new();
        let gz = File::open(&rotated[FILES_MAX - 3]).expect("open");
        flate2::read::GzDecoder::new(gz).read_to_string(&mut text).expect("gzip");
        assert_eq!(text, "6 line of text\n");
        assert_eq!(fs::read_to_string(&path).expect("read"), "");
    }
}
