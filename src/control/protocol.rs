//! The protocol of the control socket: one JSON line asks, one JSON line answers, then the connection ends.
//!
//! ```text
//! > {"version":1,"command":"pause","reason":"etcd upgrade","for":"30m"}
//! < {"version":1,"response":"paused","for_ms":1800000}
//! ```
//!
//! Invariant: [`parse`] is total: it answers any bytes with a request that is within its bounds, or with
//! a refusal. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::report::StatusReport;

/// Version of requests and responses. A field that is added does not raise it.
pub const PROTOCOL_VERSION: u32 = 1;

/// Longest request. A pause with the longest reason has under 2 KiB; the rest is room to grow.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Longest reason of a pause, in bytes: it is shown on one line and repeated in every journal entry.
pub const PAUSE_REASON_BYTES_MAX: usize = 256;

/// Shortest pause; a shorter one would be over before the next round.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause: a forgotten one must not leave a node unwatched for longer than a day.
pub const PAUSE_MAX: Duration = Duration::from_secs(24 * 3600);

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub enum Request {
    /// What is seen and judged.
    Status,
    /// The same, for a reader who wants to know what would be done and what is waited for.
    Explain,
    /// Judge nothing and do nothing for a while.
    Pause {
        /// Why, in the operator's words.
        reason: String,
        /// For how long, `90s`, `30m`, `1h 30m`.
        #[serde(rename = "for", with = "span")]
        length: Duration,
    },
    /// End a pause.
    Resume,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "response")]
pub enum Response {
    /// To `status`.
    Status(Box<StatusReport>),
    /// To `explain`.
    Explain(Box<StatusReport>),
    /// To `pause`.
    Paused {
        /// How long it lasts from now.
        for_ms: u64,
    },
    /// To `resume`.
    Resumed {
        /// Whether a pause was in force.
        was_paused: bool,
    },
    /// The request was not carried out.
    Refused {
        /// For a script.
        code: RefusalCode,
        /// For a person.
        reason: String,
    },
}

/// Why a request was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// It could not be understood, or a value is out of its bounds.
    BadRequest,
    /// It speaks another version of the protocol.
    BadVersion,
    /// The peer is neither root nor the daemon's own user.
    NotPermitted,
    /// The decision loop did not take it, or did not answer in time.
    Busy,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    #[serde(default = "first_version")]
    version: u32,
    #[serde(flatten)]
    body: T,
}

/// Without a version a request is taken for the first one, so that a person can type one.
const fn first_version() -> u32 {
    1
}

/// A request line, with its line feed.
///
/// # Errors
/// When a value cannot be written as JSON, which no request can cause.
pub fn encode_request(request: &Request) -> serde_json::Result<String> {
    encode(request)
}

/// A response line, with its line feed.
///
/// # Errors
/// When a value cannot be written as JSON, which no response can cause.
pub fn encode_response(response: &Response) -> serde_json::Result<String> {
    encode(response)
}

fn encode<T: Serialize>(body: &T) -> serde_json::Result<String> {
    serde_json::to_string(&Versioned { version: PROTOCOL_VERSION, body }).map(|json| json + "\n")
}

/// Reads a response line.
///
/// # Errors
/// When it is no response of this version, as a sentence.
pub fn parse_response(line: &[u8]) -> Result<Response, String> {
    check_version(line)?;
    serde_json::from_slice::<Versioned<Response>>(line).map(|versioned| versioned.body).map_err(|error| error.to_string())
}

/// Reads a request line.
///
/// # Errors
/// The refusal that answers it.
pub fn parse(line: &[u8]) -> Result<Request, Response> {
    let refused = |code, reason| Response::Refused { code, reason };
    if line.len() > REQUEST_BYTES_MAX {
        return Err(refused(RefusalCode::BadRequest, format!("request is longer than {REQUEST_BYTES_MAX} bytes")));
    }
    check_version(line).map_err(|reason| refused(RefusalCode::BadVersion, reason))?;
    let request = serde_json::from_slice::<Versioned<Request>>(line)
        .map_err(|error| refused(RefusalCode::BadRequest, format!("request is not understood: {error}")))?
        .body;
    check(&request).map_err(|reason| refused(RefusalCode::BadRequest, reason))?;
    Ok(request)
}

