//! The kubelet's unit: what systemd says of it, or else whether its cgroup has processes.
//!
//! Invariant: without an answer of either it is [`Seen::No`] with both reasons, never "not active". May be dropped at any await.

use std::time::Duration;

use super::aside::Aside;
use super::unit::{self, Properties};
use crate::decision::observation::{KubeletView, Reading};
use crate::diagnose::evidence::{Seen, Unit};
use crate::policy::Policy;
use crate::runtime::clock;
use crate::sensor::kubelet::KubeletSensor;

/// The cgroup tree is in memory.
const CGROUP_TIME: Duration = Duration::from_secs(1);

static CGROUPS: Aside = Aside::new("the kubelet's cgroup");

/// See the module's head.
pub(super) async fn look(policy: &Policy) -> Seen<Unit> {
    let name = policy.watched_loop.kubelet_unit.clone();
    let told = match unit::show(&name, &["LoadState", "ActiveState", "SubState"]).await {
        Ok(properties) => return Seen::Yes(by_systemd(name, &properties)),
        Err(reason) => reason,
    };
    let sensor = KubeletSensor::new(&policy.watched_loop);
    let reading = CGROUPS.read(CGROUP_TIME, move || sensor.read(clock::now())).await;
    by_cgroup(name, &told, reading.unwrap_or_else(Reading::Unknown))
}

fn by_systemd(name: String, properties: &Properties) -> Unit {
    let [load, active, sub] = ["LoadState", "ActiveState", "SubState"].map(|property| properties.get(property));
    let state = if load == "loaded" { format!("{active} ({sub})") } else { format!("{active} ({load})") };
    // `systemctl is-active` takes these three for active.
    Unit { name, active: matches!(active, "active" | "reloading" | "refreshing"), state }
}

fn by_cgroup(name: String, told: &str, reading: Reading<KubeletView>) -> Seen<Unit> {
    match reading {
        Reading::Fresh { value, .. } => {
            let (active, what) = match value {
                KubeletView::Running => (true, "has processes"),
                KubeletView::Down => (false, "has no process"),
            };
            Seen::Yes(Unit { name, active, state: format!("its cgroup {what}; {told}") })
        }
        Reading::Stale { .. } => Seen::No(told.to_owned()),
        Reading::Unknown(reason) => Seen::No(format!("{told}; {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::time::Moment;

    fn named(name: &str) -> String {
        name.to_owned()
    }

    #[test]
    fn the_unit_is_active_when_systemd_says_so_and_its_state_is_spelt_as_people_know_it() {
        for (text, active, state) in [
            ("LoadState=loaded\nActiveState=active\nSubState=running\n", true, "active (running)"),
            ("LoadState=loaded\nActiveState=activating\nSubState=auto-restart\n", false, "activating (auto-restart)"),
            ("LoadState=loaded\nActiveState=failed\nSubState=failed\n", false, "failed (failed)"),
            ("LoadState=not-found\nActiveState=inactive\nSubState=dead\n", false, "inactive (not-found)"),
        ] {
            let unit = by_systemd(named("kubelet.service"), &Properties::of(text));
            assert_eq!((unit.active, unit.state.as_str()), (active, state));
        }
    }

    #[test]
    fn without_systemd_the_cgroup_tells_and_without_that_nothing_is_guessed() {
        let fresh = |value| Reading::Fresh { value, at: Moment::default() };
        let told = "systemctl does not answer";
        let unit = by_cgroup(named("k"), told, fresh(KubeletView::Running));
        assert!(
            unit.yes().is_some_and(|unit| unit.active && unit.state == "its cgroup has processes; systemctl does not answer")
        );
        let unit = by_cgroup(named("k"), told, fresh(KubeletView::Down));
        assert!(unit.yes().is_some_and(|unit| !unit.active));
        let unit = by_cgroup(named("k"), told, Reading::Unknown(named("no cgroups")));
        assert_eq!(unit, Seen::No(named("systemctl does not answer; no cgroups")));
    }
}
