//! The subcommands, one file each. They write to what they are handed, so that tests can read it.

pub mod check;
pub mod init;
pub mod schema;
