//! What a node shows, key by key: the state of the world, and changes of it, from one list.
//!
//! Each key of the list is a key of `node:` and `set:` in the case files. By default the node is a healthy leader.

use std::time::Duration;

use fip_watchdog::decision::observation::{HoldOff, KubeletView, Reading};
use fip_watchdog::decision::time::Moment;
use serde::Deserialize;

macro_rules! states {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr;)+) => {
        /// A change of what a node shows. A key that is left out stays as it is.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Patch { $($(#[doc = $doc])+ pub $name: Option<$type>,)+ }

        /// What a node shows.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct State { $($(#[doc = $doc])+ pub $name: $type,)+ }

        impl Default for State {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        impl State {
            /// Takes a change over, and returns the one that undoes it.
            pub fn take(&mut self, change: &Patch) -> Patch {
                Patch { $($name: change.$name.clone().map(|new| std::mem::replace(&mut self.$name, new)),)+ }
            }
        }

        impl Patch {
            /// This change and another one on top of it.
            pub fn and(&self, other: &Self) -> Self {
                Self { $($name: other.$name.clone().or_else(|| self.$name.clone()),)+ }
            }
        }
    };
}

states! {
    /// What the local member says.
    etcd: Etcd = Etcd::Leads;
    /// Its raft term.
    term: u64 = 7;
    /// What the quorum answers when it is asked.
    quorum: Quorum = Quorum::Confirms;
    /// Alarms in the member's status, as etcd words them.
    etcd_errors: Vec<String> = Vec::new();
    /// The loop's log.
    log: Log = Log::Beats;
    /// What a finished round of the loop says.
    loop_says: Says = Says::WhatEtcdTellsIt;
    /// Whether the loop does to the FIP what it says.
    loop_acts: bool = true;
    /// The loop's process.
    process: Process = Process::Works;
    /// Its state, field 3 of `/proc/<pid>/stat`.
    process_state: char = 'S';
    /// The kernel function that it sleeps in; empty where that cannot be read.
    wchan: String = String::new();
    /// How many shells of the loop run.
    copies: usize = 1;
    /// The FIP on the interface.
    alias: Alias = Alias::Held;
    /// The alias's prefix length, where the loop or a person put it up.
    prefix: u8 = 32;
    /// The link of the interface.
    link: Link = Link::Up;
    /// The manifest directory.
    manifest: Manifest = Manifest::Present;
    /// The kubelet.
    kubelet: Kubelet = Kubelet::Running;
    /// When the local certificate was over, for who looks at it; empty while it is good.
    certificate_expired: String = String::new();
    /// What is behind the FIP, asked every ten seconds while the FIP is here.
    api: Api = Api::Answers;
    /// The MAC of a station that claims the FIP once a second; empty for silence.
    claimed_by: String = String::new();
    /// How many times the watchdog woke late in the last minute.
    late_ticks: u32 = 0;
    /// Percentage of time in which some task waits for a CPU.
    cpu_pressure: u32 = 0;
    /// The units that are waited for after a boot, as a sentence; empty for none.
    waits_for: String = String::new();
    /// The words of an operator who pauses the watchdog; empty for none.
    paused: String = String::new();
}

/// What the local member says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Etcd {
    /// That it leads.
    Leads,
    /// That another member leads.
    Follows,
    /// That there is no leader.
    NoLeader,
    /// That it is a learner.
    Learner,
    /// Nothing listens.
    Refused,
    /// Nothing within the deadline.
    TimedOut,
    /// The handshake fails.
    Tls(String),
    /// Any other fault.
    Fault(String),
    /// The sense itself cannot tell.
    Unknown(String),
}

/// What the quorum answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quorum {
    /// It confirms what the local member says.
    Confirms,
    /// It does not.
    Denies(String),
}

/// The loop's log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Log {
    /// A finished round every interval.
    Beats,
    /// No new byte.
    Frozen,
    /// It grows, without a finished round.
    Grows,
    /// Followed only since now: no round has been read yet.
    Fresh,
    /// The sense cannot tell.
    Unknown(String),
}

/// What a finished round says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// What its etcd tells it.
    WhatEtcdTellsIt,
    /// That it leads.
    Leader,
    /// That it does not lead.
    Follower,
    /// That its query failed.
    QueryFailed(String),
}

/// The loop's process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Process {
    /// It makes progress.
    Works,
    /// It exists and makes none.
    Frozen,
    /// There is none.
    Absent,
    /// Another one than before, which works.
    New,
    /// Another one than before, which is frozen from its begin.
    NewFrozen,
    /// The sense cannot tell.
    Unknown(String),
}

/// The FIP on the interface.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alias {
    /// Not there.
    Absent,
    /// There for ever: the loop's.
    Held,
    /// There with a lease that the watchdog gave.
    Leased,
    /// The loop's, with a lease that the watchdog lent it.
    Lent,
    /// The sense cannot tell.
    Unknown(String),
}

/// What is behind the FIP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// A server that accepts connections.
    Answers,
    /// None, and how that shows.
    Silent(String),
}

/// The link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// There is carrier.
    Up,
    /// There is none.
    Down,
}

/// The manifest directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manifest {
    /// As it was.
    Present,
    /// Not there.
    Missing,
    /// There, with this content.
    Changed(String),
    /// There, and another file defines the same pod.
    Shadowed(String),
    /// There, and it must not be moved.
    Immovable(String),
    /// The sense cannot tell.
    Unknown(String),
}

/// The kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kubelet {
    /// Its service has processes.
    Running,
    /// It has none.
    Down,
    /// The sense cannot tell.
    Unknown(String),
}

impl Kubelet {
    /// What its sense reads.
    pub fn read(&self, at: Moment) -> Reading<KubeletView> {
        match self {
            Self::Running => Reading::Fresh { value: KubeletView::Running, at },
            Self::Down => Reading::Fresh { value: KubeletView::Down, at },
            Self::Unknown(why) => Reading::Unknown(why.clone()),
        }
    }
}

/// Units that are waited for, for a minute more as it is told; the end is an event of the case.
pub fn held_off(reason: &str) -> HoldOff {
    HoldOff { reason: reason.to_owned(), remaining: Duration::from_secs(60) }
}
