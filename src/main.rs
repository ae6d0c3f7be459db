//! The `fip-watchdog` binary: parse, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use fip_watchdog::cli::command::Cli;
use fip_watchdog::cli::complain;

/// `EX_USAGE` and `EX_SOFTWARE` of sysexits(3).
const EX_USAGE: u8 = 64;
const EX_SOFTWARE: u8 = 70;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // Nobody may be left to read it.
            error.print().ok();
            return if asked { ExitCode::SUCCESS } else { ExitCode::from(EX_USAGE) };
        }
    };
    match cli.dispatch() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(EX_SOFTWARE)
        }
    }
}
