//! Where scenarios are, and reading them.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use super::check;
use super::file::Scenario;

/// Where names are looked up: the environment's directory, then a checkout's, then the working directory's.
fn directories() -> Vec<PathBuf> {
    let own = std::env::var_os("FIP_LAB_SCENARIOS").map(PathBuf::from);
    own.into_iter().chain(["lab/scenarios", "scenarios"].map(PathBuf::from)).collect()
}

fn path_of(name: &str) -> anyhow::Result<PathBuf> {
    if name.contains('/') || Path::new(name).extension().is_some_and(|extension| extension == "yaml") {
        return Ok(PathBuf::from(name));
    }
    let found = directories().into_iter().map(|directory| directory.join(format!("{name}.yaml"))).find(|path| path.is_file());
    found.with_context(|| format!("no scenario `{name}`; `fip-lab list` shows them all"))
}

/// Reads all of them. None if one was refused; why is on standard error.
///
/// # Errors
/// A file cannot be found or read.
pub fn load(names: &[String]) -> anyhow::Result<Option<Vec<Scenario>>> {
    let mut scenarios = Vec::new();
    let mut refused = false;
    for name in names {
        let path = path_of(name)?;
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        match check::parse(&text, &path) {
            Ok(scenario) => scenarios.push(scenario),
            Err(flaws) => {
                refused = true;
                let mut err = io::stderr().lock();
                for flaw in flaws {
                    writeln!(err, "{}:{flaw}", path.display())?;
                }
            }
        }
    }
    Ok((!refused).then_some(scenarios))
}

/// Prints every scenario with its story.
///
/// # Errors
/// There is no directory of scenarios, or standard output is gone.
pub fn list(json: bool) -> anyhow::Result<ExitCode> {
    let directory = directories().into_iter().find(|directory| directory.is_dir()).context("no directory of scenarios here")?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let Some(scenarios) = load(&names)? else { return Ok(ExitCode::from(super::REFUSED)) };
    let mut out = String::new();
    if json {
        let list: Vec<_> =
            scenarios.iter().map(|one| serde_json::json!({ "name": one.name.value, "story": one.story.trim() })).collect();
        out = serde_json::Value::from(list).to_string() + "\n";
    } else {
        for scenario in &scenarios {
            out.push_str(&format!("{}\n", scenario.name.value));
            for line in super::paint::fold(&scenario.story, 92) {
                out.push_str(&format!("    {line}\n"));
            }
        }
    }
    super::print(&out);
    Ok(ExitCode::SUCCESS)
}
