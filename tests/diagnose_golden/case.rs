//! A case: evidence as a difference from a healthy node's, and what is expected of it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fip_watchdog::diagnose::{Diagnosis, Evidence, Link, Mark};
use serde_json::{Map, Value};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnose")
}

/// Directories that hold a case, in order.
pub fn all() -> Vec<PathBuf> {
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> = entries.filter(|path| path.join("evidence.yaml").is_file()).collect();
    cases.sort();
    cases
}

fn yaml(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The evidence of a case.
pub fn evidence(case: &Path) -> Evidence {
    let mut patch = yaml(&case.join("evidence.yaml"));
    let patch_map = patch.as_object_mut().unwrap();
    let like = patch_map.remove("like").unwrap_or_else(|| Value::from("three"));
    let mut whole = yaml(&root().join("like").join(format!("{}.yaml", like.as_str().unwrap())));
    merge(&mut whole, patch);
    serde_json::from_value(whole).unwrap_or_else(|error| panic!("{}: {error}", case.display()))
}

/// Maps key by key; one alternative of an enum (`yes`, `no`) replaces another; a list of members takes a map by name.
fn merge(whole: &mut Value, patch: Value) {
    match (whole, patch) {
        (Value::Object(whole), Value::Object(patch)) => merge_maps(whole, patch),
        (Value::Array(peers), Value::Object(patch)) => {
            for (name, patch) in patch {
                let named = |peer: &&mut Value| peer["member"]["name"] == name.as_str();
                merge(peers.iter_mut().find(named).unwrap_or_else(|| panic!("no peer {name}")), patch);
            }
        }
        (whole, patch) => *whole = patch,
    }
}

fn merge_maps(whole: &mut Map<String, Value>, patch: Map<String, Value>) {
    if patch.contains_key("no") {
        whole.remove("yes");
    }
    if patch.contains_key("yes") {
        whole.remove("no");
    }
    for (key, value) in patch {
        if value.is_null() {
            whole.remove(&key);
        } else {
            merge(whole.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// What `expected.yaml` says of a diagnosis.
pub fn rendered(diagnosis: &Diagnosis) -> String {
    let outcome = serde_json::to_string(&diagnosis.outcome).unwrap();
    let mut text = format!("cause: {}\noutcome: {}\n", diagnosis.cause.name(), outcome.trim_matches('"'));
    if !diagnosis.also.is_empty() {
        let also: Vec<_> = diagnosis.also.iter().map(|cause| cause.name()).collect();
        writeln!(text, "also: [{}]", also.join(", ")).unwrap();
    }
    writeln!(text, "sentence: |-\n  {}", diagnosis.sentence).unwrap();
    writeln!(text, "links:{}", if diagnosis.links.is_empty() { " []" } else { "" }).unwrap();
    for link in &diagnosis.links {
        writeln!(text, "  - {}", line(link)).unwrap();
    }
    let marked = |mark: Mark| {
        diagnosis.checks.iter().filter(|check| check.mark == mark).map(|check| check.name.as_str()).collect::<Vec<_>>()
    };
    for (word, mark) in [("bad", Mark::Bad), ("warn", Mark::Warn), ("unseen", Mark::Unseen)] {
        writeln!(text, "{word}: [{}]", marked(mark).join(", ")).unwrap();
    }
    writeln!(text, "good: {}", marked(Mark::Good).len()).unwrap();
    writeln!(text, "next: {}", diagnosis.next.first().map_or("none", String::as_str)).unwrap();
    text
}

fn line(link: &Link) -> String {
    let address = link.address.map_or_else(|| "?".to_owned(), |address| address.to_string());
    let shows =
        link.shows.as_ref().map_or_else(|| "not seen from there".to_owned(), |shows| serde_json::to_string(shows).unwrap());
    format!("{} -> {} {address}:{} {}", link.from, link.to, link.port, shows.trim_matches('"'))
}
