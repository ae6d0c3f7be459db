//! Whether a query failed over certificates, and which of them is over. Pure.
//!
//! Only a failure that names TLS makes the files worth a look; what they say then is told beside it, and decides nothing.

use std::path::PathBuf;

use super::curl;
use super::observation::{EtcdFault, EtcdView, HeartbeatView, LoopVerdict, Reading};

/// A certificate on which the local queries rest, and whose time is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// Its file.
    pub path: PathBuf,
    /// Its `notAfter`, RFC 3339 in UTC.
    pub on: String,
}

impl Expired {
    /// As the end of a sentence.
    #[must_use]
    pub fn clause(&self) -> String {
        format!("; the certificate expired on {} ({})", self.on, self.path.display())
    }
}

/// curl's statuses of a handshake that failed, and of a connection that ended under it (curl(1), "EXIT CODES").
const OF_TLS: [u32; 9] = [35, 51, 53, 55, 56, 58, 59, 60, 83];

/// Words of curl and of its TLS libraries that are about certificates.
const WORDS: [&str; 3] = ["certificate", "SSL", "TLS"];

/// Whether the loop's last query, or the watchdog's own, failed over TLS.
#[must_use]
pub fn is_suspected(etcd: &Reading<EtcdView>, heartbeat: &Reading<HeartbeatView>) -> bool {
    is_refused(etcd) || last_query(heartbeat).is_some_and(of_tls)
}

const fn is_refused(etcd: &Reading<EtcdView>) -> bool {
    matches!(etcd, Reading::Fresh { value: EtcdView::Unreachable(EtcdFault::Tls(_)), .. })
}

/// How the loop's last query failed, if it did.
fn last_query(heartbeat: &Reading<HeartbeatView>) -> Option<&str> {
    match &heartbeat.fresh()?.last_beat.as_ref()?.verdict {
        LoopVerdict::QueryFailed(how) => Some(how),
        LoopVerdict::Leader | LoopVerdict::Follower => None,
    }
}

fn of_tls(how: &str) -> bool {
    curl::exit_status(how).is_some_and(|status| OF_TLS.contains(&status)) || WORDS.iter().any(|word| how.contains(word))
}

#[cfg(test)]
mod tests {
    use super::super::time::Moment;
    use super::*;

    #[test]
    fn our_own_refusal_is_enough_and_any_other_fault_of_etcd_is_not() {
        let unread: Reading<HeartbeatView> = Reading::Unknown("no log".to_owned());
        for (fault, suspected) in [
            (EtcdFault::Tls("certificate expired".to_owned()), true),
            (EtcdFault::Refused, false),
            (EtcdFault::TimedOut, false),
            (EtcdFault::Other("certificate".to_owned()), false),
        ] {
            let etcd = Reading::Fresh { value: EtcdView::Unreachable(fault), at: Moment::default() };
            assert_eq!(is_suspected(&etcd, &unread), suspected, "{etcd:?}");
        }
    }

    #[test]
    fn failures_of_tls_are_told_from_others_however_the_trace_shows_them() {
        for how in [
            "curl: (60) SSL certificate problem: certificate has expired",
            "curl exit status 58",
            "no status in the answer, the query returned 56",
            "curl: (35) error:0A000415:SSL routines::sslv3 alert certificate expired",
            "tlsv13 alert certificate required",
        ] {
            assert!(of_tls(how), "{how}");
        }
        for how in ["curl exit status 7", "curl: (28) Operation timed out", "the comparison of the answer returned 5", ""] {
            assert!(!of_tls(how), "{how}");
        }
    }
}
