//! What holds of the parser for any log in any pieces, in both framings.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::parser::{BeatParser, FinishedRound};
use super::tests::round;

/// How a line of the loop comes to stand in the log.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Cri,
    Docker,
}

impl Framing {
    fn record(self, text: &str, is_last: bool) -> String {
        match self {
            Self::Cri => format!("2026-11-30T01:45:28.20718336Z stderr {} {text}\n", if is_last { "F" } else { "P" }),
            Self::Docker => {
                let end = if is_last { "\n" } else { "" };
                format!("{}\n", json!({ "log": format!("{text}{end}"), "stream": "stderr", "time": "2026-11-30T01:45:28Z" }))
            }
        }
    }

    /// Frames the text; a line that is longer than `part` is split.
    fn frame(self, text: &str, part: usize) -> Vec<String> {
        let mut records = Vec::new();
        for mut line in text.lines() {
            while line.len() > part {
                let (head, rest) = line.split_at(part);
                records.push(self.record(head, false));
                line = rest;
            }
            records.push(self.record(line, true));
        }
        records
    }
}

fn framing() -> impl Strategy<Value = Framing> {
    prop_oneof![Just(Framing::Cri), Just(Framing::Docker)]
}

/// Whole lines that are no frame: one begins with a digit or a brace.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..60).prop_map(|mut bytes| {
        bytes.retain(|byte| !byte.is_ascii_digit() && !b"{".contains(byte));
        bytes.push(b'\n');
        bytes
    })
}

/// Rounds, noise, halves of lines and both framings in one log.
fn log() -> impl Strategy<Value = Vec<u8>> {
    let rounds = (0..1000_u64, framing(), 1..400_usize);
    let part = prop_oneof![
        rounds.prop_map(|(revision, framing, part)| framing.frame(&round(revision), part).concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..40),
        noise(),
        Just(b"1 stderr P + conti\n1 stdout P x\n1 stderr F nue\n".to_vec()),
        Just(b"{\"log\":\"+ continue\\n\",\"stream\":\"stderr\"}\n".to_vec()),
        Just(b"{\"log\":\"+ conti\",\"stream\":\"stderr\"}\n{\"log\":".to_vec()),
    ];
    prop::collection::vec(part, 1..12).prop_map(|parts| parts.concat())
}

fn rounds<'log>(pieces: impl IntoIterator<Item = &'log [u8]>) -> Vec<FinishedRound> {
    let mut parser = BeatParser::new();
    let mut found = Vec::new();
    for piece in pieces {
        parser.feed(piece, |round| found.push(round));
    }
    found
}

#[test]
fn what_the_parser_holds_is_counted() {
    let mut parser = BeatParser::new();
    parser.feed(&[b'x'; 4096], |round| panic!("{round:?}"));
    assert!((4096..=512 * 1024).contains(&parser.memory()), "{}", parser.memory());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_split_of_the_input_gives_the_same_rounds(log in log(), cuts in prop::collection::vec(any::<Index>(), 0..30)) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(log.len() + 1)).collect();
        ends.extend([0, log.len()]);
        ends.sort_unstable();
        let whole = rounds([&*log]);
        prop_assert_eq!(rounds(ends.windows(2).map(|pair| &log[pair[0]..pair[1]])), whole.clone());
        prop_assert_eq!(rounds(log.chunks(1)), whole);
    }

    #[test]
    fn the_rounds_are_found_whatever_stands_between_their_lines(
        revisions in prop::collection::vec(0..1000_u64, 0..8),
        framing in framing(),
        part in 1..400_usize,
        noise in prop::collection::vec(noise(), 1..10),
    ) {
        let text: String = revisions.iter().map(|revision| round(*revision)).collect();
        let mut log = Vec::new();
        for (record, noise) in framing.frame(&text, part).iter().zip(noise.iter().cycle()) {
            log.extend_from_slice(noise);
            log.extend_from_slice(record.as_bytes());
        }
        let found: Vec<u64> = rounds([&*log]).iter().filter_map(|round| round.beat.revision).collect();
        prop_assert_eq!(found, revisions);
    }
}
