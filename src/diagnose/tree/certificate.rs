//! What is wrong with a certificate: by the file where it can be read, else by what TLS says.
//!
//! Files come first: they say what is wrong, where a peer's alert only says that something is.

use super::reach::{Kind, Reach};
use super::sight::{Etcd, Quorum, Sight};
use super::words;
use crate::diagnose::diagnosis::Cause;
use crate::diagnose::evidence::{Certificate, CertificateFile, LogClass, LogLine};

/// A clock that is off by more than this explains a certificate's dates, in milliseconds.
const SKEW_MS: i64 = 10_000;

/// Where a fault showed.
#[derive(Debug)]
pub(super) enum Place<'a, 'e> {
    /// In a file of this node.
    File(&'e CertificateFile, &'e Certificate),
    /// In the handshake of this watchdog with the local etcd.
    Own(&'e str),
    /// In the handshake with a peer.
    Peer(&'a Reach<'e>, &'e str),
    /// In a line of etcd's log.
    Log(&'e LogLine),
}

/// A fault, and where it showed.
#[derive(Debug)]
pub(super) struct Fault<'a, 'e> {
    pub cause: Cause,
    pub place: Place<'a, 'e>,
}

/// The first fault that is to be seen.
pub(super) fn fault<'a, 'e>(sight: &'a Sight<'e>) -> Option<Fault<'a, 'e>> {
    in_files(sight).or_else(|| in_talk(sight))
}

/// What is wrong with a certificate by itself, at this time.
pub(super) fn of_file(file: &CertificateFile, content: &Certificate, now_s: i64) -> Option<Cause> {
    let server = matches!(file.role.as_str(), "server" | "peer");
    let client = matches!(file.role.as_str(), "client" | "peer");
    if content.key_matches == Some(false) {
        Some(Cause::CertificateKeyMismatch)
    } else if content.not_after <= now_s {
        Some(Cause::CertificateExpired)
    } else if content.not_before > now_s {
        Some(Cause::CertificateNotYetValid)
    } else if content.signed_by_ca == Some(false) {
        Some(Cause::CertificateWrongCa)
    } else if content.names_own_address == Some(false) && server {
        Some(Cause::CertificateWrongName)
    } else if (server && !content.server_use) || (client && !content.client_use) {
        Some(Cause::CertificateWrongUsage)
    } else {
        None
    }
}

/// Whether a fault in a file is one that matters now: a date and a key always do; a name, a CA or a use only where TLS fails, since a
/// certificate may be good enough for who calls.
pub(super) fn counts(sight: &Sight<'_>, cause: Cause) -> bool {
    let always = [Cause::CertificateKeyMismatch, Cause::CertificateExpired, Cause::CertificateNotYetValid];
    let tls_fails =
        matches!(sight.etcd, Etcd::Tls(_)) || sight.reaches.iter().any(|reach| matches!(reach.kind, Kind::Tls | Kind::InFails));
    let says_so = [LogClass::PeerTls, LogClass::ClientTls].iter().any(|class| sight.recent(*class).is_some());
    let unexplained = sight.quorum == Quorum::No && sight.reaches.iter().all(|reach| reach.kind == Kind::Fine);
    let ended = sight.down() || sight.crash_loops();
    always.contains(&cause) || tls_fails || (says_so && sight.quorum != Quorum::Yes) || unexplained || ended
}

/// Now, in seconds since the Unix epoch.
pub(super) fn now_s(sight: &Sight<'_>) -> i64 {
    i64::try_from(sight.evidence.wall_ms / 1000).unwrap_or(i64::MAX)
}

fn in_files<'a, 'e>(sight: &'a Sight<'e>) -> Option<Fault<'a, 'e>> {
    let now_s = now_s(sight);
    let mut faults: Vec<_> = sight
        .evidence
        .certificates
        .yes()?
        .iter()
        .filter_map(|file| {
            let content = file.content.yes()?;
            Some((of_file(file, content, now_s).filter(|cause| counts(sight, *cause))?, file, content))
        })
        .collect();
    let rank =
        |file: &CertificateFile| ["peer", "server", "client"].iter().position(|role| file.role == *role).unwrap_or(usize::MAX);
    faults.sort_by_key(|(cause, file, _)| (*cause, rank(file)));
    let (cause, file, content) = *faults.first()?;
    let cause = if explained_by_clock(sight, cause, content) { Cause::ClockSkew } else { cause };
    Some(Fault { cause, place: Place::File(file, content) })
}

/// By the peers' clocks the certificate would be valid: the clock is at fault, not the certificate.
fn explained_by_clock(sight: &Sight<'_>, cause: Cause, content: &Certificate) -> bool {
    let dated = matches!(cause, Cause::CertificateExpired | Cause::CertificateNotYetValid);
    let now = now_s(sight);
    let offsets =
        sight.reaches.iter().filter_map(Reach::clock_offset_ms).filter(|offset| dated && offset.saturating_abs() >= SKEW_MS);
    let mut valid_there =
        offsets.map(|offset| (content.not_before..content.not_after).contains(&now.saturating_add(offset / 1000)));
    valid_there.next().is_some_and(|first| first) && valid_there.all(|valid| valid)
}

fn in_talk<'a, 'e>(sight: &'a Sight<'e>) -> Option<Fault<'a, 'e>> {
    let by_text = |text: &str, otherwise| of_text(text).unwrap_or(otherwise);
    if let Etcd::Tls(text) = sight.etcd {
        return Some(Fault { cause: by_text(text, Cause::OwnTls), place: Place::Own(text) });
    }
    if let Some(line) = sight.last_words(LogClass::CertificateLoad) {
        let cause = of_text(&line.example)?;
        return Some(Fault { cause, place: Place::Log(line) });
    }
    if let Some(reach) = sight.reaches.iter().find(|reach| reach.kind == Kind::Tls) {
        let text = reach.tls().unwrap_or_default();
        return Some(Fault { cause: by_text(text, Cause::PeerTls), place: Place::Peer(reach, text) });
    }
    let silent = sight.quorum == Quorum::No || sight.reaches.iter().any(|reach| reach.kind == Kind::InFails);
    let line = sight.recent(LogClass::PeerTls).filter(|_| silent)?;
    Some(Fault { cause: by_text(&line.example, Cause::PeerTls), place: Place::Log(line) })
}

/// The cause that a text of Go's `crypto/x509`, of rustls or of OpenSSL names.
fn of_text(text: &str) -> Option<Cause> {
    const WORDS: [(Cause, &[&str]); 6] = [
        (Cause::CertificateKeyMismatch, &["does not match public key", "keymismatch", "key values mismatch", "inconsistentkeys"]),
        (Cause::CertificateNotYetValid, &["is before", "notvalidyet", "not valid yet", "is not yet valid:"]),
        (Cause::CertificateExpired, &["expired"]),
        (
            Cause::CertificateWrongCa,
            &[
                "unknown authority",
                "unknownissuer",
                "unknown ca",
                "unknown certificate authority",
                "badsignature",
                "unable to get local issuer",
            ],
        ),
        (
            Cause::CertificateWrongName,
            &[
                "notvalidforname",
                "not valid for",
                "is valid for",
                "any ip sans",
                "cannot validate certificate for",
                "does not match",
            ],
        ),
        (Cause::CertificateWrongUsage, &["key usage", "invalidpurpose", "unsupported certificate", "required eku"]),
    ];
    let text = words::quote(text).to_ascii_lowercase();
    // Go says both in one sentence, and which one it is after a colon.
    let expired = text.contains("expired or is not yet valid") && text.contains("is after");
    if expired {
        return Some(Cause::CertificateExpired);
    }
    WORDS.iter().find(|(_, words)| words.iter().any(|word| text.contains(word))).map(|(cause, _)| *cause)
}
