//! The model's clock and the policy's durations in ticks, small enough that states repeat.
//!
//! What matters is the order of the durations, and that is the default policy's: a proof is younger than a round of the loop,
//! a round shorter than the lease, a stall longer than a round, a cooldown longer than a cycle.

use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::decision::time::Moment;
use fip_watchdog::policy::Policy;

/// An age or a duration in ticks.
pub type Ticks = u8;

/// One tick: one round of the loop, and of the watchdog.
pub const TICK: Duration = Duration::from_secs(2);
/// The lease of an alias.
pub const LEASE: Ticks = 4;
/// How old a proof may be when a step starts: under a tick, so that a stop of one tick, too short to be noticed as a
/// pause, makes it too old.
pub const PROOF_AGE: Ticks = 0;
/// A proof of this age is too old.
pub const PROOF_TOO_OLD: Ticks = PROOF_AGE + 1;
/// Loop frozen for this long: stalled.
pub const STALLED_AFTER: Ticks = 4;
/// Interval, query time-out and a second.
pub const WORST_ROUND: Ticks = 2;
/// A daemon that did not run for this long notices; below, it does not.
pub const GAP_NOTICED: Ticks = 2;
/// How long a cut-off member's answers stay as they were: 2 s as measured, of a lease of 10 s.
pub const STALE_CLAIM: Ticks = 2;
/// Between two cycles.
pub const COOLDOWN: Ticks = 7;
/// Cycles in an hour; the model's time never leaves the hour.
pub const CYCLES: usize = 2;
/// How long a cycle waits for the old pod's death, and for the new pod's first round.
pub const CYCLE_WAIT: Ticks = 3;
/// The manifest has been out for so long: the loop, if it still lives, is killed.
pub const KILL_AFTER: Ticks = 1;
/// Ages end here: beyond every threshold above, and beyond the longest cycle.
pub const HORIZON: Ticks = 9;
/// After this many quiet ticks a proven leader must have the FIP, and nobody else.
pub const PATIENCE: Ticks = 9;

/// The model's one `now`.
pub const NOW: Moment = Moment::from_origin(Duration::from_secs(100_000));

/// The stamp that is `age` old.
#[must_use]
pub fn ago(age: Ticks) -> Moment {
    Moment::from_origin(NOW.since_origin().saturating_sub(ticks(age)))
}

/// That many ticks.
#[must_use]
pub const fn ticks(count: Ticks) -> Duration {
    Duration::from_secs(2 * count as u64)
}

/// One tick older, up to the horizon.
#[must_use]
pub fn older(age: Ticks) -> Ticks {
    age.saturating_add(1).min(HORIZON)
}

/// The default policy, its durations in ticks.
#[must_use]
pub fn policy() -> Policy {
    let mut policy = Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 10), "eth0");
    // With the two seconds that a round's other reads may take: readings are from before a pause after one tick.
    policy.etcd.deadline = Duration::from_secs(1);
    let watched = &mut policy.watched_loop;
    watched.interval = ticks(1);
    // And one second for the rest of the round: WORST_ROUND.
    watched.query_timeout = Duration::from_secs(1);
    watched.stalled_after = ticks(STALLED_AFTER);
    watched.stalled_after_log_only = ticks(6);
    let limits = &mut policy.limits;
    limits.confirm = ticks(1);
    limits.cooldown = ticks(COOLDOWN);
    limits.cycles_per_hour = u32::try_from(CYCLES).unwrap_or(u32::MAX);
    limits.alias_lease = ticks(LEASE);
    limits.alias_cooldown = ticks(1);
    limits.alias_per_hour = u32::MAX;
    limits.proof_max_age = TICK / 2;
    limits.grace = ticks(2);
    // Each with the time of a stall after it below the horizon.
    policy.host.calm_after = ticks(1);
    policy.host.starved_max = ticks(3);
    policy
}
