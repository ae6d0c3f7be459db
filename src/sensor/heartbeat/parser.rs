//! From a container log's bytes to the loop's finished rounds: framing (`cri`) and grammar (`trace`) in one.
//!
//! Invariant: how the bytes are cut into calls changes nothing, whatever they are, and memory is bounded. Public for
//! the benchmark (`benches/`), the fuzz target (`fuzz/`) and the replay of its corpus. Pure; cancelling is not a question.

use jiff::Timestamp;

use super::cri::Lines;
use super::trace::Trace;
use crate::decision::observation::Beat;

/// Reads the loop's rounds out of its container's log, in CRI or docker framing.
#[derive(Debug, Default)]
pub struct BeatParser {
    lines: Lines,
    trace: Trace,
}

/// A round that the loop finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRound {
    /// What it concluded and did.
    pub beat: Beat,
    /// The container runtime's stamp of the line that ended it, where there is one. Wall-clock time: it orders what was
    /// written to one log, and no age may be made from it.
    pub stamp: Option<Timestamp>,
}

impl BeatParser {
    /// A parser at the beginning of a log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the log, and hands over each round that ends in them.
    pub fn feed(&mut self, bytes: &[u8], mut on_round: impl FnMut(FinishedRound)) {
        let Self { lines, trace } = self;
        lines.feed(bytes, |line| {
            if let Some(beat) = trace.line(line.text) {
                on_round(FinishedRound { beat, stamp: stamp_of(line.stamp) });
            }
        });
    }

    /// Bytes were lost: forgets the line and the round that were under way. `inside_line`: what comes next starts in
    /// the middle of a line, which is dropped.
    pub fn cut(&mut self, inside_line: bool) {
        self.trace.reset();
        if inside_line {
            self.lines.reset_inside_line();
        } else {
            self.lines.reset();
        }
    }

    /// Bytes that the parser's buffers take up: 512 KiB at most.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.lines.memory()
    }
}

/// RFC 3339 with up to nine digits of a fraction, as containerd and docker write it.
fn stamp_of(bytes: &[u8]) -> Option<Timestamp> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
