//! Style that the compiler cannot check: what the decision core must not know, and sizes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fs;
use std::path::{Path, PathBuf};

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("cannot list {}: {error}", dir.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn source(dir: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut found);
    assert!(!found.is_empty(), "{dir} holds no Rust file");
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Words that a pure module has no use for. The policy's values are allowed, its files are not.
const IO: [&str; 18] = [
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::os",
    "std::io",
    "std::process",
    "std::thread",
    "std::env",
    "SystemTime",
    "Instant",
    "tokio",
    "tracing",
    "rustix",
    "async ",
    "await",
    "crate::runtime",
    "crate::sensor",
    // What is wrong with etcd is for people: no diagnosis changes a plan.
    "diagnos",
];

#[test]
fn the_decision_core_knows_no_clock_no_file_no_socket() {
    for (path, text) in source("src/decision") {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for word in IO {
                assert!(!line.contains(word), "{}:{}: the decision core must not use `{word}`", path.display(), number + 1);
            }
        }
    }
}

#[test]
fn the_check_for_io_finds_io() {
    let (_, clock) = source("src/runtime").into_iter().find(|(path, _)| path.ends_with("clock.rs")).unwrap();
    assert!(IO.iter().any(|word| clock.contains(word)), "the clock module must contain a forbidden word");
}

#[test]
fn the_decision_core_keeps_order_deterministic() {
    for (path, text) in source("src/decision") {
        assert!(!text.contains("HashMap") && !text.contains("HashSet"), "{}: use BTreeMap or BTreeSet", path.display());
    }
}

#[test]
fn no_source_file_is_longer_than_400_lines() {
    for dir in ["src", "lab/src", "model/src", "sim/src", "tests", "model/tests"] {
        for (path, text) in source(dir) {
            assert!(text.lines().count() <= 400, "{}: {} lines", path.display(), text.lines().count());
        }
    }
}

#[test]
fn every_module_says_what_it_is_for() {
    for dir in ["src", "lab/src", "model/src", "sim/src", "tests", "model/tests"] {
        for (path, text) in source(dir) {
            assert!(text.starts_with("//!"), "{}: begins without `//!`", path.display());
        }
    }
}
