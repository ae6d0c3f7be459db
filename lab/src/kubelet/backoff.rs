//! Crash back-off of one container: 0, 10, 20, 40 … 300 s.
//! Lives in memory only: it survives a clean cycle of the pod and is lost with the kubelet's process.

use std::time::Duration;

use super::timing::{Stamp, Timing};

/// What the next restart has to wait for.
#[derive(Debug, Default, Clone)]
pub struct Backoff {
    delay: Duration,
    last: Option<Stamp>,
}

impl Backoff {
    /// The delay that the restart at hand has to keep since the container's death; the next one keeps twice that.
    pub fn next(&mut self, now: Stamp, timing: &Timing) -> Duration {
        if self.is_quiet(now, timing) {
            self.delay = Duration::ZERO;
        }
        let delay = self.delay;
        self.delay = if delay.is_zero() { timing.backoff_first } else { (delay * 2).min(timing.backoff_max) };
        self.last = Some(now);
        delay
    }

    /// Nothing of it is left to remember.
    #[must_use]
    pub fn is_quiet(&self, now: Stamp, timing: &Timing) -> bool {
        self.last.is_none_or(|last| now.saturating_sub(last) > timing.backoff_quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_from_ten_seconds_to_five_minutes_and_goes_after_ten_quiet_minutes() {
        let timing = Timing::new(Duration::from_secs(2), Duration::from_secs(20), 1.0);
        let mut backoff = Backoff::default();
        let mut now = Duration::ZERO;
        let mut delays = Vec::new();
        for _ in 0..8 {
            let delay = backoff.next(now, &timing);
            delays.push(delay.as_secs());
            now += delay + Duration::from_secs(1);
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff.next(now + Duration::from_secs(601), &timing), Duration::ZERO);
    }
}
