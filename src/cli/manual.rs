//! `man` and `completions`: made from the command line's own description, so that they cannot disagree with it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

/// Write the manual pages.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write one page a subcommand into this directory; without it the main page goes to standard output.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Write a completion script to standard output.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell.
    pub shell: Shell,
}

/// Writes the manual.
///
/// # Errors
/// The output cannot be written.
pub fn man(args: &ManArgs, command: Command, out: &mut impl Write) -> io::Result<()> {
    match &args.out {
        None => clap_mangen::Man::new(command).render(out),
        Some(dir) => pages(command, dir),
    }
}

/// Administrators' commands are in section 8.
fn pages(mut command: Command, dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    command.build();
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help").cloned();
    for command in std::iter::once(command.clone()).chain(subcommands.collect::<Vec<_>>()) {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let mut page = Vec::new();
        clap_mangen::Man::new(command).title(name.to_uppercase()).section("8").render(&mut page)?;
        std::fs::File::create(dir.join(format!("{name}.8")))?.write_all(&page)?;
    }
    Ok(())
}

/// Writes a completion script.
pub fn completions(args: &CompletionsArgs, mut command: Command, out: &mut impl Write) {
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, out);
}
