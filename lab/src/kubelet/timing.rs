//! Every period of a real kubelet that the stand-in keeps, as measured on kubelet 1.36 and 1.32 with containerd.
//! Owns one invariant: a test that scales time scales all of it, so the order of events stays the same.

use std::time::Duration;

/// Time since the stand-in started, by the monotonic clock.
pub type Stamp = Duration;

/// A range that a measured delay falls into.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// The shortest delay that was seen.
    pub min: Duration,
    /// The longest delay that was seen.
    pub max: Duration,
}

impl Range {
    const fn of_ms(min: u64, max: u64) -> Self {
        Self { min: Duration::from_millis(min), max: Duration::from_millis(max) }
    }

    fn scaled(self, scale: f64) -> Self {
        Self { min: self.min.mul_f64(scale), max: self.max.mul_f64(scale) }
    }

    /// The point of the range that belongs to `seed`: spread out, and the same in each run.
    #[must_use]
    pub fn pick(self, seed: u64) -> Duration {
        let thousandth = u32::try_from(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).unwrap_or(0) % 1000;
        self.min + (self.max.saturating_sub(self.min)) * thousandth / 1000
    }
}

/// The measured periods, scaled.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The whole scale; also applies to a pod's grace period.
    pub scale: f64,
    /// Housekeeping: forgets ended pods and restarts those that came back meanwhile.
    pub tick: Duration,
    /// Full list of the manifest directory.
    pub list: Duration,
    /// KILL never comes sooner after TERM than this, whatever the grace period says.
    pub grace_min: Duration,
    /// A pod that was forgotten runs again this long after its manifest is back.
    pub start: Range,
    /// A container that died alone runs again after this (plus its back-off).
    pub restart: Range,
    /// How much later than its back-off a restart really came: the pod is only looked at now and then.
    pub backoff_slack: Range,
    /// New content of a manifest starts this long after the old pod's end.
    pub replacement: Range,
    /// From the death of a container to the end of its record and its cgroup.
    pub record: Range,
    /// The same when no housekeeping saw the pod missing before the container died.
    pub record_late: Range,
    /// From the end of the record to the end of the pod's log directory.
    pub log_dir: Range,
    /// A container whose manifest went while the kubelet was down is killed this long after the start.
    pub orphan: Duration,
    /// First back-off after a restart; doubles each time.
    pub backoff_first: Duration,
    /// Where the doubling ends.
    pub backoff_max: Duration,
    /// A back-off is forgotten after this quiet time.
    pub backoff_quiet: Duration,
    /// How soon a kill or a start that failed is tried again.
    pub retry: Duration,
}

impl Timing {
    /// The measured periods with `tick` and `list` as given, all multiplied by `scale`.
    #[must_use]
    pub fn new(tick: Duration, list: Duration, scale: f64) -> Self {
        let seconds = |n: u64| Duration::from_secs(n).mul_f64(scale);
        Self {
            scale,
            tick: tick.mul_f64(scale),
            list: list.mul_f64(scale),
            grace_min: seconds(2),
            start: Range::of_ms(300, 900).scaled(scale),
            restart: Range::of_ms(200, 900).scaled(scale),
            backoff_slack: Range::of_ms(1_000, 10_000).scaled(scale),
            replacement: Range::of_ms(7_000, 12_000).scaled(scale),
            record: Range::of_ms(300, 900).scaled(scale),
            record_late: Range::of_ms(20_000, 50_000).scaled(scale),
            log_dir: Range::of_ms(20_000, 60_000).scaled(scale),
            orphan: Duration::from_millis(2_400).mul_f64(scale),
            backoff_first: seconds(10),
            backoff_max: seconds(300),
            backoff_quiet: seconds(600),
            retry: seconds(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picked_delay_is_in_its_range_and_not_always_the_same() {
        let range = Range::of_ms(300, 900);
        let picks: std::collections::BTreeSet<Duration> = (0..50).map(|seed| range.pick(seed)).collect();
        assert!(picks.iter().all(|delay| *delay >= range.min && *delay <= range.max));
        assert!(picks.len() > 20, "only {} different delays", picks.len());
    }
}
