//! A node of the lab, as scenarios and timelines name it: `cp1`, `cp2`, …

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Most nodes that a timeline can hold.
pub const NODES_MAX: usize = 9;

/// One node, by number from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u8);

impl Node {
    /// The node `cp<number>`.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// Its number, from 1.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its place in an array of nodes, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.saturating_sub(1) as usize
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cp{}", self.0)
    }
}

/// The text names no node.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no node: cp1, cp2, cp3 …")]
pub struct NotANode(String);

impl FromStr for Node {
    type Err = NotANode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_prefix("cp").and_then(|n| n.parse::<u8>().ok());
        number.filter(|n| (1..=NODES_MAX).contains(&usize::from(*n))).map(Self).ok_or_else(|| NotANode(text.to_owned()))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_strangers_are_refused() {
        assert_eq!("cp2".parse::<Node>().unwrap().to_string(), "cp2");
        for wrong in ["", "cp", "cp0", "cp10", "cp-1", "CP1", "node1"] {
            assert!(wrong.parse::<Node>().is_err(), "{wrong}");
        }
    }
}
