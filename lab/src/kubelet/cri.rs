//! The CRI log format: `2026-11-30T01:21:46.60398826Z stderr F + true`.
//! Invariant: a line is never longer than 16384 bytes of content; longer ones are split into parts tagged P, the last one F.

use std::io::Write as _;

use jiff::Timestamp;

/// Where containerd splits a line.
pub const LINE_BYTES_MAX: usize = 16_384;

/// Turns the bytes of one stream into CRI lines.
#[derive(Debug)]
pub struct Framer {
    stream: &'static str,
    pending: Vec<u8>,
}

impl Framer {
    /// A framer for `stdout` or `stderr`.
    #[must_use]
    pub const fn new(stream: &'static str) -> Self {
        Self { stream, pending: Vec::new() }
    }

    /// Take `bytes` that were read at `now`; whole lines and full parts are appended to `out`.
    pub fn push(&mut self, bytes: &[u8], now: Timestamp, out: &mut Vec<u8>) {
        for &byte in bytes {
            if byte == b'\n' {
                self.emit("F", now, out);
                continue;
            }
            if self.pending.len() == LINE_BYTES_MAX {
                self.emit("P", now, out);
            }
            self.pending.push(byte);
        }
    }

    /// The stream has ended: what is left is a whole line.
    pub fn finish(&mut self, now: Timestamp, out: &mut Vec<u8>) {
        if !self.pending.is_empty() {
            self.emit("F", now, out);
        }
    }

    fn emit(&mut self, tag: &str, now: Timestamp, out: &mut Vec<u8>) {
        // Timestamp's own format is RFC 3339 in UTC with the zeros at the fraction's end trimmed. Writing to a Vec cannot fail.
        let _written = write!(out, "{now} {} {tag} ", self.stream);
        out.append(&mut self.pending);
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(chunks: &[&[u8]], nanosecond: i32) -> String {
        let now = Timestamp::new(1_796_001_706, nanosecond).expect("in range");
        let mut framer = Framer::new("stderr");
        let mut out = Vec::new();
        for chunk in chunks {
            framer.push(chunk, now, &mut out);
        }
        framer.finish(now, &mut out);
        String::from_utf8(out).expect("ascii")
    }

    #[test]
    fn a_line_has_time_stream_and_tag_and_zeros_at_the_end_of_the_fraction_are_trimmed() {
        assert_eq!(frame(&[b"+ tr", b"ue\n"], 603_988_260), "2026-11-30T01:21:46.60398826Z stderr F + true\n");
        assert_eq!(frame(&[b"x\n"], 0), "2026-11-30T01:21:46Z stderr F x\n");
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_whole_and_a_longer_one_is_split_into_parts() {
        let whole = frame(&["x".repeat(LINE_BYTES_MAX).as_bytes(), b"\n"], 0);
        assert_eq!(whole.lines().count(), 1);
        let split = frame(&["x".repeat(2 * LINE_BYTES_MAX + 1).as_bytes(), b"\n"], 0);
        let tags: Vec<&str> = split.lines().filter_map(|line| line.split(' ').nth(2)).collect();
        assert_eq!(tags, ["P", "P", "F"]);
        let lengths: Vec<usize> = split.lines().filter_map(|line| line.split(' ').nth(3)).map(str::len).collect();
        assert_eq!(lengths, [LINE_BYTES_MAX, LINE_BYTES_MAX, 1]);
    }

    #[test]
    fn an_unfinished_line_is_written_when_the_stream_ends() {
        assert_eq!(frame(&[b"a\nb"], 0).lines().count(), 2);
    }
}
