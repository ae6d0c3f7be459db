//! What a policy allows at worst, computed as an operator would.
//!
//! The figures are bounds of the policy, not forecasts: they hold while the node runs, its watchdog runs and a
//! quorum answers. Nobody's election time is in them. Each carries its formula, so that it can be argued with.

use std::time::Duration;

use serde::Serialize;

use crate::decision::step::StepKind;
use crate::decision::verdict::Verdict;

use super::units::format as d;
use super::{Mode, Policy};

/// How long a pod that ignores SIGTERM takes to die when its manifest says nothing else (the kubelet's default grace period).
pub const POD_GRACE: Duration = Duration::from_secs(30);
/// A pod is running again within this time after its manifest is back (0.95 s measured at most).
pub const POD_START: Duration = Duration::from_secs(1);
/// The kernel removes an address up to half a second after its lifetime, measured at 10.5 s for 10 s; rounded up.
pub const KERNEL_LATENESS: Duration = Duration::from_secs(1);
/// How long the duplicate probe listens before an alias is added; nearly all holders answer within 10 ms.
pub const DUPLICATE_PROBE: Duration = Duration::from_millis(200);

/// The worst that a policy allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Arithmetic {
    /// The FIP is on no node: the loop of the new leader had frozen before it came to lead.
    pub outage_loop_already_frozen: Bound,
    /// The same, but the loop froze at the moment it came to lead, so that it must first be found stalled.
    pub outage_loop_freezes_then: Bound,
    /// The same when its process cannot be seen.
    pub outage_process_unseen: Bound,
    /// Two nodes hold the FIP, because a watchdog died right after it renewed its lease and another node leads.
    pub double_holding_watchdog_dead: Bound,
    /// Two nodes hold the FIP, because the old leader's loop is known to be frozen and its watchdog runs.
    pub double_holding_loop_frozen: Bound,
    /// The same with a loop that may still let go by itself: it is slow, or froze as the leadership moved.
    pub double_holding_loop_slow: Bound,
    /// Two nodes hold the FIP, because the userland of the old leader hangs, loop and watchdog alike.
    pub double_holding_node_hung: Bound,
    /// The FIP is on no node, because a watchdog died and did not come back while its loop is healthy.
    pub outage_watchdog_dead: Bound,
    /// A healthy loop is taken for frozen: for how long no loop runs on the node. The FIP stays where it is meanwhile.
    pub false_alarm_pause: Bound,
    /// The same summed over an hour.
    pub false_alarm_pause_per_hour: Bound,
}

/// A time that has an end, or why it has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// At most this long.
    Within {
        /// The time.
        #[serde(serialize_with = "as_ms", rename = "ms")]
        time: Duration,
        /// How it is computed.
        formula: String,
    },
    /// The policy sets no bound.
    Unbounded {
        /// Why.
        reason: String,
    },
}

fn as_ms<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Named parts to a bound: `stalled_after 20s + poll 1s`.
fn sum(parts: &[(&str, Duration)]) -> Bound {
    let parts: Vec<_> = parts.iter().filter(|(_, time)| !time.is_zero()).collect();
    Bound::Within {
        time: parts.iter().map(|(_, time)| *time).sum(),
        formula: parts.iter().map(|(name, time)| format!("{name} {}", d(*time))).collect::<Vec<_>>().join(" + "),
    }
}

fn unbounded(reason: &str) -> Bound {
    Bound::Unbounded { reason: reason.to_owned() }
}