/// Another version is named before anything else is read: its fields may mean something else.
fn check_version(line: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Version {
        #[serde(default = "first_version")]
        version: u32,
    }
    match serde_json::from_slice::<Version>(line) {
        Ok(Version { version }) if version != PROTOCOL_VERSION => {
            Err(format!("protocol version {version} is not spoken here, only {PROTOCOL_VERSION}"))
        }
        // What is no JSON at all is named by the reader of the whole.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether a request is within its bounds; the client asks too, for a better message before the daemon does.
///
/// # Errors
/// What is out of bounds, as a sentence.
pub fn check(request: &Request) -> Result<(), String> {
    match request {
        Request::Status | Request::Explain | Request::Resume => Ok(()),
        Request::Pause { reason, length } => {
            if reason.trim().is_empty() {
                Err("reason of a pause is empty".to_owned())
            } else if reason.len() > PAUSE_REASON_BYTES_MAX {
                Err(format!("reason of a pause is longer than {PAUSE_REASON_BYTES_MAX} bytes"))
            } else if reason.chars().any(char::is_control) {
                Err("reason of a pause has control characters".to_owned())
            } else if (PAUSE_MIN..=PAUSE_MAX).contains(length) {
                Ok(())
            } else {
                Err(format!("length of a pause is {}, not between 1s and 24h", humantime::format_duration(*length)))
            }
        }
    }
}

mod span {
    //! A span of time as people write it.

    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*span))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map_err(|error| de::Error::custom(format_args!("{text:?} is no span of time: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pause(reason: &str, seconds: u64) -> Request {
        Request::Pause { reason: reason.to_owned(), length: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_request_that_a_person_types_needs_no_version() {
        assert_eq!(parse(br#"{"command":"status"}"#), Ok(Request::Status));
        assert_eq!(parse(br#"{"command":"pause","reason":"upgrade","for":"30m"}"#), Ok(pause("upgrade", 1800)));
    }

    #[test]
    fn another_version_is_refused_by_its_number() {
        let refused = parse(br#"{"version":2,"command":"status"}"#).unwrap_err();
        let Response::Refused { code: RefusalCode::BadVersion, reason } = refused else { panic!("{refused:?}") };
        assert_eq!(reason, "protocol version 2 is not spoken here, only 1");
    }

    #[test]
    fn a_pause_out_of_bounds_is_refused() {
        for request in
            [pause("", 60), pause(" ", 60), pause("a\nb", 60), pause("x", 0), pause("x", 86_401), pause(&"x".repeat(257), 60)]
        {
            let line = encode_request(&request).unwrap();
            assert!(matches!(parse(line.as_bytes()), Err(Response::Refused { code: RefusalCode::BadRequest, .. })), "{line}");
        }
    }

    #[test]
    fn a_request_too_long_is_refused_unread() {
        assert!(parse(&vec![b' '; REQUEST_BYTES_MAX + 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            drop(parse(&bytes));
            drop(parse_response(&bytes));
        }

        #[test]
        fn anything_like_a_request_gets_an_answer(
            command in "status|explain|pause|resume|[a-z]{0,8}",
            reason in ".{0,40}",
            length in "[0-9]{0,25}(s|m|h|d|w|y|ms|parsec)?( [0-9]{1,20}h)?",
            version in any::<i64>(),
        ) {
            let line = serde_json::json!({ "version": version, "command": command, "reason": reason, "for": length }).to_string();
            if let Ok(request) = parse(line.as_bytes()) {
                prop_assert!(check(&request).is_ok());
            }
        }

        #[test]
        fn a_request_survives_the_wire(reason in "[a-z]{1,200}", milliseconds in 1_000_u64..86_400_000) {
            let request = Request::Pause { reason, length: Duration::from_millis(milliseconds) };
            prop_assert_eq!(parse(encode_request(&request).unwrap().as_bytes()), Ok(request));
        }
    }
}
