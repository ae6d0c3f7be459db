//! What the loop's curl says when its query fails, in plain words. Pure.
//!
//! The trace shows either curl's own sentence (`curl: (60) …`), or its exit status in the test or the `return` that follows it.
//! Meanings: curl(1), section "EXIT CODES"; what they most often come from on such a node is added.

/// curl's words with what they mean: `no status in the answer, the query returned 60: the server's certificate …`.
#[must_use]
pub fn explain(detail: &str) -> String {
    match exit_status(detail).and_then(meaning) {
        Some(meaning) => format!("{detail}, which means that {meaning}"),
        None => detail.to_owned(),
    }
}

/// The exit status of curl in what the trace showed; `None` where there is none, or where it may be another program's.
#[must_use]
pub fn exit_status(detail: &str) -> Option<u32> {
    let number_after = |words: &str| {
        let (_, rest) = detail.split_once(words)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse::<u32>().ok()
    };
    let of_curl = number_after("curl: (").or_else(|| number_after("curl exit status "));
    // Up to 5 it may be the status of jq, which reads curl's answer (jq(1), "--exit-status").
    of_curl.or_else(|| number_after("the query returned ").filter(|status| *status > 5))
}

/// What an exit status means; `None` for those that no loop on such a node gives.
const fn meaning(status: u32) -> Option<&'static str> {
    Some(match status {
        6 => "the name of the server cannot be resolved",
        7 => "nothing accepts the connection",
        16 | 92 => "the HTTP/2 framing broke",
        22 => "the server answered with an error",
        28 => "no answer came within its time-out",
        35 => "the TLS handshake failed (client certificate refused, or no common version)",
        51 => "the server's certificate is not for the address that was asked",
        52 => "the server closed the connection without an answer",
        55 => "the connection broke while it was asking",
        56 => "the connection broke before an answer came (with TLS 1.3 also: its client certificate is refused, expired?)",
        58 => "its own client certificate or key cannot be used",
        59 => "no cipher is left that both sides accept",
        60 => "the server's certificate is not accepted (expired, or of another CA?)",
        77 => "the CA certificate cannot be read",
        83 => "the server's certificate is of another issuer",
        90 => "the server's public key is not the pinned one",
        126 => "curl cannot be executed",
        127 => "there is no curl",
        130 | 137 | 143 => "curl was ended by a signal",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_is_found_however_the_trace_shows_it() {
        for (detail, status) in [
            ("curl exit status 7", 7),
            ("curl: (60) SSL certificate problem: certificate has expired", 60),
            ("no status in the answer, the query returned 28", 28),
        ] {
            assert_eq!(exit_status(detail), Some(status), "{detail}");
        }
    }

    #[test]
    fn a_status_that_may_be_jqs_is_not_taken_for_curls() {
        for detail in ["no status in the answer, the query returned 4", "the comparison of the answer returned 5", ""] {
            assert_eq!(explain(detail), detail);
        }
    }

    #[test]
    fn known_statuses_are_put_into_words_and_others_are_left_alone() {
        assert_eq!(
            explain("curl exit status 60"),
            "curl exit status 60, which means that the server's certificate is not accepted (expired, or of another CA?)"
        );
        assert_eq!(explain("curl exit status 99"), "curl exit status 99");
        for status in [6, 7, 28, 35, 51, 52, 56, 58, 60, 77] {
            assert!(meaning(status).is_some(), "{status}");
        }
    }
}
