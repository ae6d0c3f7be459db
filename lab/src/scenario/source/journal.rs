//! A node's journal: the watchdog's audit, and what etcd says about leadership.
//!
//! Entries carry journald's own monotonic stamp, so that a journal that is read late still tells the right time.

use std::time::Duration;

use serde_json::Value;
use tokio::process::Child;

use super::{Lines, Out};
use crate::scenario::event::{Audit, What};

/// The identifier of the watchdog's entries.
const WATCHDOG: &str = "fip-watchdog";
/// The identifier under which a flush leaves its token.
pub const MARK: &str = "fip-lab-mark";
/// Of a log line, only this much is kept.
const LOG_CHARS_MAX: usize = 300;

/// From the first entry on, for ever, only the fields that are read.
pub const COMMAND: [&str; 12] = [
    "journalctl",
    "--follow",
    "--no-tail",
    "--quiet",
    "--output=json",
    "--output-fields=MESSAGE,SYSLOG_IDENTIFIER,FIP_EVENT,FIP_VERDICT,FIP_VERDICT_FROM,FIP_STEP,FIP_REASON,FIP_DURATION_MS,FIP_CAUSE",
    "--no-pager",
    "SYSLOG_IDENTIFIER=fip-watchdog",
    "+",
    "SYSLOG_IDENTIFIER=fip-lab-mark",
    "+",
    "_SYSTEMD_UNIT=etcd.service",
];

/// Follows the journal until the child ends.
pub async fn follow(child: Child, to: Out) {
    let Some(mut lines) = Lines::of(child) else { return to.lost("the journal has no output".to_owned()).await };
    while let Some(line) = lines.next().await {
        if let Some((at, what)) = entry(line)
            && !to.send(at, what).await
        {
            return;
        }
    }
    to.lost(format!("the journal can no longer be read: {}", lines.complaint().await)).await;
}

/// What one line of `journalctl -o json` says, if it says anything that is looked for.
#[must_use]
pub fn entry(line: &str) -> Option<(Duration, What)> {
    let fields: Value = serde_json::from_str(line).ok()?;
    let field = |name: &str| fields.get(name).and_then(Value::as_str);
    let at = Duration::from_micros(field("__MONOTONIC_TIMESTAMP")?.parse().ok()?);
    let message = field("MESSAGE").unwrap_or_default();
    let what = match field("SYSLOG_IDENTIFIER").unwrap_or_default() {
        MARK => What::JournalRead { token: message.trim().to_owned() },
        WATCHDOG => match field("FIP_EVENT") {
            // A renewal every few seconds is no news.
            Some("lease_renewed") => return None,
            Some(event) => What::Audit(audit(event, message, field)),
            None => What::Log(message.chars().take(LOG_CHARS_MAX).collect()),
        },
        _etcd => raft_change(message)?,
    };
    Some((at, what))
}

fn audit<'a>(event: &str, message: &str, field: impl Fn(&str) -> Option<&'a str>) -> Audit {
    let owned = |name: &str| field(name).filter(|value| !value.is_empty()).map(str::to_owned);
    Audit {
        event: event.to_owned(),
        verdict: owned("FIP_VERDICT"),
        from: owned("FIP_VERDICT_FROM"),
        step: owned("FIP_STEP"),
        reason: owned("FIP_REASON"),
        message: message.to_owned(),
        duration_ms: field("FIP_DURATION_MS").and_then(|ms| ms.parse().ok()),
        cause: owned("FIP_CAUSE"),
    }
}

