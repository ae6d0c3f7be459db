//! What the node itself shows: units, certificates, pressure.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Seen;

/// A systemd unit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Unit {
    /// Its name.
    pub name: String,
    /// It is active.
    pub active: bool,
    /// `active (running)`, as systemctl(1) says it; or where else it was seen.
    pub state: String,
}

/// A certificate file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CertificateFile {
    /// Its path.
    pub path: PathBuf,
    /// What it is for: `client` (ours, from the policy), `server`, `peer`, `ca`.
    pub role: String,
    /// What is in it, or why that cannot be read.
    pub content: Seen<Certificate>,
}

/// A certificate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Certificate {
    /// Subject.
    pub subject: String,
    /// Seconds since the Unix epoch.
    pub not_before: i64,
    /// Seconds since the Unix epoch.
    pub not_after: i64,
    /// Its subject alternative names, addresses and names alike.
    pub names: Vec<String>,
    /// Good as a server's certificate (extended key usage).
    pub server_use: bool,
    /// Good as a client's certificate.
    pub client_use: bool,
    /// Signed by the CA file beside it; `None` when that could not be checked.
    pub signed_by_ca: Option<bool>,
    /// The key file beside it belongs to it; `None` when that could not be checked.
    pub key_matches: Option<bool>,
    /// It names the node's own member address; `None` where it need not.
    pub names_own_address: Option<bool>,
}

/// The node itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// Percentage of time in which some task waits for a CPU (PSI avg10).
    pub cpu_pressure: Option<u32>,
    /// The same for I/O.
    pub io_pressure: Option<u32>,
    /// The same for memory.
    pub memory_pressure: Option<u32>,
    /// Free bytes where etcd keeps its data.
    pub etcd_disk_free: Option<u64>,
    /// The last time that the node itself did not run, seen as a gap in a daemon's ticks: how long, and how long ago it ended.
    pub last_pause: Option<Pause>,
    /// `statfs` or a small read of etcd's data directory did not come back in time: a frozen disk.
    pub etcd_disk_hangs: bool,
}

/// A time in which the node did not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pause {
    /// Its length.
    pub length_ms: u64,
    /// How long ago it ended.
    pub age_ms: u64,
}

impl Pause {
    /// That long, and over since `age`.
    #[must_use]
    pub fn new(length: Duration, age: Duration) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { length_ms: ms(length), age_ms: ms(age) }
    }
}
