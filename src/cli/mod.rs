//! The subcommands, one file each. They print and choose exit codes; everything else is in the library.

pub mod check;
pub mod command;
pub mod diagnose;
pub mod explain;
pub mod history;
pub mod init;
pub mod manual;
pub mod pause;
pub mod run;
pub mod schema;
pub mod screen;
pub mod status;

use std::io::{self, Write};

use crate::audit::text::clip;

/// `EX_UNAVAILABLE` of sysexits(3): the daemon is not running, or does not answer.
pub const EXIT_UNAVAILABLE: u8 = 69;

/// `EX_NOPERM`: the socket is root's.
pub const EXIT_NOT_PERMITTED: u8 = 77;

/// `EX_USAGE`: a value is out of its bounds.
pub const EXIT_USAGE: u8 = 64;

/// Longest line of a message, in bytes.
const LINE_BYTES_MAX: usize = 4000;

/// A message for the person, apart from the output that a script may read. What another program said moves no cursor in it.
pub fn complain(message: &str) {
    // Nobody may be left to read it; the exit code says it too.
    let lines: Vec<String> = message.lines().map(|line| clip(line, LINE_BYTES_MAX)).collect();
    writeln!(io::stderr(), "fip-watchdog: {}", lines.join("\n")).ok();
}
