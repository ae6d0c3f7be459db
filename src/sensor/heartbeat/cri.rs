//! From a container's log file to the lines that the container wrote.
//!
//! Two framings exist on the nodes: the CRI format of containerd (`<time> <stream> <P|F> <text>`, long lines in
//! `P` parts) and docker's json-file (one JSON object a line; a part is a `log` that does not end in a newline).
//! Each stream is joined on its own, because a part of one may stand between two parts of the other.
//!
//! Invariant: memory is bounded whatever comes. A line keeps its first [`LINE_MAX`] bytes, the rest of it is
//! dropped. Bytes that fit neither framing are dropped. How the input is cut into calls never changes the lines.
//! Pure, so cancelling is not a question here.

use std::borrow::Cow;

use memchr::memchr;
use serde::Deserialize;

/// Longest physical line that is kept. docker splits at 16 KiB of text, which JSON escapes can make six times as
/// long; CRI parts are 16 KiB and a header.
const RAW_MAX: usize = 128 * 1024;

/// Longest joined line that is kept: the loop's longest trace is one status answer, under 2 KiB.
const LINE_MAX: usize = 64 * 1024;

/// Turns a container log's bytes into the container's own lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The physical line that has not ended yet.
    raw: Vec<u8>,
    /// Skip everything up to the next newline: the input began inside a line.
    skipping: bool,
    parts: Parts,
}

/// The lines of each stream that have not ended yet.
#[derive(Debug, Default)]
struct Parts {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// A line that the container wrote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'bytes> {
    /// The runtime's stamp, as it stands in the log.
    pub(crate) stamp: &'bytes [u8],
    /// Without its newline.
    pub(crate) text: &'bytes [u8],
}

/// A line, or a part of one.
struct Record<'bytes> {
    stream: Stream,
    is_last: bool,
    line: Line<'bytes>,
}

#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

/// One record of docker's json-file driver.
#[derive(Deserialize)]
struct DockerRecord<'raw> {
    #[serde(borrow)]
    log: Cow<'raw, str>,
    #[serde(borrow)]
    stream: Cow<'raw, str>,
    #[serde(borrow, default)]
    time: Cow<'raw, str>,
}

impl Lines {
    /// Forgets all parts. What comes next begins a line.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Forgets all parts, and drops what comes up to the next newline.
    pub(crate) fn reset_inside_line(&mut self) {
        *self = Self { skipping: true, ..Self::default() };
    }

    /// Takes the next bytes of the file and hands each finished line to `on_line`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut on_line: impl FnMut(Line<'_>)) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (head, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.raw.is_empty() {
                // Nearly all lines stand in one read: no copy is made of them.
                self.parts.physical_line(up_to(head, RAW_MAX), &mut on_line);
            } else {
                append(&mut self.raw, head, RAW_MAX);
                self.parts.physical_line(&self.raw, &mut on_line);
                self.raw.clear();
            }
        }
        if !self.skipping {
            append(&mut self.raw, bytes, RAW_MAX);
        }
    }

    /// Bytes that the buffers take up.
    pub(crate) fn memory(&self) -> usize {
        self.raw.capacity() + self.parts.stdout.capacity() + self.parts.stderr.capacity()
    }
}

impl Parts {
    fn physical_line(&mut self, raw: &[u8], on_line: &mut impl FnMut(Line<'_>)) {
        if raw.first() == Some(&b'{') {
            // docker writes UTF-8; a record that was cut or damaged is dropped with the error.
            let text = String::from_utf8_lossy(raw);
            let Ok(DockerRecord { log, stream, time }) = serde_json::from_str(&text) else { return };
            let Some(stream) = stream_of(stream.as_bytes()) else { return };
            let (text, is_last) = log.strip_suffix('\n').map_or((&*log, false), |text| (text, true));
            self.take(&Record { stream, is_last, line: Line { stamp: time.as_bytes(), text: text.as_bytes() } }, on_line);
        } else if let Some(record) = split_cri(raw) {
            self.take(&record, on_line);
        }
    }

    fn take(&mut self, record: &Record<'_>, on_line: &mut impl FnMut(Line<'_>)) {
        let joined = match record.stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let Line { stamp, text } = record.line;
        if record.is_last && joined.is_empty() {
            on_line(Line { stamp, text: without_return(up_to(text, LINE_MAX)) });
            return;
        }
        append(joined, text, LINE_MAX);
        if record.is_last {
            on_line(Line { stamp, text: without_return(joined) });
            joined.clear();
        }
    }
}

fn up_to(bytes: &[u8], max: usize) -> &[u8] {
    bytes.get(..max).unwrap_or(bytes)
}

fn without_return(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r").unwrap_or(text)
}

/// Appends what fits under `max`.
fn append(buffer: &mut Vec<u8>, bytes: &[u8], max: usize) {
    let room = max.saturating_sub(buffer.len()).min(bytes.len());
    buffer.extend_from_slice(bytes.get(..room).unwrap_or_default());
}

fn stream_of(name: &[u8]) -> Option<Stream> {
    match name {
        b"stdout" => Some(Stream::Stdout),
        b"stderr" => Some(Stream::Stderr),
        _ => None,
    }
}

