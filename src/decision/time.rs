//! A point in time that cannot jump: what every age in this crate is measured with.

use std::ops::Add;
use std::time::Duration;

/// A stamp of the daemon's own monotonic clock, counted from an arbitrary origin.
///
/// Ages come from these stamps alone (invariant I4): never from a file's mtime, never from the wall
/// clock in a log line. The decision core is handed stamps; only `runtime::clock` makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The stamp that lies `since_origin` after the clock's origin.
    #[must_use]
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// The time since the clock's origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// How long before `self` the stamp `earlier` was; zero if it lies in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}