impl Arithmetic {
    /// Computes every bound.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        let watched = &policy.watched_loop;
        let pause = false_alarm(policy);
        let per_hour = match &pause {
            Bound::Within { time, .. } => Bound::Within {
                time: *time * policy.limits.cycles_per_hour,
                formula: format!("{} cycles an hour x {}", policy.limits.cycles_per_hour, d(*time)),
            },
            Bound::Unbounded { .. } => pause.clone(),
        };
        Self {
            outage_loop_already_frozen: outage(policy, None),
            outage_loop_freezes_then: outage(policy, Some(("loop.stalled_after", watched.stalled_after))),
            outage_process_unseen: outage(policy, Some(("loop.stalled_after_log_only", watched.stalled_after_log_only))),
            double_holding_watchdog_dead: lease_left(policy),
            double_holding_loop_frozen: orphan(policy, ("etcd.poll_alert", policy.etcd.poll_alert), None),
            double_holding_loop_slow: orphan(policy, ("etcd.poll", policy.etcd.poll), Some(policy.watched_loop.worst_round())),
            double_holding_node_hung: hung(policy),
            outage_watchdog_dead: lease_without_a_watchdog(policy),
            false_alarm_pause: pause,
            false_alarm_pause_per_hour: per_hour,
        }
    }

    /// The figures as lines for a person.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        [
            ("longest outage, loop frozen before its node leads", &self.outage_loop_already_frozen),
            ("longest outage, loop freezes as its node leads", &self.outage_loop_freezes_then),
            ("longest outage, the same with its process unseen", &self.outage_process_unseen),
            ("longest double holding, watchdog dead", &self.double_holding_watchdog_dead),
            ("longest double holding, loop known to be frozen", &self.double_holding_loop_frozen),
            ("longest double holding, loop slow or just frozen", &self.double_holding_loop_slow),
            ("longest double holding, the node's userland hangs", &self.double_holding_node_hung),
            ("longest outage, watchdog dead and loop healthy", &self.outage_watchdog_dead),
            ("largest false-alarm pause of the loop", &self.false_alarm_pause),
            ("largest false-alarm pause in an hour", &self.false_alarm_pause_per_hour),
        ]
        .into_iter()
        .map(|(name, bound)| match bound {
            Bound::Within { formula, .. } if formula.is_empty() => format!("{name}: none, nothing is done that could cause it"),
            Bound::Within { time, formula } => format!("{name}: {} = {formula}", d(*time)),
            Bound::Unbounded { reason } => format!("{name}: no bound, {reason}"),
        })
        .collect()
    }
}

fn answers(policy: &Policy, verdict: Verdict, step: StepKind) -> bool {
    policy.remedies.get(&verdict).is_some_and(|ladder| ladder.contains(&step))
}

