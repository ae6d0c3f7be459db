//! The names and message ids of everything that the audit may say.
//!
//! Invariant: a kind keeps its name and its 128-bit id for ever; alert rules, catalogues and people's
//! scripts match on them. `systemd/fip-watchdog.catalog` explains each id, and a test keeps the two equal.

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// The daemon began to watch.
    Started,
    /// The daemon ends.
    Stopping,
    /// A policy came into force.
    PolicyLoaded,
    /// An edited policy was refused; the old one stays in force.
    PolicyRejected,
    /// The readings add up to something else than before.
    VerdictChanged,
    /// Steps were chosen for a verdict.
    PlanStarted,
    /// A step began.
    StepStarted,
    /// A step is done, and seen to be done.
    StepSucceeded,
    /// A step was tried and did not end well.
    StepFailed,
    /// A step was not begun, because it would be unsafe.
    StepRefused,
    /// The kernel was given a new lease for our alias.
    LeaseRenewed,
    /// A manifest cycle that was open at the start was finished or undone.
    CycleRecovered,
    /// A sense can no longer tell.
    SenseLost,
    /// A sense can tell again.
    SenseFound,
    /// This daemon did not run for a while, or the wall clock was set.
    PauseRecorded,
    /// A hung loop was examined, before anything was killed.
    HangAutopsied,
    /// etcd raised an alarm, such as NOSPACE.
    EtcdAlarmRaised,
    /// etcd's alarms are over.
    EtcdAlarmCleared,
    /// etcd was looked at while it is unwell, and something new was found.
    Diagnosed,
    /// etcd is well again, for long enough.
    Recovered,
    /// Nothing answers behind the FIP any more.
    ApiSilenceBegan,
    /// Something does again, or the FIP has left.
    ApiSilenceEnded,
}

impl EventKind {
    /// Every kind, in the order of the enum.
    pub const ALL: [Self; 22] = [
        Self::Started,
        Self::Stopping,
        Self::PolicyLoaded,
        Self::PolicyRejected,
        Self::VerdictChanged,
        Self::PlanStarted,
        Self::StepStarted,
        Self::StepSucceeded,
        Self::StepFailed,
        Self::StepRefused,
        Self::LeaseRenewed,
        Self::CycleRecovered,
        Self::SenseLost,
        Self::SenseFound,
        Self::PauseRecorded,
        Self::HangAutopsied,
        Self::EtcdAlarmRaised,
        Self::EtcdAlarmCleared,
        Self::Diagnosed,
        Self::Recovered,
        Self::ApiSilenceBegan,
        Self::ApiSilenceEnded,
    ];

    /// The value of `FIP_EVENT`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Stopping => "stopping",
            Self::PolicyLoaded => "policy_loaded",
            Self::PolicyRejected => "policy_rejected",
            Self::VerdictChanged => "verdict_changed",
            Self::PlanStarted => "plan_started",
            Self::StepStarted => "step_started",
            Self::StepSucceeded => "step_succeeded",
            Self::StepFailed => "step_failed",
            Self::StepRefused => "step_refused",
            Self::LeaseRenewed => "lease_renewed",
            Self::CycleRecovered => "cycle_recovered",
            Self::SenseLost => "sense_lost",
            Self::SenseFound => "sense_found",
            Self::PauseRecorded => "pause_recorded",
            Self::HangAutopsied => "hang_autopsied",
            Self::EtcdAlarmRaised => "etcd_alarm_raised",
            Self::EtcdAlarmCleared => "etcd_alarm_cleared",
            Self::Diagnosed => "diagnosed",
            Self::Recovered => "recovered",
            Self::ApiSilenceBegan => "api_silence_began",
            Self::ApiSilenceEnded => "api_silence_ended",
        }
    }

    /// The value of `MESSAGE_ID`: random, made once (`systemd-id128 new`), never reused.
    #[must_use]
    pub const fn message_id(self) -> &'static str {
        match self {
            Self::Started => "ba32a17601ee4410b77b942aa330fb71",
            Self::Stopping => "85553b5a61624ea68cdd639d71ccac87",
            Self::PolicyLoaded => "c7c47380198149aab3c0a016b413b6df",
            Self::PolicyRejected => "1fda06525b8349c59a743e2a8996a5c9",
            Self::VerdictChanged => "27b92382133842b7ab185ce079cba2a3",
            Self::PlanStarted => "0d4ca3241c8542e6bf861a1549564e12",
            Self::StepStarted => "58bd0f24644c4b2abf1f5e8bac178f69",
            Self::StepSucceeded => "3c016c7ed95041398c1547be19423a32",
            Self::StepFailed => "e798d3aede5c4791a2369a78a89a3f0a",
            Self::StepRefused => "76b05668c15d4d00b14539ab668f335a",
            Self::LeaseRenewed => "c1e4182674fb4b1d9f8c33c58170f961",
            Self::CycleRecovered => "1eff61baa4674c6a824220a38fec0d5c",
            Self::SenseLost => "e8e358cecaff43e1b200452a071af1e1",
            Self::SenseFound => "651c852f576a4e95807b45dd01281e31",
            Self::PauseRecorded => "a7ba1fa28e664e6aa643eac0ca614747",
            Self::HangAutopsied => "345c03e27e5f490288eb72b8b8072927",
            Self::EtcdAlarmRaised => "35c3a12214ab41959631637421ade9e8",
            Self::EtcdAlarmCleared => "9f78594e34d640ef97cf4f399e709487",
            Self::Diagnosed => "6e189f8bb4f242378db772bdc0ac84a4",
            Self::Recovered => "ff0787173d19449cbd691ce93a991ae5",
            Self::ApiSilenceBegan => "31e46546560f49e499745d949833c2b6",
            Self::ApiSilenceEnded => "90756d0332cb4654821c0cb918b38ffa",
        }
    }

    /// The place in [`Self::ALL`], for counters.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}
