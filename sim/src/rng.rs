//! Numbers by seed: the same on every machine and in every version of every crate.
//!
//! SplitMix64 (Steele, Lea, Flood 2014): passes `BigCrush`, eight lines, no state but one word.

use crate::Ms;

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: Ms, high: Ms) -> Ms {
        low + self.bits() % (high - low + 1)
    }

    /// An index below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.bits() % count.max(1) as u64).unwrap_or(0)
    }

    /// True in so many of a hundred.
    pub const fn percent(&mut self, chance: u64) -> bool {
        self.bits() % 100 < chance
    }
}
