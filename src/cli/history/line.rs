//! One entry of the journal as one line of the history. Pure.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::audit::text::clip;
use crate::autopsy::Autopsy;
use crate::autopsy::evidence::Process;

/// Longest text of a line, in bytes; the journal has the rest.
const TEXT_BYTES_MAX: usize = 500;

/// What happened, from the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Happened {
    /// When, RFC 3339, UTC, with microseconds.
    pub(super) at: String,
    /// `FIP_EVENT`.
    pub(super) event: String,
    /// `MESSAGE`.
    pub(super) message: String,
    /// `FIP_VERDICT`.
    pub(super) verdict: Option<String>,
    /// `FIP_VERDICT_FROM`.
    pub(super) from: Option<String>,
    /// `FIP_STEP`.
    pub(super) step: Option<String>,
    /// `FIP_REASON`.
    pub(super) reason: Option<String>,
    /// `FIP_DURATION_MS`.
    pub(super) duration_ms: Option<u64>,
    /// `FIP_CAUSE`.
    pub(super) cause: Option<String>,
    /// `FIP_OUTCOME`.
    pub(super) outcome: Option<String>,
    /// `FIP_COMMAND`.
    pub(super) command: Option<String>,
    /// `FIP_AUTOPSY`.
    pub(super) autopsy: Option<u32>,
}

impl Happened {
    /// From a line of `journalctl --output=json`; none if it is no entry of the audit.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let fields: Value = serde_json::from_str(line).ok()?;
        let field = |name: &str| fields.get(name).and_then(text).map(|text| clip(&text, TEXT_BYTES_MAX));
        let at = Timestamp::from_microsecond(field("__REALTIME_TIMESTAMP")?.parse().ok()?).ok()?;
        Some(Self {
            at: format!("{at:.6}"),
            event: field("FIP_EVENT")?,
            message: field("MESSAGE").unwrap_or_default(),
            verdict: field("FIP_VERDICT"),
            from: field("FIP_VERDICT_FROM"),
            step: field("FIP_STEP"),
            reason: field("FIP_REASON"),
            duration_ms: field("FIP_DURATION_MS").and_then(|ms| ms.parse().ok()),
            cause: field("FIP_CAUSE"),
            outcome: field("FIP_OUTCOME"),
            command: field("FIP_COMMAND"),
            autopsy: field("FIP_AUTOPSY").and_then(|number| number.parse().ok()),
        })
    }

    /// One line for a person.
    pub(super) fn line(&self) -> String {
        let text = match (&self.cause, &self.reason, &self.command) {
            (Some(cause), Some(reason), Some(command)) => {
                let number = self.autopsy.map(|number| format!(" {number:04}")).unwrap_or_default();
                format!("{cause}{number}: {reason}; by hand: {command}")
            }
            (Some(cause), None, command) if self.event == "diagnosed" => {
                let next = command.as_ref().map(|command| format!("; next: {command}")).unwrap_or_default();
                format!("{cause}: {}{next}", self.message)
            }
            _no_cause => self.message.clone(),
        };
        format!("{}  {:<8} {text}", seconds(&self.at), self.label())
    }

    /// What it is about: `verdict_changed` is about the verdict.
    fn label(&self) -> &str {
        match self.event.as_str() {
            "hang_autopsied" => "autopsy",
            "diagnosed" => "diagnose",
            "recovered" => "recovery",
            "started" | "stopping" => "daemon",
            event => event.split('_').next().unwrap_or(event),
        }
    }
}

