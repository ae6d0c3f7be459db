//! One line of etcd's log, taken apart: zap's JSON (3.4 to 3.6), capnslog's text (3.3, and 3.4 by default), or what neither wrote (a panic).
//!
//! Invariant: any bytes give a [`Said`], of bounded size. Pure.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::diagnose::evidence::MemberId;

/// Of a line's message and error, this much is looked at: an error of etcd's has some 200 bytes, a panic's trace is not wanted.
const TEXT_BYTES_MAX: usize = 1000;

/// How grave a line is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Debug, info, notice, and lines without a level.
    #[default]
    Info,
    /// Warning.
    Warning,
    /// Error, and whatever ends the process in good order (fatal, critical).
    Error,
    /// A panic.
    Panic,
}

/// What a line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) level: Level,
    /// The message, and after a colon its error.
    pub(super) text: String,
    /// The peer that it is about.
    pub(super) peer: Option<MemberId>,
    /// Whose connection it is about.
    pub(super) remote: Option<IpAddr>,
    /// The alarm that it is about.
    pub(super) alarm: String,
    /// It is about a read: those wait for a quorum, not for a disk.
    pub(super) of_a_read: bool,
    /// etcd's own stamp, where it names its zone.
    pub(super) stamp: Option<Timestamp>,
    /// etcd's own stamp in whatever zone its process has; containers have UTC.
    pub(super) local_stamp: Option<Timestamp>,
}

/// Takes a line apart.
pub(super) fn parse(line: &[u8]) -> Said {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if text.starts_with('{')
        && let Ok(Value::Object(fields)) = serde_json::from_str(text)
    {
        return zap(&fields);
    }
    capnslog(text).unwrap_or_else(|| raw(text))
}

fn zap(fields: &Map<String, Value>) -> Said {
    let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let peer_fields = ["remote-peer-id", "peer-id", "remote-member-id", "remote-peer", "to"];
    let error = field("error");
    let joined = if error.is_empty() { field("msg").to_owned() } else { format!("{}: {error}", field("msg")) };
    Said {
        level: match field("level") {
            "warn" => Level::Warning,
            "error" | "fatal" => Level::Error,
            "panic" | "dpanic" => Level::Panic,
            _ => Level::Info,
        },
        text: cut(&joined),
        peer: peer_fields.iter().find_map(|name| member_id(field(name))),
        remote: field("remote-addr").parse().ok().map(|address: SocketAddr| address.ip()),
        alarm: cut(field("alarm")),
        of_a_read: field("prefix").starts_with("read-only"),
        stamp: fields.get("ts").and_then(zap_stamp),
        local_stamp: None,
    }
}

/// ISO 8601 with a zone, as etcd sets zap up; seconds since the epoch by zap's own default.
fn zap_stamp(stamp: &Value) -> Option<Timestamp> {
    if let Some(text) = stamp.as_str() {
        return text.parse().ok();
    }
    let micros = stamp.as_f64()? * 1e6;
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates, and a stamp out of range is none")]
    Timestamp::from_microsecond(micros as i64).ok()
}

/// `2026-11-30 08:48:45.449979 C | etcdmain: listen tcp …`, or raft's own `raft2026/11/30 08:48:12 INFO: …`.
fn capnslog(text: &str) -> Option<Said> {
    let plain = if let Some(raft) = text.strip_prefix("raft") {
        let mut parts = raft.splitn(4, ' ');
        let (date, time, level, message) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        (format!("{}T{time}Z", date.replace('/', "-")), level.trim_end_matches(':'), message)
    } else {
        let mut parts = text.splitn(5, ' ');
        let (date, time, level) = (parts.next()?, parts.next()?, parts.next()?);
        let message = (parts.next()? == "|").then(|| parts.next())??;
        (format!("{date}T{time}Z"), level, message)
    };
    let (stamp, level, message) = plain;
    let level = match level {
        "W" | "WARN" | "WARNING" => Level::Warning,
        "E" | "C" | "ERROR" | "FATAL" => Level::Error,
        "PANIC" => Level::Panic,
        "I" | "N" | "D" | "T" | "INFO" | "DEBUG" => Level::Info,
        _ => return None,
    };
    // A failed stamp is no reason to lose the line, but without digits in its place it is not capnslog's.
    stamp.starts_with(|first: char| first.is_ascii_digit()).then(|| Said {
        level,
        text: cut(message),
        peer: id_in(message),
        remote: quoted_address(message),
        of_a_read: message.contains("read-only range"),
        local_stamp: stamp.parse().ok(),
        ..Said::default()
    })
}

/// What the runtime of Go prints when a process dies.
fn raw(text: &str) -> Said {
    let dies = text.starts_with("panic: ") || text.starts_with("fatal error: ");
    Said { level: if dies { Level::Panic } else { Level::Info }, text: cut(text), ..Said::default() }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_BYTES_MAX).collect()
}

fn member_id(text: &str) -> Option<MemberId> {
    // A member's id is random: one of less than eight digits is some other word in hexadecimal.
    let is_id = (8..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { u64::from_str_radix(text, 16).ok().map(MemberId) } else { None }
}

/// The id in capnslog's sentences: `peer 8e9e05c52164694d became inactive`, `failed to dial 8e9e05c52164694d on stream`.
fn id_in(message: &str) -> Option<MemberId> {
    let words = message.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut before = "";
    for word in words.filter(|word| !word.is_empty()) {
        if ["peer", "member", "dial", "read", "write", "to"].contains(&before)
            && let Some(id) = member_id(word)
        {
            return Some(id);
        }
        before = word;
    }
    None
}

/// The address in `rejected connection from "192.0.2.7:4242" (…)`.
fn quoted_address(message: &str) -> Option<IpAddr> {
    let address: SocketAddr = message.split('"').nth(1)?.parse().ok()?;
    Some(address.ip())
}
