//! How long this process did not run while it waited for something.
//!
//! Invariant: an answer that was asked for before a gap of this process is known as such, however short the wait was by
//! its own deadline: two beats of a timer lie further apart than they should, by one clock or the other. A wait that is over
//! within a beat costs nothing. Cancel-safe if what is awaited is.

use std::future::Future;
use std::time::Duration;

use super::clock;
use crate::decision::time::Moment;

/// Between two beats. A gap is known to this precision.
const BEAT: Duration = Duration::from_millis(100);

/// Measures by both clocks: `CLOCK_MONOTONIC` stands still while the machine is suspended.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    monotonic: Moment,
    boottime: Duration,
}

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { monotonic: clock::now(), boottime: clock::boottime() }
    }

    /// The time since the start, by the clock that saw more of it.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.by_monotonic().max(clock::boottime().saturating_sub(self.boottime))
    }

    fn by_monotonic(&self) -> Duration {
        clock::now().since(self.monotonic)
    }
}

/// The longest gap in which this process did not run, without the beat that it waited anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Absence {
    /// By `CLOCK_MONOTONIC`.
    pub late: Duration,
    /// By the clock that saw more of it.
    pub in_all: Duration,
}

impl Absence {
    fn note(&mut self, awake: Stopwatch) {
        self.late = self.late.max(awake.by_monotonic().saturating_sub(BEAT));
        self.in_all = self.in_all.max(awake.elapsed().saturating_sub(BEAT));
    }
}

/// Awaits `work`, and tells the longest gap in it.
pub async fn attended<F: Future>(work: F) -> (F::Output, Absence) {
    tokio::pin!(work);
    let (mut absence, mut awake) = (Absence::default(), Stopwatch::start());
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                absence.note(awake);
                return (done, absence);
            }
            () = tokio::time::sleep(BEAT) => {
                absence.note(awake);
                awake = Stopwatch::start();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::{Clocks, simulate};
    use super::*;

    fn clocks(monotonic: u64, boottime: u64) -> Clocks {
        let ms = Duration::from_millis;
        Clocks { now: Moment::from_origin(ms(monotonic)), boottime: ms(boottime), wall: ms(boottime) }
    }

    /// What `attended` says of a wait in which the clocks jump once, before it is over.
    async fn with_a_jump(monotonic: u64, boottime: u64) -> Absence {
        simulate(Some(clocks(1_000, 1_000)));
        let ((), absence) = attended(async {
            tokio::task::yield_now().await;
            simulate(Some(clocks(1_000 + monotonic, 1_000 + boottime)));
        })
        .await;
        simulate(None);
        absence
    }

    #[tokio::test(start_paused = true)]
    async fn a_gap_shorter_than_any_deadline_is_known_by_its_length() {
        let absence = with_a_jump(900, 900).await;
        assert_eq!((absence.late.as_millis(), absence.in_all.as_millis()), (800, 800));
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspend_is_known_although_the_monotonic_clock_stood_still() {
        let absence = with_a_jump(50, 20_000).await;
        assert_eq!((absence.late.as_millis(), absence.in_all.as_millis()), (0, 19_900));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_its_time_is_no_gap() {
        simulate(Some(clocks(0, 0)));
        let began = tokio::time::Instant::now();
        let work = tokio::time::sleep(Duration::from_secs(5));
        let ticking = async {
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                let passed = u64::try_from(began.elapsed().as_millis()).unwrap();
                simulate(Some(clocks(passed, passed)));
            }
        };
        let absence = tokio::select! {
            biased;
            () = ticking => unreachable!("it ticks for ever"),
            ((), absence) = attended(work) => absence,
        };
        simulate(None);
        assert!(absence.in_all < Duration::from_millis(50), "{absence:?}");
    }
}
