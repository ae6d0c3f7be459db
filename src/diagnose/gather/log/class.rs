//! What a line of etcd's log means.
//!
//! The words are etcd's own, of 3.3 to 3.6; where two versions differ both are here. First match wins: what ends a process comes before what
//! it says of others. Pure.

use super::line::{Level, Said};
use crate::diagnose::evidence::LogClass;

/// What the line says; `None` for what says nothing of a fault.
pub(super) fn classify(said: &Said) -> Option<LogClass> {
    let has = |words: &str| said.text.contains(words);
    own_end(said).or_else(|| own_state(said)).or_else(|| rejected(said)).or_else(|| of_a_peer(said)).or_else(|| {
        if has("is starting a new election") || has("lost leader") || has("stepped down to follower since quorum is not active") {
            Some(LogClass::Election)
        // The first line of a start that every version with zap has; capnslog's.
        } else if said.text == "configuring peer listeners" || has("etcdmain: etcd Version:") {
            Some(LogClass::Start)
        } else {
            match said.level {
                Level::Panic => Some(LogClass::Panic),
                Level::Error => Some(LogClass::OtherError),
                Level::Warning | Level::Info => None,
            }
        }
    })
}

/// What this member ends from, or cannot start with.
fn own_end(said: &Said) -> Option<LogClass> {
    let has = |words: &str| said.text.contains(words);
    let any = |list: &[&str]| list.iter().any(|words| has(words));
    let a_key_file = any(&[".crt", ".key", ".pem"]) && any(&["no such file", "permission denied"]);
    if has("is out of range [lastIndex") {
        Some(LogClass::SnapshotReverted)
    } else if any(&["member has been permanently removed from the cluster", "data-dir used by this member must be removed"]) {
        Some(LogClass::MemberRemoved)
    } else if any(&["ID mismatch", "cluster-id mismatch"]) {
        Some(LogClass::IdMismatch)
    } else if has(": bind: ") {
        Some(LogClass::CannotBind)
    } else if any(&["failed to find any PEM data", "private key does not match public key", "failed to parse private key"])
        || a_key_file
    {
        Some(LogClass::CertificateLoad)
    } else if has("no space left on device") {
        Some(LogClass::DiskFull)
    } else {
        None
    }
}

/// What this member's data, disk and clock are like.
fn own_state(said: &Said) -> Option<LogClass> {
    let has = |words: &str| said.text.contains(words);
    let any = |list: &[&str]| list.iter().any(|words| has(words));
    let alarm = |kind: &str| said.alarm == kind || (has("alarm") && has(kind));
    let slow = any(&["slow fdatasync", "sync duration of"])
        || (has("took too long") && any(&["apply request", "apply entries", "request "]) && !said.of_a_read && !has("ReadIndex"));
    if alarm("CORRUPT") || any(&["crc mismatch", "checksum mismatch", "data inconsistency", "file may be corrupted"]) {
        Some(LogClass::Corrupt)
    } else if alarm("NOSPACE") || has("database space exceeded") {
        Some(LogClass::NoSpace)
    } else if any(&["high clock drift", "clock difference against peer"]) {
        Some(LogClass::ClockDrift)
    } else if has("failed to send out heartbeat on time") {
        Some(LogClass::LateHeartbeats)
    } else if slow {
        Some(LogClass::SlowDisk)
    } else {
        None
    }
}

/// A connection that this member did not take.
fn rejected(said: &Said) -> Option<LogClass> {
    let has = |words: &str| said.text.contains(words);
    if !has("rejected connection") {
        return None;
    }
    let from_here = said.remote.is_some_and(|address| address.is_loopback());
    // Whoever only tries whether a port is open looks like this, and so does a client that gives up.
    if has("EOF") || has("reset by peer") || has("broken pipe") {
        None
    } else if from_here {
        Some(LogClass::ClientTls)
    } else if has("timeout") {
        Some(LogClass::PeerTimedOut)
    } else {
        Some(LogClass::PeerTls)
    }
}

/// Sentences about calling a peer, without the one that only repeats another ("failed to get version").
const OF_PEERS: [&str; 15] = [
    "became inactive",
    "lost TCP streaming connection",
    "lost the TCP streaming connection",
    "prober detected unhealthy status",
    "health check for peer",
    "failed to reach the peer URL",
    "failed to reach the peerURL",
    "failed to dial",
    "failed to read",
    "failed to write",
    "failed to heartbeat",
    "failed to get cluster response",
    "could not get cluster response",
    "failed to resolve",
    "failed resolving host",
];

fn of_a_peer(said: &Said) -> Option<LogClass> {
    let has = |words: &str| said.text.contains(words);
    let any = |list: &[&str]| list.iter().any(|words| has(words));
    if has("became active") && (has("peer ")) {
        return Some(LogClass::PeerActive);
    }
    if !any(&OF_PEERS) {
        return None;
    }
    // A resolver that does not answer is a time-out as well.
    if any(&["lookup ", "no such host", "server misbehaving"]) {
        Some(LogClass::PeerUnresolved)
    } else if any(&["i/o timeout", "deadline exceeded", "Client.Timeout", "handshake timeout"]) {
        Some(LogClass::PeerTimedOut)
    } else if has("connection refused") {
        Some(LogClass::PeerRefused)
    } else if any(&["no route to host", "network is unreachable", "host is down"]) {
        Some(LogClass::PeerNoRoute)
    } else if any(&["x509:", "tls:", "certificate"]) {
        Some(LogClass::PeerTls)
    } else if any(&["EOF", "reset by peer", "broken pipe", "closed"]) {
        Some(LogClass::PeerClosed)
    } else {
        None
    }
}
