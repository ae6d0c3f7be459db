//! Whatever the text, the check neither panics nor points outside of it, and what it accepts is what was written.

use std::path::Path;

use fip_watchdog::policy::Policy;
use fip_watchdog::policy::check::check;
use fip_watchdog::policy::diff::diff;
use fip_watchdog::policy::fault::FAULTS_MAX;
use fip_watchdog::policy::schema::{KEYS, Value};
use fip_watchdog::policy::units;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const DEFAULT: &str = include_str!("../policies/default.yaml");

/// The check's promises about any text.
fn holds(text: &str) {
    let Err(faults) = check(text, Path::new("policy.yaml")) else { return };
    assert!(!faults.faults.is_empty() && faults.faults.len() <= FAULTS_MAX);
    let lines: Vec<_> = text.split('\n').collect();
    let last = if text.ends_with('\n') { lines.len() - 1 } else { lines.len() };
    for fault in &faults.faults {
        assert!((1..=last.max(1)).contains(&fault.pos.line), "line {} of {last}: {fault}", fault.pos.line);
        let width = lines.get(fault.pos.line - 1).map_or(0, |line| line.chars().count());
        assert!((1..=width + 1).contains(&fault.pos.column), "column {} of {width}: {fault}", fault.pos.column);
    }
    let said = faults.to_string();
    let expected = faults.faults.len() + usize::from(faults.left_out > 0);
    assert_eq!(said.split('\n').count(), expected, "one line a fault: {said:?}");
    assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
}

/// Fragments that a YAML parser finds interesting.
fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "- ",
            ": ",
            "{",
            "}",
            "[",
            "]",
            "\n",
            "\n  ",
            "#",
            "&a ",
            "*a",
            "!t ",
            "|",
            ">",
            "\"",
            "'",
            "---\n",
            "...\n",
            "%YAML 1.2\n",
            "\t",
            "\r",
            "\u{feff}",
            "\u{2028}",
            "<<: ",
            "? ",
            ",",
            "fip:",
            "version: 1\n",
            "remedies:",
            "limits:",
            "5s",
            "null",
            "~",
            "é",
        ])
        .prop_map(str::to_owned),
        "[a-z_]{1,8}",
        any::<char>().prop_map(String::from),
    ]
}

/// The default policy with a few of its lines dropped, doubled, or changed.
fn mutated() -> impl Strategy<Value = String> {
    let lines: Vec<_> = DEFAULT.lines().filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned).collect();
    let count = lines.len();
    prop::collection::vec((0..count, 0..5_u8, fragment(), 0..60_usize), 1..6).prop_map(move |edits| {
        let mut lines = lines.clone();
        for (at, how, fragment, column) in edits {
            let Some(line) = lines.get_mut(at) else { continue };
            let cut = line.char_indices().map(|(byte, _)| byte).nth(column).unwrap_or(line.len());
            match how {
                0 => line.clear(),
                1 => *line = format!("{line}\n{line}"),
                2 => line.insert_str(cut, &fragment),
                3 => line.truncate(cut),
                _ => line.replace_range(cut.., &fragment),
            }
        }
        lines.join("\n")
    })
}

/// Seeds of past failures are committed beside this file.
fn config() -> ProptestConfig {
    let seeds = FileFailurePersistence::Direct("tests/policy_properties.proptest-regressions");
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(1024), failure_persistence: Some(Box::new(seeds)), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_judged_without_panic_and_every_fault_is_inside_it(text in any::<String>()) {
        holds(&text);
    }

    #[test]
    fn any_heap_of_yaml_is_judged_without_panic(parts in prop::collection::vec(fragment(), 0..40)) {
        holds(&parts.concat());
    }

    #[test]
    fn a_damaged_default_policy_is_judged_without_panic(text in mutated()) {
        holds(&text);
    }

    #[test]
    fn any_duration_that_is_accepted_is_written_back_to_the_same(text in "[0-9]{1,6}(ms|s|m|h|d|)([0-9]{1,4}(ms|s|m|))?") {
        if let Ok(duration) = units::parse(&text) {
            prop_assert_eq!(units::parse(&units::format(duration)), Ok(duration));
        }
    }

    #[test]
    fn a_key_changed_to_any_allowed_duration_changes_that_key_alone_or_is_an_unsafe_combination(
        index in 0..KEYS.len(), part in 0.0..=1.0_f64
    ) {
        let Some((key, Value::Duration(min, max, _))) = KEYS.get(index).map(|key| (key, key.value)) else { return Ok(()) };
        let spelt = units::format(std::time::Duration::from_secs_f64(min.as_secs_f64() + (max - min).as_secs_f64() * part).max(min));
        let (section, name) = key.path.split_once('.').unwrap();
        let rest = if section == "fip" { "" } else { "fip: { address: 192.0.2.10 }\n" };
        let text = format!("version: 1\n{rest}{section}: {{ {name}: {spelt} }}\n");
        match check(&text, Path::new("policy.yaml")) {
            Ok(policy) => {
                let default = Policy::with_defaults("192.0.2.10".parse().unwrap(), "eth0");
                let changed = diff(&default, &policy);
                prop_assert!(changed.iter().all(|line| line.starts_with(key.path)), "{changed:?}");
            }
            Err(faults) => prop_assert!(faults.faults.iter().all(|fault| fault.pos.line == 3), "{faults}"),
        }
    }
}

#[test]
fn deep_nesting_and_alias_bombs_are_refused_at_once() {
    holds(&"[".repeat(60_000));
    holds(&"{a: ".repeat(15_000));
    holds(&"- ".repeat(30_000));
    holds(&"a:\n".repeat(20_000));
    holds("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nversion: 1\n");
    holds(&"x: 1\n".repeat(10_000));
}
