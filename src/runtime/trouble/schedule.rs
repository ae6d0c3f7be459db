//! When etcd is diagnosed in a trouble: soon, then at growing distances, and again when the trouble changes. Pure.

use std::time::Duration;

use crate::decision::time::Moment;

/// Between the beginnings of two diagnoses, one after the other; the last one goes on. A look costs some sockets and a page of
/// metrics, and what a person does about a link takes minutes.
const PERIODS: [Duration; 3] = [Duration::from_secs(15), Duration::from_secs(30), Duration::from_secs(60)];

/// How many there were, and when the last one began.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    last: Option<Moment>,
    done: usize,
}

impl Schedule {
    /// Whether one is due, and if so it counts as begun. `settled_at` is when the verdict of now will have held long enough: another verdict
    /// brings the next one forward, but never closer than the shortest distance.
    pub(super) fn take_due(&mut self, settled_at: Moment, now: Moment) -> bool {
        if now < self.due_at(settled_at) {
            return false;
        }
        self.last = Some(now);
        self.done = self.done.saturating_add(1);
        true
    }

    fn due_at(&self, settled_at: Moment) -> Moment {
        let [shortest, .., longest] = PERIODS;
        let Some(last) = self.last else { return settled_at };
        let period = PERIODS.get(self.done.saturating_sub(1)).copied().unwrap_or(longest);
        if settled_at > last { settled_at.max(last + shortest).min(last + period) } else { last + period }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(seconds))
    }

    fn begun(settled_at: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut schedule = Schedule::default();
        (0..300).filter(|second| schedule.take_due(at(settled_at(*second)), at(*second))).collect()
    }

    #[test]
    fn the_distances_grow_to_a_minute_and_stay_there() {
        assert_eq!(begun(|_| 4), [4, 19, 49, 109, 169, 229, 289]);
    }

    #[test]
    fn another_verdict_brings_the_next_one_forward() {
        assert_eq!(begun(|second| if second < 120 { 4 } else { 124 })[..5], [4, 19, 49, 109, 124]);
    }

    #[test]
    fn a_verdict_that_changes_again_and_again_does_not_make_it_more_often_than_the_shortest_distance() {
        let seconds = begun(|second| second.max(4));
        assert_eq!(seconds.first(), Some(&4));
        assert!(seconds.windows(2).all(|pair| pair[1] - pair[0] == 15), "{seconds:?}");
    }
}
