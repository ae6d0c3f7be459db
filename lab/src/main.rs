//! The `fip-lab` binary: parse, dispatch, exit code.

fn main() {}
