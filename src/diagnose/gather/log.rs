//! etcd's own log: the end of the container's, or of its unit's in the journal, counted by what the lines say.
//!
//! ```text
//!   files (the end, 256 KiB) ──► framing (sensor/heartbeat/cri.rs) ──► line ──► class ──► tally
//! ```
//!
//! Invariant: any bytes are read without harm, in bounded time and memory. May be dropped at any await.

mod class;
mod files;
mod line;
mod tally;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::aside::Aside;
use super::container::UNIT;
use crate::diagnose::evidence::{EtcdLog, Seen};
use crate::policy::Policy;
use crate::runtime::{child, clock};
use crate::sensor::heartbeat::cri::Lines;
use files::Piece;
use tally::Tally;

/// For files: a quarter of a megabyte is read in milliseconds, or the disk hangs.
const FILES_TIME: Duration = Duration::from_millis(1500);

/// For the journal, which takes some 50 ms.
const JOURNAL_TIME: Duration = Duration::from_millis(2500);

/// Lines of the journal that are asked for.
const JOURNAL_LINES: &str = "400";

static FILES: Aside = Aside::new("etcd's log");

/// See the module's head.
pub(super) async fn look(policy: &Policy) -> Seen<EtcdLog> {
    let root = policy.watched_loop.log_root.clone();
    let counted = FILES
        .read(FILES_TIME, move || {
            let end = files::end(&root)?;
            Ok(end.map(|(path, pieces)| counted(path, |tally| pieces.iter().for_each(|piece| framed(tally, piece)))))
        })
        .await;
    match counted.unwrap_or_else(Err) {
        Ok(Some(log)) => Seen::Yes(log),
        Ok(None) => {
            let none = format!("there is no log of etcd's container below {}", policy.watched_loop.log_root.display());
            journal().await.unwrap_or_else(|reason| Seen::No(format!("{none}; {reason}")))
        }
        Err(reason) => Seen::No(reason),
    }
}

/// The log of etcd as a unit, where it is no pod.
async fn journal() -> Result<Seen<EtcdLog>, String> {
    let wanted = ["--unit", UNIT, "--output", "cat", "--lines", JOURNAL_LINES, "--no-pager", "--quiet"];
    let bytes_max = usize::try_from(files::BYTES_MAX).unwrap_or(usize::MAX);
    let said = child::answer("journalctl", wanted, JOURNAL_TIME, bytes_max).await?;
    if said.is_empty() {
        return Err(format!("the journal has nothing of {UNIT}"));
    }
    let path = PathBuf::from(format!("journal of {UNIT}"));
    Ok(Seen::Yes(counted(path, |tally| said.split(|byte| *byte == b'\n').for_each(|line| tally.take(line, None)))))
}

fn framed(tally: &mut Tally, piece: &Piece) {
    let mut lines = Lines::default();
    if piece.inside_line {
        lines.reset_inside_line();
    }
    lines.feed(&piece.bytes, |line| {
        let stamp = std::str::from_utf8(line.stamp).ok().and_then(|stamp| stamp.parse().ok());
        tally.take(line.text, stamp);
    });
}

fn counted(path: PathBuf, take: impl FnOnce(&mut Tally)) -> EtcdLog {
    let mut tally = Tally::default();
    take(&mut tally);
    let (last_line_age_ms, lines) = tally.told(now());
    EtcdLog { path, last_line_age_ms, lines }
}

fn now() -> Timestamp {
    let wall = SignedDuration::try_from(clock::wall()).unwrap_or_default();
    Timestamp::from_duration(wall).unwrap_or_default()
}
