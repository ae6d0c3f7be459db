//! The runbook knows every verdict and every cause: whoever is woken by one finds it there.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fs;
use std::path::Path;

use fip_watchdog::decision::verdict::Verdict;

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// `PeerUnreachable` as `peer_unreachable`, which is how serde spells it in JSON.
fn snake_case(name: &str) -> String {
    let mut spelt = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !spelt.is_empty() {
            spelt.push('_');
        }
        spelt.push(character.to_ascii_lowercase());
    }
    spelt
}

#[test]
fn every_verdict_and_every_cause_has_a_row() {
    let runbook = text("docs/runbook.md");
    let source = text("src/diagnose/diagnosis.rs");
    let (_, causes) = source.split_once("pub enum Cause {").unwrap();
    let (causes, _) = causes.split_once("\n}").unwrap();
    let causes: Vec<String> = causes
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|line| !line.contains(' '))
        .map(snake_case)
        .collect();
    assert!(causes.len() > 30 && causes.contains(&"peer_unreachable".to_owned()), "{causes:?}");
    for name in causes.iter().map(String::as_str).chain(Verdict::ALL.map(Verdict::name)) {
        let named = runbook.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{name}`")));
        assert!(named, "docs/runbook.md has no row with `{name}`");
    }
}