/// One cycle until the new pod has been through a round; the old one may need all of the margin after its kill, or after its
/// grace period.
fn cycle(policy: &Policy) -> [(&'static str, Duration); 4] {
    let killed = policy.cycle.kill_after.filter(|after| *after < POD_GRACE).map(|after| ("cycle.kill_after", after));
    [
        killed.unwrap_or(("grace of the pod", POD_GRACE)),
        ("cycle.death_margin", policy.cycle.death_margin),
        ("cycle.settle", policy.cycle.settle),
        ("start of the pod", POD_START),
    ]
}

/// From the election to the FIP on the new leader: found stalled, the next question to etcd, a proof, the duplicate probe. A
/// loop that is known to be frozen is something that is not well, so etcd is asked at the faster pace already.
fn outage(policy: &Policy, stalled: Option<(&'static str, Duration)>) -> Bound {
    let verdict = Verdict::LoopStalledFipMissing;
    let pace = match stalled {
        None => ("etcd.poll_alert", policy.etcd.poll_alert),
        Some(_) => ("etcd.poll", policy.etcd.poll),
    };
    let seen = stalled.into_iter().chain([pace, ("proof: etcd.deadline", policy.etcd.deadline)]);
    if policy.mode == Mode::Observe {
        unbounded("observe mode changes nothing")
    } else if answers(policy, verdict, StepKind::ApplyAlias) {
        // While another host answers for the FIP it is not out, so on_conflict adds nothing.
        sum(&seen.chain([("duplicate probe", DUPLICATE_PROBE)]).collect::<Vec<_>>())
    } else if answers(policy, verdict, StepKind::CycleManifest) {
        let parts = seen.chain([("limits.confirm", policy.limits.confirm)]).chain(cycle(policy));
        sum(&parts.chain([("worst round", policy.watched_loop.worst_round())]).collect::<Vec<_>>())
    } else {
        unbounded("no remedy for loop_stalled_fip_missing")
    }
}

/// A dead watchdog renews nothing: what it added last goes when its lease ends.
fn lease_left(policy: &Policy) -> Bound {
    let adds = policy.remedies.values().any(|ladder| ladder.contains(&StepKind::ApplyAlias));
    if policy.mode == Mode::Observe || !adds {
        return sum(&[]);
    }
    sum(&[("limits.alias_lease", policy.limits.alias_lease), ("lateness of the kernel", KERNEL_LATENESS)])
}

/// From the leader change to the release: the next question to etcd, a proof; and for a loop that may let go by itself, its
/// own worst round first.
fn orphan(policy: &Policy, pace: (&str, Duration), own_round: Option<Duration>) -> Bound {
    if policy.mode == Mode::Observe {
        unbounded("observe mode changes nothing")
    } else if answers(policy, Verdict::FipOrphaned, StepKind::ReleaseAlias) {
        let parts = own_round.map(|round| ("worst round", round)).into_iter();
        sum(&parts.chain([pace, ("proof: etcd.deadline", policy.etcd.deadline)]).collect::<Vec<_>>())
    } else {
        unbounded("fip_orphaned is not answered by release_alias, and a restarted loop does not remove what its predecessor left")
    }
}

const fn lends(policy: &Policy) -> bool {
    policy.fip.lease_loop_alias && matches!(policy.mode, Mode::Enforce)
}

/// The kernel of a node that hangs goes on answering for whatever addresses it has.
fn hung(policy: &Policy) -> Bound {
    if lends(policy) {
        return sum(&[("limits.alias_lease", policy.limits.alias_lease), ("lateness of the kernel", KERNEL_LATENESS)]);
    }
    unbounded("the alias that the loop put up stays for as long as the node hangs (fip.lease_loop_alias is off)")
}

/// A lease on the loop's alias ends with the watchdog, and the loop notices in its next round.
fn lease_without_a_watchdog(policy: &Policy) -> Bound {
    if !lends(policy) {
        return sum(&[]);
    }
    sum(&[("worst round", policy.watched_loop.worst_round())])
}

fn false_alarm(policy: &Policy) -> Bound {
    let cycles = policy.remedies.values().any(|ladder| ladder.contains(&StepKind::CycleManifest));
    if policy.mode == Mode::Observe || !cycles {
        return sum(&[]);
    }
    sum(&cycle(policy))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn default_policy() -> Policy {
        Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 10), "eth0")
    }

    #[test]
    fn the_default_policy_allows_these_bounds() {
        let lines = Arithmetic::of(&default_policy()).lines();
        assert_eq!(
            lines,
            [
                "longest outage, loop frozen before its node leads: 1950ms = etcd.poll_alert 250ms + proof: etcd.deadline 1500ms + duplicate probe 200ms",
                "longest outage, loop freezes as its node leads: 22700ms = loop.stalled_after 20s + etcd.poll 1s + proof: etcd.deadline 1500ms + duplicate probe 200ms",
                "longest outage, the same with its process unseen: 62700ms = loop.stalled_after_log_only 1m + etcd.poll 1s + proof: etcd.deadline 1500ms + duplicate probe 200ms",
                "longest double holding, watchdog dead: 11s = limits.alias_lease 10s + lateness of the kernel 1s",
                "longest double holding, loop known to be frozen: 1750ms = etcd.poll_alert 250ms + proof: etcd.deadline 1500ms",
                "longest double holding, loop slow or just frozen: 18500ms = worst round 16s + etcd.poll 1s + proof: etcd.deadline 1500ms",
                "longest double holding, the node's userland hangs: no bound, the alias that the loop put up stays for as long as the node hangs (fip.lease_loop_alias is off)",
                "longest outage, watchdog dead and loop healthy: none, nothing is done that could cause it",
                "largest false-alarm pause of the loop: 21500ms = cycle.kill_after 2500ms + cycle.death_margin 15s + cycle.settle 3s + start of the pod 1s",
                "largest false-alarm pause in an hour: 64500ms = 3 cycles an hour x 21500ms",
            ]
        );
    }

    #[test]
    fn a_lease_on_the_loops_alias_bounds_a_hung_node_and_has_its_price() {
        let mut policy = default_policy();
        policy.fip.lease_loop_alias = true;
        let arithmetic = Arithmetic::of(&policy);
        assert!(matches!(arithmetic.double_holding_node_hung, Bound::Within { time, .. } if time == Duration::from_secs(11)));
        assert!(matches!(arithmetic.outage_watchdog_dead, Bound::Within { time, .. } if time == Duration::from_secs(16)));
    }

    #[test]
    fn observe_mode_bounds_no_outage_and_causes_no_pause() {
        let observe = Arithmetic::of(&Policy { mode: Mode::Observe, ..default_policy() });
        assert!(matches!(observe.outage_loop_already_frozen, Bound::Unbounded { .. }));
        assert!(matches!(observe.false_alarm_pause, Bound::Within { time: Duration::ZERO, .. }));
    }

    #[test]
    fn without_the_alias_step_an_outage_lasts_as_long_as_a_cycle() {
        let mut policy = default_policy();
        policy.remedies.insert(Verdict::LoopStalledFipMissing, vec![StepKind::CycleManifest]);
        let Bound::Within { time, .. } = Arithmetic::of(&policy).outage_loop_already_frozen else { panic!("bounded") };
        assert_eq!(time, Duration::from_millis(250 + 1500 + 5000 + 21_500 + 16_000));
        policy.cycle.kill_after = None;
        let Bound::Within { time, .. } = Arithmetic::of(&policy).outage_loop_already_frozen else { panic!("bounded") };
        assert_eq!(time, Duration::from_millis(250 + 1500 + 5000 + 49_000 + 16_000));
        policy.remedies.remove(&Verdict::LoopStalledFipMissing);
        assert!(matches!(Arithmetic::of(&policy).outage_loop_already_frozen, Bound::Unbounded { .. }));
    }
}
