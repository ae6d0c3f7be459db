//! The manifest cycle.
