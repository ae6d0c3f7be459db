//! One line of the cycle journal: `<checksum> <JSON>\n`.
//!
//! The checksum is the first 16 hex digits of the SHA-256 of the JSON text. A line without its newline
//! is a torn tail: it was never acknowledged, so it is absent. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// When something was journalled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// `/proc/sys/kernel/random/boot_id`: boottime stamps compare within one boot only.
    pub boot_id: String,
    /// `CLOCK_BOOTTIME`, ms.
    pub boottime_ms: u64,
    /// `CLOCK_REALTIME`, ms since the epoch; for people, never for ages.
    pub wall_ms: u64,
}

impl Stamp {
    /// Time since boot at the stamp.
    #[must_use]
    pub const fn boottime(&self) -> Duration {
        Duration::from_millis(self.boottime_ms)
    }
}

/// What finds the old pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PodRecord {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`, without the node's suffix.
    pub name: String,
    /// UIDs under which the pod may run (32 hex digits for a static pod).
    pub uids: Vec<String>,
    /// The loop's process before the cycle: pid and start time in clock ticks since boot.
    pub process: Option<(u32, u64)>,
}

/// All that is needed to finish or undo a cycle, whatever the policy says by then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Counts up over the life of the journal.
    pub id: u64,
    /// Where the manifest belongs.
    pub manifest: PathBuf,
    /// Where it waits while it is out.
    pub staging: PathBuf,
    /// The copy of its content.
    pub backup: PathBuf,
    /// SHA-256 of the content, lower-case hex.
    pub sha256: String,
    /// Length of the content in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Extended attributes, values in hex.
    pub xattrs: BTreeMap<String, String>,
    /// The old pod.
    pub pod: PodRecord,
    /// How long the manifest has to stay out at least, ms.
    pub settle_ms: u64,
    /// When the cycle began.
    pub at: Stamp,
}

/// How far a cycle got beyond its intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseMark {
    /// The manifest is staged, and both directories are on disk.
    Out,
    /// It is back (or somebody else's is), and both directories are on disk.
    Back,
}

/// How a cycle ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing was moved.
    NotMoved,
    /// Out, in again, new process, fresh beat.
    Verified,
    /// Out and in again, but no fresh beat in time.
    Unverified,
    /// The old pod did not die in time; the manifest was put back.
    PodStuck,
    /// The daemon was told to stop; the manifest was put back.
    Stopped,
    /// Something failed between out and in; the manifest was put back.
    Aborted,
    /// Somebody else put a manifest there meanwhile; theirs stayed, ours is a backup.
    Replaced,
    /// Found in place by a later start.
    RecoveredInPlace,
    /// Put back from staging by a later start.
    RecoveredPutBack,
    /// Written anew from the backup by a later start.
    RecoveredFromBackup,
    /// Somebody else removed the manifest; it was not put back.
    RemovedByOther,
    /// Neither the manifest nor its staged copy nor a sound backup exists.
    Lost,
}

impl Outcome {
    /// Whether the pod was disturbed, so that the cycle counts for cooldown and budget.
    #[must_use]
    pub const fn counts(self) -> bool {
        !matches!(self, Self::NotMoved)
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "record")]
pub enum Record {
    /// A cycle is about to begin.
    Intent(Box<Intent>),
    /// It got this far.
    Phase {
        /// Of which cycle.
        id: u64,
        /// How far.
        phase: PhaseMark,
        /// When.
        at: Stamp,
    },
    /// It ended.
    Closed {
        /// Which cycle.
        id: u64,
        /// How.
        outcome: Outcome,
        /// In words.
        detail: String,
        /// When.
        at: Stamp,
    },
}

/// Lower-case hex of bytes.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").map_or_else(|_| String::new(), |()| text)
    })
}

/// The bytes of a hex text; `None` if it is not one.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// SHA-256 as lower-case hex.
#[must_use]
pub fn sha256_hex(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// The line of a record, newline included.
///
/// # Errors
/// A path that is not UTF-8 has no JSON form.
pub fn encode(record: &Record) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(record)?;
    Ok(format!("{} {json}\n", checksum(&json)))
}

/// The record of a line (without its newline), or what is wrong with the line.
pub(super) fn decode(line: &[u8]) -> Result<Record, String> {
    let line = std::str::from_utf8(line).map_err(|_| "not text".to_owned())?;
    let (sum, json) = line.split_once(' ').ok_or("no checksum")?;
    if sum != checksum(json) {
        return Err("bad checksum".to_owned());
    }
    serde_json::from_str(json).map_err(|error| format!("unknown record: {error}"))
}

fn checksum(json: &str) -> String {
    let mut sum = sha256_hex(json.as_bytes());
    sum.truncate(16);
    sum
}
