//! `fip-watchdog schema`: JSON Schema of the policy, for editors.

use std::io::{self, Write};

use crate::policy::json_schema::json_schema;

/// Writes the schema.
///
/// # Errors
/// The writer's own, but for a reader that went away.
pub fn run(out: &mut impl Write) -> io::Result<()> {
    super::check::unless_reader_gone(writeln!(out, "{:#}", json_schema()))
}