/// What a line of etcd says about its own leadership; the same words in capnslog and in zap's JSON, 3.4 to 3.6.
///
/// ```text
/// a8c8702f425a7fcb became leader at term 2
/// a8c8702f425a7fcb became follower at term 2
/// raft.node: a8c8702f425a7fcb lost leader a8c8702f425a7fcb at term 2
/// raft.node: a8c8702f425a7fcb changed leader from a8c8702f425a7fcb to 5db00d58c1f0d3c5 at term 3
/// ```
#[must_use]
pub fn raft_change(message: &str) -> Option<What> {
    let words: Vec<&str> = message.split(|c: char| c.is_whitespace() || c == '"').filter(|word| !word.is_empty()).collect();
    words.windows(5).find_map(|five| match five {
        ["became", "leader", "at", "term", term] => Some(What::Leads { term: term.parse().ok()? }),
        ["became", "follower" | "candidate" | "pre-candidate", "at", "term", _] => Some(What::LeadsNoMore),
        [own, "lost", "leader", lost, "at"] if own == lost => Some(What::LeadsNoMore),
        [own, "changed", "leader", "from", from] if own == from => Some(What::LeadsNoMore),
        _other => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leadership_is_read_from_both_of_etcds_log_formats() {
        let leads = Some(What::Leads { term: 196 });
        let zap = r#"{"level":"info","ts":"2026-11-30T01:23:06.687Z","caller":"raft/raft.go:771","msg":"a8c8702f425a7fcb became leader at term 196"}"#;
        assert_eq!(raft_change(zap), leads);
        assert_eq!(raft_change("raft2026/11/30 01:23:06 INFO: a8c8702f425a7fcb became leader at term 196"), leads);
        let lost = r#"{"msg":"raft.node: a8c8702f425a7fcb lost leader a8c8702f425a7fcb at term 2"}"#;
        assert_eq!(raft_change(lost), Some(What::LeadsNoMore));
        assert_eq!(raft_change("raft.node: a8c changed leader from a8c to 5db at term 3"), Some(What::LeadsNoMore));
        assert_eq!(raft_change("INFO: a8c8702f425a7fcb became follower at term 3"), Some(What::LeadsNoMore));
    }

    #[test]
    fn what_etcd_says_about_other_members_is_nothing_about_itself() {
        for line in [
            r#"{"msg":"raft.node: a8c8702f425a7fcb elected leader 5db00d58c1f0d3c5 at term 83"}"#,
            r#"{"msg":"raft.node: a8c8702f425a7fcb lost leader 5db00d58c1f0d3c5 at term 84"}"#,
            "raft.node: a8c changed leader from 5db to a8c at term 3",
            r#"{"msg":"waiting for ReadIndex response took too long, retrying"}"#,
            "",
        ] {
            assert_eq!(raft_change(line), None, "{line}");
        }
    }

    #[test]
    fn an_audit_entry_keeps_its_fields_and_its_own_stamp() {
        let line = r#"{"__MONOTONIC_TIMESTAMP":"1500000","SYSLOG_IDENTIFIER":"fip-watchdog","MESSAGE":"m","FIP_EVENT":"step_succeeded","FIP_STEP":"apply_alias","FIP_DURATION_MS":"12"}"#;
        let (at, what) = entry(line).unwrap();
        assert_eq!(at, Duration::from_millis(1500));
        let What::Audit(audit) = what else { panic!("{what:?}") };
        assert_eq!(
            (audit.event.as_str(), audit.step.as_deref(), audit.duration_ms),
            ("step_succeeded", Some("apply_alias"), Some(12))
        );
    }

    #[test]
    fn lines_that_are_not_looked_for_are_nothing() {
        for line in [
            "",
            "not json",
            "[]",
            r#"{"MESSAGE":"no stamp","SYSLOG_IDENTIFIER":"fip-watchdog"}"#,
            r#"{"__MONOTONIC_TIMESTAMP":"x","SYSLOG_IDENTIFIER":"fip-watchdog"}"#,
            r#"{"__MONOTONIC_TIMESTAMP":"1","SYSLOG_IDENTIFIER":"etcd","MESSAGE":[1,2]}"#,
            r#"{"__MONOTONIC_TIMESTAMP":"1","SYSLOG_IDENTIFIER":"fip-watchdog","FIP_EVENT":"lease_renewed"}"#,
        ] {
            assert_eq!(entry(line), None, "{line}");
        }
        let log = r#"{"__MONOTONIC_TIMESTAMP":"1","SYSLOG_IDENTIFIER":"fip-watchdog","MESSAGE":"hello"}"#;
        assert_eq!(entry(log).unwrap().1, What::Log("hello".to_owned()));
    }
}
