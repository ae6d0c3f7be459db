//! The words that a scenario may use for things that the product names: refused here, at their line, when misspelt.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::node::Node;

/// The watchdog's verdicts.
pub const VERDICTS: [&str; 25] = [
    "paused",
    "starting",
    "resumed",
    "unknown",
    "etcd_unreachable",
    "no_quorum",
    "leader_unproven",
    "leader_flapping",
    "manifest_missing",
    "manifest_shadowed",
    "manifest_changed",
    "loop_stalled_fip_missing",
    "loop_stalled_fip_held",
    "loop_stalled_follower",
    "fip_orphaned",
    "fip_missing",
    "fip_duplicated",
    "loop_blind",
    "loop_mistaken",
    "loop_absent",
    "pod_stuck",
    "kubelet_down",
    "log_stalled",
    "host_starved",
    "healthy",
];

/// The watchdog's steps.
pub const STEPS: [&str; 7] =
    ["apply_alias", "renew_alias", "hand_over_alias", "lease_alias", "release_alias", "announce_alias", "cycle_manifest"];

/// The audit's events.
pub const EVENTS: [&str; 22] = [
    "started",
    "stopping",
    "policy_loaded",
    "policy_rejected",
    "verdict_changed",
    "plan_started",
    "step_started",
    "step_succeeded",
    "step_failed",
    "step_refused",
    "lease_renewed",
    "cycle_recovered",
    "sense_lost",
    "sense_found",
    "pause_recorded",
    "hang_autopsied",
    "etcd_alarm_raised",
    "etcd_alarm_cleared",
    "diagnosed",
    "recovered",
    "api_silence_began",
    "api_silence_ended",
];

/// The causes that an autopsy may find.
pub const CAUSES: [&str; 11] = [
    "shell_dead",
    "frozen",
    "stopped",
    "uninterruptible_io",
    "disk_full",
    "log_pipe_blocked",
    "child_hung",
    "log_not_drained",
    "stale_answer",
    "works",
    "unknown",
];

/// The causes that a diagnosis may find.
pub const DIAGNOSES: [&str; 45] = [
    "healthy",
    "peers_unreachable",
    "peer_unreachable",
    "node_isolated",
    "inbound_blocked",
    "outbound_blocked",
    "peer_port_blocked",
    "client_port_blocked",
    "mtu_black_hole",
    "link_down",
    "peer_etcd_down",
    "peer_etcd_hung",
    "peer_host_down",
    "duplicate_address",
    "two_interfaces",
    "name_unresolved",
    "host_firewall",
    "etcd_hung",
    "etcd_crash_looping",
    "etcd_down",
    "kubelet_down",
    "certificate_expired",
    "certificate_not_yet_valid",
    "certificate_wrong_ca",
    "certificate_wrong_name",
    "certificate_wrong_usage",
    "certificate_key_mismatch",
    "peer_tls",
    "own_tls",
    "clock_skew",
    "slow_disk",
    "disk_hung",
    "disk_full",
    "no_space",
    "corrupt",
    "learner",
    "member_removed",
    "id_mismatch",
    "address_changed",
    "snapshot_reverted",
    "too_few_members",
    "host_starved",
    "host_paused",
    "leader_flapping",
    "unknown",
];

/// The kinds of fault.
pub const OUTCOMES: [&str; 4] = ["healthy", "node", "network", "unknown"];

macro_rules! listed_name {
    ($(#[$doc:meta])* $name:ident, $list:expr, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub String);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let list = $list;
                if list.iter().any(|known| *known == text) {
                    return Ok(Self(text));
                }
                Err(de::Error::custom(format_args!(concat!("no ", $what, " `{}`: {}"), text, list.join(", "))))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

listed_name!(/** A verdict of the watchdog. */ VerdictName, VERDICTS, "verdict");
listed_name!(/** A step of the watchdog. */ StepName, STEPS, "step");
listed_name!(/** An event of the audit. */ EventName, EVENTS, "audit event");
listed_name!(/** A cause that an autopsy finds. */ CauseName, CAUSES, "cause");
listed_name!(/** A cause that a diagnosis finds. */ DiagnosisName, DIAGNOSES, "cause of a diagnosis");
listed_name!(/** A kind of fault. */ OutcomeName, OUTCOMES, "outcome");
listed_name!(/** A fault of the catalogue. */ FaultName, super::lab_api::fault_names(), "fault");

/// A length of time with its unit: `2s`, `500ms`, `1m 30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length(pub Duration);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text)
            .map(Self)
            .map_err(|error| de::Error::custom(format_args!("`{text}` is no length of time such as 2s or 500ms: {error}")))
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        super::clock::seconds(&self.0, serializer)
    }
}

/// Which node, or nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRef {
    /// `cp1`.
    Named(Node),
    /// `$F`: what a `let` bound.
    Variable(String),
    /// `all`.
    All,
}

impl<'de> Deserialize<'de> for NodeRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "all" {
            return Ok(Self::All);
        }
        match text.strip_prefix('$') {
            Some("") => Err(de::Error::custom("`$` names no variable")),
            Some(name) => Ok(Self::Variable(name.to_owned())),
            None => text
                .parse()
                .map(Self::Named)
                .map_err(|error| de::Error::custom(format_args!("{error}, a variable like $F, or `all`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names in `=> "…"` arms of one of the product's sources.
    fn names_in(source: &str) -> BTreeSet<&str> {
        source.lines().filter_map(|line| line.split_once("=> \"")?.1.split_once('"')).map(|(name, _)| name).collect()
    }

    #[test]
    fn the_verdicts_are_those_of_the_product() {
        let product = include_str!("../../../src/decision/verdict.rs");
        assert_eq!(names_in(product), BTreeSet::from(VERDICTS));
    }

    #[test]
    fn the_causes_are_those_of_the_product() {
        let product = include_str!("../../../src/autopsy/cause.rs");
        let names = product.split("/// A cause with its words.").next().unwrap();
        assert_eq!(names_in(names), BTreeSet::from(CAUSES));
    }

    #[test]
    fn the_causes_of_a_diagnosis_and_its_outcomes_are_those_of_the_product() {
        let product = include_str!("../../../src/diagnose/diagnosis.rs");
        assert_eq!(names_in(product), BTreeSet::from(DIAGNOSES));
        for outcome in OUTCOMES {
            let variant = format!("    {}{},\n", outcome.get(..1).unwrap().to_uppercase(), outcome.get(1..).unwrap());
            assert!(product.contains(&variant), "{outcome}");
        }
    }

    #[test]
    fn the_steps_are_those_of_the_product() {
        let product = include_str!("../../../src/decision/step.rs");
        assert_eq!(names_in(product), BTreeSet::from(STEPS));
    }
}
