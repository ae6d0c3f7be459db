//! What must hold of the heartbeat parser for any bytes in any pieces. The fuzz target searches for an input that breaks it,
//! and `tests/beat_corpus.rs` tries those again that earlier searches kept.
//!
//! An input is one byte with the number of cuts, two bytes for each of them, and a container's log.

use fip_watchdog::sensor::heartbeat::{BeatParser, FinishedRound};

/// Bytes that the parser may hold, whatever it was fed.
const MEMORY_MAX: usize = 512 * 1024;

/// Panics if the parser's rounds depend on how the log is cut, or if it holds too much. Returns the rounds.
pub fn check(input: &[u8]) -> Vec<FinishedRound> {
    let (cuts, log) = parts(input);
    let whole = rounds([log]);
    assert_eq!(rounds(pieces(log, &cuts)), whole, "cut at {cuts:?}");
    assert_eq!(rounds(log.chunks(1)), whole, "cut at each byte");
    whole
}

fn parts(input: &[u8]) -> (Vec<usize>, &[u8]) {
    let Some((count, rest)) = input.split_first() else { return (Vec::new(), input) };
    let (cuts, log) = rest.split_at((usize::from(*count) % 32 * 2).min(rest.len()));
    let at = |pair: &[u8]| pair.iter().fold(0, |at, byte| at << 8 | usize::from(*byte)) % (log.len() + 1);
    let mut cuts: Vec<usize> = cuts.chunks(2).map(at).collect();
    cuts.sort_unstable();
    (cuts, log)
}

fn pieces<'log>(log: &'log [u8], cuts: &[usize]) -> Vec<&'log [u8]> {
    let ends = cuts.iter().copied().chain([log.len()]);
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    starts.zip(ends).map(|(start, end)| &log[start..end]).collect()
}

fn rounds<'log>(pieces: impl IntoIterator<Item = &'log [u8]>) -> Vec<FinishedRound> {
    let mut parser = BeatParser::new();
    // A parser that was cut off is as good as new.
    parser.feed(b"2026-11-30T01:45:28Z stderr P ++ curl /maintenance/status", |round| panic!("{round:?}"));
    parser.cut(false);
    let mut found = Vec::new();
    for piece in pieces {
        parser.feed(piece, |round| found.push(round));
        assert!(parser.memory() <= MEMORY_MAX, "{} bytes", parser.memory());
    }
    found
}