/// `<time> <stream> <tags> <text>`; tags are separated by colons and the first one is `P` or `F`.
fn split_cri(raw: &[u8]) -> Option<Record<'_>> {
    let mut fields = raw.splitn(4, |byte| *byte == b' ');
    let stamp = fields.next()?;
    if !stamp.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let stream = stream_of(fields.next()?)?;
    let is_last = match fields.next()?.split(|byte| *byte == b':').next()? {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    Some(Record { stream, is_last, line: Line { stamp, text: fields.next().unwrap_or_default() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(input: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        Lines::default().feed(input, |line| found.push(String::from_utf8_lossy(line.text).into_owned()));
        found
    }

    #[test]
    fn a_cri_line_gives_its_text() {
        assert_eq!(lines_of(b"2026-11-30T01:45:28.20718336Z stderr F + N=104\n"), ["+ N=104"]);
        assert_eq!(lines_of(b"2026-11-30T01:45:28Z stdout F \n2026-11-30T01:45:28Z stdout F\n"), ["", ""]);
    }

    #[test]
    fn parts_are_joined_per_stream() {
        let log = b"1 stderr P + ret\n1 stdout P Is the current\n1 stderr F urn 4\n1 stdout F  leader!\n";
        assert_eq!(lines_of(log), ["+ return 4", "Is the current leader!"]);
    }

    #[test]
    fn docker_records_are_joined_until_the_newline() {
        let log = br#"{"log":"+ ret","stream":"stderr","time":"2026-11-30T01:45:28Z"}
{"log":"urn 4\n","stream":"stderr","time":"2026-11-30T01:45:28Z"}
{"log":"{\"a\":\"b\"}\n","stream":"stdout","time":"x"}
{"log":"cut
"#;
        assert_eq!(lines_of(log), ["+ return 4", r#"{"a":"b"}"#]);
    }

    #[test]
    fn the_longest_records_that_a_runtime_writes_are_kept_whole() {
        let part = "x".repeat(16 * 1024);
        let log = format!("1 stderr P {part}\n").repeat(3) + &format!("1 stderr F {part}\n");
        assert_eq!(lines_of(log.as_bytes()), [part.repeat(4)]);
        let escaped = "\u{1}".repeat(16 * 1024 - 1);
        let log = serde_json::json!({ "log": format!("{escaped}\n"), "stream": "stderr", "time": "t" }).to_string() + "\n";
        assert_eq!(lines_of(log.as_bytes()), [escaped]);
    }

    #[test]
    fn bytes_that_are_no_text_and_no_frame_are_survived() {
        let log = b"\0\0\0\xff\n\n1 stderr F \xff\xfe\n1 nowhere F x\n1 stderr Q x\nnoise stderr F x\n1 stderr F:tag y\n";
        assert_eq!(lines_of(log), ["\u{fffd}\u{fffd}", "y"]);
    }

    #[test]
    fn input_that_begins_inside_a_line_starts_with_the_next_one() {
        let mut lines = Lines::default();
        lines.reset_inside_line();
        let mut found = 0;
        // What is left of the line may well look like one.
        for piece in [&b"1 stderr F + FIP=1"[..], b"\n1 stderr F a\n"] {
            lines.feed(piece, |line| {
                assert_eq!(line.text, b"a");
                found += 1;
            });
        }
        assert_eq!(found, 1);
    }

    #[test]
    fn what_was_under_way_before_a_loss_is_forgotten() {
        let mut lines = Lines::default();
        lines.feed(b"1 stderr P + ret\n1 stdout P out\n1 std", |line| panic!("{line:?}"));
        lines.reset();
        let mut found = Vec::new();
        lines.feed(b"1 stderr F a\n1 stdout F b\n", |line| found.push(line.text.to_vec()));
        assert_eq!(found, [b"a", b"b"]);
    }

    #[test]
    fn all_buffers_count_as_memory() {
        let mut lines = Lines::default();
        assert_eq!(lines.memory(), 0);
        for stream in ["stdout", "stderr"] {
            lines.feed(format!("1 {stream} P {}\n", "x".repeat(LINE_MAX)).as_bytes(), |line| panic!("{line:?}"));
        }
        lines.feed(&[b'x'; RAW_MAX], |line| panic!("{line:?}"));
        assert!(lines.memory() >= RAW_MAX + 2 * LINE_MAX && lines.memory() <= 512 * 1024, "{}", lines.memory());
    }

    #[test]
    fn a_line_of_100_megabytes_stays_in_bounded_memory() {
        let chunk = vec![b'x'; 64 * 1024];
        let mut lines = Lines::default();
        let mut longest = 0;
        // One physical line of 100 MB, then a joined line of 100 MB in parts.
        lines.feed(b"1 stderr F ", |_| ());
        for _ in 0..1600 {
            lines.feed(&chunk, |_| panic!("the line has not ended"));
            assert!(lines.memory() <= 512 * 1024, "{}", lines.memory());
        }
        lines.feed(b"\n", |line| longest = line.text.len());
        for _ in 0..6400 {
            lines.feed(b"1 stderr P ", |_| ());
            lines.feed(&chunk[..16 * 1024], |_| ());
            lines.feed(b"\n", |_| panic!("the line has not ended"));
            assert!(lines.memory() <= 512 * 1024, "{}", lines.memory());
        }
        lines.feed(b"1 stderr F \n1 stderr F + continue\n", |line| longest = longest.max(line.text.len()));
        assert_eq!(longest, LINE_MAX);
        lines.feed(b"1 stderr F + continue\n", |line| assert_eq!(line.text, b"+ continue"));
    }
}
