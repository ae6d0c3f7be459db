//! fip-sim: runs schedules by seed, and shows one.

use std::process::ExitCode;

fn main() -> ExitCode {
    fip_sim::cli::main()
}
