//! The parts of the decision core, each by itself: what a reading comes to, and what each condition forbids.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod budget;
mod facts;
mod ladder;
mod machine;
mod reasons;
mod safety;
mod scene;
mod sight;
mod upkeep;
