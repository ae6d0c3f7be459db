//! The `fip-watchdog` binary: parse, dispatch, exit code.

fn main() {}
