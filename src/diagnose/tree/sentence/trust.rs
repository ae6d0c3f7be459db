//! Sentences about certificates and clocks.

use super::{etcd_here, not_the_network};
use crate::diagnose::diagnosis::Cause;
use crate::diagnose::evidence::{Certificate, CertificateFile};
use crate::diagnose::tree::certificate::{Place, fault, now_s};
use crate::diagnose::tree::sight::Sight;
use crate::diagnose::tree::{local, words};

/// A certificate.
pub(super) fn certificate(cause: Cause, sight: &Sight<'_>) -> String {
    let etcd = etcd_here(sight);
    let (seen, remedy) = match fault(sight).map(|fault| fault.place) {
        Some(Place::File(file, content)) => (of_file(cause, sight, file, content), remedy(cause, "on this node")),
        Some(Place::Own(text)) => {
            let what = what(cause);
            let seen = format!("TLS between this watchdog and etcd on {} fails: {what} (\"{}\")", sight.node, words::quote(text));
            (seen, remedy(cause, "on this node: what the policy names under `etcd`, and etcd's own"))
        }
        Some(Place::Peer(reach, text)) => {
            let peer = words::who(&reach.peer.member.name, reach.peer.member.address);
            let seen =
                format!("As seen from {}, TLS with {peer} fails: {} (\"{}\")", sight.me(), what(cause), words::quote(text));
            (seen, remedy(cause, "on that node, and compare with the others"))
        }
        Some(Place::Log(line)) => {
            let seen = format!(
                "etcd on {} says in its log: \"{}\", which means that {}",
                sight.me(),
                words::quote(&line.example),
                what(cause)
            );
            (seen, remedy(cause, "on this node and on the peer"))
        }
        None => (format!("On {}, {}", sight.me(), what(cause)), remedy(cause, "on this node")),
    };
    format!("{seen}; {etcd}. {remedy}{}", not_the_network(sight))
}

fn of_file(cause: Cause, sight: &Sight<'_>, file: &CertificateFile, content: &Certificate) -> String {
    let now = now_s(sight);
    let days = |from: i64, to: i64| words::count(usize::try_from(to.saturating_sub(from).max(0) / 86_400).unwrap_or(0), "day");
    let when = if cause == Cause::CertificateExpired {
        format!(" {} ago", days(content.not_after, now))
    } else if cause == Cause::CertificateNotYetValid {
        format!(", only in {}; look at the clock first", days(now, content.not_before))
    } else if cause == Cause::CertificateWrongName {
        format!("; it names {}", words::list(&content.names.iter().map(|name| words::quote(name)).collect::<Vec<_>>()))
    } else {
        String::new()
    };
    let role = match file.role.as_str() {
        "client" => "this watchdog's client certificate",
        "server" => "etcd's server certificate",
        "peer" => "etcd's peer certificate",
        "ca" => "etcd's CA certificate",
        _ => "a certificate",
    };
    format!(
        "On {}, {role} {} {what}{when}",
        sight.me(),
        words::quote(&file.path.display().to_string()),
        what = of_certificate(cause)
    )
}

/// (cause, of a certificate in a file, in general)
const WHAT: [(Cause, &str, &str); 7] = [
    (Cause::CertificateExpired, "has expired,", "a certificate has expired"),
    (Cause::CertificateNotYetValid, "is not valid yet", "a certificate is not valid yet, or a clock is wrong"),
    (Cause::CertificateWrongCa, "is not signed by the CA beside it", "a certificate is of another CA"),
    (Cause::CertificateWrongName, "does not name this node's address", "a certificate does not name the address that is called"),
    (Cause::CertificateWrongUsage, "may not be used for this (extended key usage)", "a certificate may not be used for this"),
    (Cause::CertificateKeyMismatch, "does not belong to the key beside it", "a key does not belong to its certificate"),
    (Cause::PeerTls, "is not taken", "one end does not take the other's certificate"),
];

fn of_certificate(cause: Cause) -> &'static str {
    WHAT.iter().find(|(of, ..)| *of == cause).map_or("is not taken", |(_, text, _)| text)
}

fn what(cause: Cause) -> &'static str {
    WHAT.iter()
        .find(|(of, ..)| *of == cause)
        .map_or("one end does not take the other's certificate, and the files do not say why", |(.., text)| text)
}

fn remedy(cause: Cause, place: &str) -> String {
    if cause == Cause::CertificateExpired {
        format!("Renew the certificate {place}.")
    } else if cause == Cause::CertificateNotYetValid {
        format!("Set the clock, or renew the certificate, {place}.")
    } else {
        format!("Look at the certificates {place}.")
    }
}

/// Clocks.
pub(super) fn clock(sight: &Sight<'_>) -> String {
    let etcd = etcd_here(sight);
    let dated = fault(sight).filter(|fault| fault.cause == Cause::ClockSkew);
    let own = sight.own_clock_offset_ms();
    let certificate = match dated.map(|fault| fault.place) {
        Some(Place::File(file, _)) => {
            format!(", so {} counts as out of its dates", words::quote(&file.path.display().to_string()))
        }
        Some(Place::Own(_) | Place::Peer(..) | Place::Log(_)) | None => String::new(),
    };
    match (own.filter(|offset| offset.unsigned_abs() >= local::CLOCK_MS_MAX), local::clock_apart(sight)) {
        (Some(offset), _) => {
            let way = if offset > 0 { "behind" } else { "ahead of" };
            format!(
                "The clock of {} is {} {way} its peers'{certificate}; {etcd}. Mend the time service on this node.",
                sight.me(),
                words::ms(offset.unsigned_abs())
            )
        }
        (None, Some((reach, offset))) => {
            let peer = words::who(&reach.peer.member.name, reach.peer.member.address);
            let way = if offset > 0 { "ahead of" } else { "behind" };
            format!(
                "The clock of {peer} is {} {way} {}'s; {etcd}. Compare the time service of both.",
                words::ms(offset.unsigned_abs()),
                sight.me()
            )
        }
        (None, None) => format!("Clocks are apart; {etcd}. Look at the time service."),
    }
}