/// A field's text. One with a character that journalctl takes for unprintable (U+FFFE is enough) comes as a list of its bytes.
fn text(field: &Value) -> Option<Cow<'_, str>> {
    match field {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Array(bytes) => {
            let bytes: Option<Vec<u8>> = bytes.iter().map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
            Some(Cow::Owned(String::from_utf8_lossy(&bytes?).into_owned()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// `2026-11-30 05:31:15Z` of a stamp with fractions.
fn seconds(stamp: &str) -> String {
    stamp.get(..19).map_or_else(|| stamp.to_owned(), |whole| format!("{}Z", whole.replacen('T', " ", 1)))
}

fn wall(autopsy: &Autopsy) -> String {
    let stamp = i64::try_from(autopsy.wall_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    stamp.map_or_else(|| "at an unknown time".to_owned(), |stamp| seconds(&format!("{stamp:.3}")))
}

/// A kept autopsy in one line.
pub(super) fn kept(autopsy: &Autopsy) -> String {
    let number = autopsy.number.unwrap_or_default();
    clip(
        &format!("{number:04}  {}  {}: {}", wall(autopsy), autopsy.finding.cause.name(), autopsy.finding.sentence),
        TEXT_BYTES_MAX,
    )
}

/// A kept autopsy with what was seen.
pub(super) fn opened(autopsy: &Autopsy) -> String {
    let (finding, seen) = (&autopsy.finding, &autopsy.evidence);
    let mut lines = vec![
        format!(
            "autopsy {:04}, {}, for {}, seen in {} ms",
            autopsy.number.unwrap_or_default(),
            wall(autopsy),
            autopsy.verdict,
            autopsy.took_ms
        ),
        format!("cause    {}: {}", finding.cause.name(), finding.sentence),
        format!("by hand  {}", finding.command),
    ];
    lines.extend(seen.processes.iter().map(|process| format!("process  {}", told(process))));
    for output in &seen.outputs {
        let pipe =
            output.pipe.as_ref().map(|pipe| format!(", {} of {} bytes wait", pipe.bytes, pipe.capacity)).unwrap_or_default();
        lines.push(format!("output   fd {} is {}{pipe}", output.fd, output.target));
        lines.extend(output.pipe.iter().flat_map(|pipe| &pipe.readers).map(|reader| format!("reader   {}", told(reader))));
    }
    lines.extend(seen.frozen.iter().map(|file| format!("frozen   {file}")));
    lines.extend(seen.disk.iter().map(|disk| {
        format!(
            "disk     {}: {} of {} bytes available, {} of {} inodes",
            disk.path, disk.available_bytes, disk.total_bytes, disk.free_inodes, disk.total_inodes
        )
    }));
    lines.extend(seen.log.iter().map(|log| format!("log      {}, {} bytes, ends with", log.path, log.bytes)));
    lines.extend(seen.log.iter().flat_map(|log| &log.tail).map(|line| format!("         {line}")));
    lines.extend(seen.unread.iter().map(|what| format!("unread   {what}")));
    lines.iter().map(|line| clip(line, TEXT_BYTES_MAX) + "\n").collect()
}

fn told(process: &Process) -> String {
    let call = process.syscall.as_ref().map(|call| {
        let target = call.target.as_ref().map(|target| format!(" on {target}")).unwrap_or_default();
        format!(", in {}{target}", call.name)
    });
    let wchan = process.wchan.as_ref().map(|wchan| format!(" ({wchan})")).unwrap_or_default();
    let command = process.command_line.as_ref().map(|line| format!(": {line}")).unwrap_or_default();
    let age = crate::audit::text::span(std::time::Duration::from_millis(process.age_ms));
    format!("{} state {}, {age} old{}{wchan}{command}", process.title(), process.state, call.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_line_with_its_own_stamp() {
        let line = r#"{"__REALTIME_TIMESTAMP":"1796016675123456","MESSAGE":"verdict healthy, after 3.0s of starting","FIP_EVENT":"verdict_changed","FIP_VERDICT":"healthy"}"#;
        let happened = Happened::parse(line).unwrap();
        assert_eq!(happened.line(), "2026-11-30 05:31:15Z  verdict  verdict healthy, after 3.0s of starting");
        assert_eq!((happened.at.as_str(), happened.verdict.as_deref()), ("2026-11-30T05:31:15.123456Z", Some("healthy")));
    }

    #[test]
    fn an_autopsy_shows_cause_number_and_the_command_by_hand() {
        let line = r#"{"__REALTIME_TIMESTAMP":"1796016675000000","FIP_EVENT":"hang_autopsied","FIP_CAUSE":"stopped","FIP_REASON":"the loop's shell 7 (bash) is stopped","FIP_COMMAND":"grep State /proc/7/status","FIP_AUTOPSY":"0007"}"#;
        let wanted = "2026-11-30 05:31:15Z  autopsy  stopped 0007: the loop's shell 7 (bash) is stopped; by hand: grep State /proc/7/status";
        assert_eq!(Happened::parse(line).unwrap().line(), wanted);
    }

    #[test]
    fn a_diagnosis_shows_the_cause_the_sentence_and_what_to_do_next() {
        let line = r#"{"__REALTIME_TIMESTAMP":"1796016675000000","FIP_EVENT":"diagnosed","FIP_CAUSE":"peer_port_blocked","FIP_OUTCOME":"network","MESSAGE":"2380 does not pass.","FIP_COMMAND":"nc -vz cp2 2380"}"#;
        let happened = Happened::parse(line).unwrap();
        let wanted = "2026-11-30 05:31:15Z  diagnose peer_port_blocked: 2380 does not pass.; next: nc -vz cp2 2380";
        assert_eq!((happened.line().as_str(), happened.outcome.as_deref()), (wanted, Some("network")));
    }

    #[test]
    fn what_is_no_entry_of_the_audit_is_left_out() {
        for line in ["", "-- No entries --", "[]", r#"{"MESSAGE":"x"}"#, r#"{"__REALTIME_TIMESTAMP":"x","FIP_EVENT":"started"}"#]
        {
            assert_eq!(Happened::parse(line), None, "{line}");
        }
        let odd = r#"{"__REALTIME_TIMESTAMP":"1","FIP_EVENT":"started","MESSAGE":["a","b"],"FIP_REASON":[256],"FIP_CAUSE":null}"#;
        let happened = Happened::parse(odd).unwrap();
        assert_eq!((happened.message.as_str(), happened.reason, happened.cause), ("", None, None));
    }

    #[test]
    fn a_text_that_journalctl_takes_for_unprintable_is_shown_all_the_same() {
        // "hi", a character that is none, and an escape, which moves no cursor.
        let line = r#"{"__REALTIME_TIMESTAMP":"1796016675000000","FIP_EVENT":"verdict_changed","MESSAGE":[104,105,239,191,190,27,91,65]}"#;
        assert_eq!(Happened::parse(line).unwrap().line(), "2026-11-30 05:31:15Z  verdict  hi\u{fffe} [A");
    }
}
