//! Where scenarios are, and reading them.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use super::check;
use super::file::Scenario;

/// No scenario is anywhere near as long; what is may be no file at all, as `/dev/zero`.
const FILE_BYTES_MAX: u64 = 1 << 20;
const NO_DIRECTORY: &str =
    "there is no directory of scenarios here: go to a checkout, name it in FIP_LAB_SCENARIOS, or give a file's path";

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
    found.with_context(|| {
        if directories().iter().any(|directory| directory.is_dir()) {
            format!("no scenario `{name}`; `fip-lab list` shows them all")
        } else {
            format!("no scenario `{name}`: {NO_DIRECTORY}")
        }
    })
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
        let text = crate::cli::read_bounded(&path, FILE_BYTES_MAX)?;
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
    let directory = directories().into_iter().find(|directory| directory.is_dir()).context(NO_DIRECTORY)?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let Some(scenarios) = load(&names)? else { return Ok(ExitCode::from(super::REFUSED)) };
    crate::cli::print(&if json { document(&scenarios) } else { text(&scenarios) })?;
    Ok(ExitCode::SUCCESS)
}

fn document(scenarios: &[Scenario]) -> String {
    let one = |one: &Scenario| serde_json::json!({ "name": one.name.value, "story": one.story.trim(), "cases": one.cases });
    serde_json::Value::from(scenarios.iter().map(one).collect::<Vec<_>>()).to_string() + "\n"
}

fn text(scenarios: &[Scenario]) -> String {
    let mut out = String::new();
    for scenario in scenarios {
        out.push_str(&format!("{}\n", scenario.name.value));
        for line in super::paint::fold(&scenario.story, 92) {
            out.push_str(&format!("    {line}\n"));
        }
    }
    out.push_str("\nincidents (tests/cases/) and the scenarios that replay them\n");
    for (case, names) in by_case(scenarios) {
        out.push_str(&format!("{case:>4}  {}\n", names.join(", ")));
    }
    out
}

/// Each incident with the scenarios that replay it.
fn by_case(scenarios: &[Scenario]) -> BTreeMap<u8, Vec<&str>> {
    let mut cases: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
    for scenario in scenarios {
        for case in &scenario.cases {
            cases.entry(*case).or_default().push(&scenario.name.value);
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Incidents that need real nodes to be believed.
    const IN_THE_LAB: [u8; 24] = [1, 5, 7, 9, 12, 13, 14, 17, 18, 20, 21, 23, 26, 27, 28, 34, 35, 36, 37, 38, 41, 45, 46, 48];

    fn all() -> Vec<Scenario> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<String> = entries.map(|path| path.display().to_string()).collect();
        paths.sort();
        load(&paths).unwrap().unwrap()
    }

    #[test]
    fn every_incident_that_needs_real_nodes_has_a_scenario() {
        let scenarios = all();
        let cases = by_case(&scenarios);
        let missing: Vec<u8> = IN_THE_LAB.into_iter().filter(|case| !cases.contains_key(case)).collect();
        assert!(missing.is_empty(), "no scenario says `cases: [N]` for {missing:?}");
    }

    #[test]
    fn a_scenario_that_is_named_after_an_incident_says_its_number() {
        for scenario in all() {
            let name = &scenario.name.value;
            let Some(number) = name.strip_prefix("case-").and_then(|rest| rest.split('-').next()?.parse().ok()) else { continue };
            assert!(scenario.cases.contains(&number), "{name} does not say `cases: [{number}]`");
        }
    }
}
