//! The policies that ship are tests: they are valid, and the default one is the reference for every key.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use fip_watchdog::decision::step::StepKind;
use fip_watchdog::policy::load::load;
use fip_watchdog::policy::remedies::{spell, steps_for};
use fip_watchdog::policy::schema::{KEYS, Value};
use fip_watchdog::policy::{Mode, Policy};

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name)
}

fn policy(name: &str) -> Policy {
    load(&shipped(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn defaults() -> Policy {
    Policy::with_defaults(Ipv4Addr::new(192, 168, 111, 200), "eth0")
}

#[test]
fn the_default_policy_says_what_the_program_does_without_it() {
    assert_eq!(policy("default.yaml"), defaults());
}

/// The comment lines right above each key of a file, by path.
fn commented_keys(text: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut comment = String::new();
    let mut keys = Vec::new();
    for line in text.lines() {
        let inner = line.trim_start();
        if let Some(words) = inner.strip_prefix('#') {
            comment.push_str(words);
        } else if let Some((name, value)) = inner.split_once(':') {
            let nested = line.len() > inner.len();
            if nested {
                keys.push((format!("{section}.{name}"), std::mem::take(&mut comment)));
            } else if value.trim().is_empty() {
                section = name.to_owned();
                comment.clear();
            } else {
                keys.push((name.to_owned(), std::mem::take(&mut comment)));
            }
        } else {
            comment.clear();
        }
    }
    keys
}

#[test]
fn the_default_policy_explains_every_key_with_its_default_and_its_range() {
    let text = std::fs::read_to_string(shipped("default.yaml")).unwrap();
    let keys = commented_keys(&text);
    let in_table: Vec<_> = KEYS.iter().map(|key| key.path.to_owned()).collect();
    let in_file: Vec<_> = keys.iter().map(|(path, _)| path.clone()).filter(|path| !path.starts_with("remedies.")).collect();
    assert_eq!(in_file, in_table, "keys, in order");
    for key in KEYS {
        let (_, comment) = keys.iter().find(|(path, _)| path == key.path).unwrap();
        assert!(comment.contains(&format!("Allowed: {}.", key.allowed())), "{}: {}", key.path, key.allowed());
        let default = match key.value {
            Value::Version | Value::Address(_) => "Required".to_owned(),
            // It follows from the manifest's path.
            Value::Path(_) if key.path == "cycle.staging_dir" => "Default: fip-watchdog.staging".to_owned(),
            Value::Text(..)
            | Value::Path(_)
            | Value::Duration(..)
            | Value::DurationOrNever(..)
            | Value::Count(..)
            | Value::Switch(_)
            | Value::Choice(_) => {
                format!("Default: {}", key.spell(&defaults()))
            }
        };
        assert!(comment.contains(&default), "{}: {default}", key.path);
    }
}

#[test]
fn the_default_policy_explains_every_ladder_that_can_be_set() {
    let text = std::fs::read_to_string(shipped("default.yaml")).unwrap();
    let keys = commented_keys(&text);
    for verdict in fip_watchdog::decision::verdict::Verdict::ALL {
        let entry = keys.iter().find(|(path, _)| *path == format!("remedies.{}", verdict.name()));
        assert_eq!(entry.is_some(), !steps_for(verdict).is_empty(), "{verdict}");
        let Some((_, comment)) = entry else { continue };
        let allowed: Vec<_> = steps_for(verdict).iter().map(|step| step.name()).collect();
        assert!(comment.contains(&format!("Allowed: {}.", allowed.join(", "))), "{verdict}: {comment}");
        assert!(comment.contains(&format!("Default: {}.", spell(&defaults(), verdict))), "{verdict}: {comment}");
    }
}

#[test]
fn observe_only_differs_from_the_default_in_its_mode_alone() {
    assert_eq!(policy("observe-only.yaml"), Policy { mode: Mode::Observe, ..defaults() });
}

#[test]
fn alias_only_never_cycles_and_still_applies_and_releases() {
    let ladders = policy("alias-only.yaml").remedies;
    let steps: Vec<_> = ladders.values().flatten().copied().collect();
    assert!(!steps.contains(&StepKind::CycleManifest));
    assert!(steps.contains(&StepKind::ApplyAlias) && steps.contains(&StepKind::ReleaseAlias));
}

#[test]
fn conservative_is_slower_than_the_default_in_every_way() {
    let (slow, default) = (policy("conservative.yaml"), defaults());
    assert!(slow.watched_loop.stalled_after > default.watched_loop.stalled_after);
    assert!(slow.limits.confirm > default.limits.confirm);
    assert!(slow.limits.cooldown > default.limits.cooldown);
    assert!(slow.limits.cycles_per_hour < default.limits.cycles_per_hour);
}

#[test]
fn every_shipped_policy_is_valid() {
    let mut seen = 0;
    for entry in std::fs::read_dir(shipped("")).expect("policies/") {
        let path = entry.expect("an entry").path();
        load(&path).unwrap_or_else(|error| panic!("{error}"));
        seen += 1;
    }
    assert!(seen >= 4);
}
