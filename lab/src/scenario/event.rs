//! What can be seen during a run: one vocabulary for all sources, stamped on one clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::seconds;
use super::node::Node;
use crate::probe::outage::Heard;

/// One line of the merged timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// When, on `CLOCK_MONOTONIC`.
    #[serde(serialize_with = "seconds")]
    pub at: Duration,
    /// Where; none for the client and for what concerns the whole run.
    pub node: Option<Node>,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

impl Event {
    /// The audit entry, if it is one.
    #[must_use]
    pub const fn audit(&self) -> Option<&Audit> {
        if let What::Audit(audit) = &self.what { Some(audit) } else { None }
    }
}

/// How long the kernel will keep the FIP on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// As the loop leaves it.
    Forever,
    /// With a finite `valid_lft`: the watchdog gave it.
    Lease,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "what")]
pub enum What {
    /// The watchdog's audit said something.
    Audit(Audit),
    /// The watchdog logged a line that is not an audit entry.
    Log(String),
    /// The node's etcd became the leader of this term.
    Leads {
        /// The raft term.
        term: u64,
    },
    /// The node's etcd no longer leads, by its own account.
    LeadsNoMore,
    /// The FIP is on the node's interface, with this lifetime (new, or changed).
    FipHeld(Lifetime),
    /// The FIP went from the node's interface.
    FipGone,
    /// The link of the node's interface can carry traffic, or no longer.
    Link {
        /// Administratively up, and a carrier.
        up: bool,
    },
    /// The kubelet's record of the loop's container.
    Container(Container),
    /// The loop's manifest is in the manifest directory, or not.
    Manifest {
        /// It is there.
        present: bool,
    },
    /// The client hears another node than before, or nobody.
    Client(Heard),
    /// What `fip-watchdog diagnose` said when the scenario asked it.
    Diagnosis(super::diagnosis::Diagnosis),
    /// The scenario injected a fault.
    Fault(Fault),
    /// The scenario healed a fault.
    Heal(Fault),
    /// The scenario named this moment.
    Mark(String),
    /// The scenario speaks: a wait that ended, a variable that was bound.
    Note(String),
    /// A source went blind: what it can no longer tell, and why.
    SourceLost(String),
    /// The journal up to here has been read (the answer to a flush).
    JournalRead {
        /// What the flush wrote into the journal.
        token: String,
    },
}

/// An audit entry, by the journal fields that expectations read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Audit {
    /// `FIP_EVENT`.
    pub event: String,
    /// `FIP_VERDICT`.
    pub verdict: Option<String>,
    /// `FIP_VERDICT_FROM`.
    pub from: Option<String>,
    /// `FIP_STEP`.
    pub step: Option<String>,
    /// `FIP_REASON`.
    pub reason: Option<String>,
    /// `MESSAGE`.
    pub message: String,
    /// `FIP_DURATION_MS`.
    pub duration_ms: Option<u64>,
    /// `FIP_CAUSE`.
    pub cause: Option<String>,
}

/// The loop's container, as the kubelet sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Container {
    /// Its id.
    pub id: String,
    /// How often it was restarted within its pod.
    pub attempt: u64,
    /// It runs.
    pub running: bool,
}

/// A fault with what it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Its name in the catalogue.
    pub name: String,
    /// Its arguments.
    pub args: std::collections::BTreeMap<String, String>,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        for (key, value) in &self.args {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}
