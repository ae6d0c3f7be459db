//! Every subcommand as a process: help, usage, and readers that go away.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::bench::{BINARY, Node, write};

const SUBCOMMANDS: [&str; 11] =
    ["run", "status", "explain", "diagnose", "pause", "resume", "check", "init", "schema", "man", "completions"];

fn fip_watchdog(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = fip_watchdog(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(0) && error.is_empty(), "{arguments:?}: {:?} {error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_and_version_exit_0_on_standard_output() {
    let help = stdout(&["--help"]);
    for name in SUBCOMMANDS {
        assert!(help.contains(&format!("  {name} ")), "{name} is not in {help}");
        assert!(stdout(&[name, "--help"]).contains("Usage: fip-watchdog "));
        assert!(!stdout(&["help", name]).is_empty());
    }
    assert!(stdout(&["--version"]).starts_with("fip-watchdog "));
}

#[test]
fn a_wrong_command_line_is_exit_64_on_standard_error() {
    for arguments in
        [&["reboot"][..], &["--nonsense"], &["status", "--watch", "--json"], &["completions", "cobol"], &["pause"], &[]]
    {
        let output = fip_watchdog(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
    let output = fip_watchdog(&["status", "--watch"]);
    assert_eq!(output.status.code(), Some(64), "standard output is no terminal");
}

#[test]
fn what_init_writes_is_a_policy_that_check_takes() {
    let node = Node::without_policy();
    let manifest = node.path("wcp-fip.yaml");
    let none = fip_watchdog(&["init", "--manifest", manifest.to_str().unwrap()]);
    assert_eq!(none.status.code(), Some(66), "{none:?}");
    write(
        &manifest,
        "kind: Pod\nmetadata: { name: wcp-fip, namespace: kube-system }\nspec: { containers: [{ name: wcp-fip }] }\n",
    );
    let unnamed = fip_watchdog(&["init", "--manifest", manifest.to_str().unwrap()]);
    assert_eq!(unnamed.status.code(), Some(78), "{unnamed:?}");
    let made =
        fip_watchdog(&["init", "--manifest", manifest.to_str().unwrap(), "--address", "192.0.2.7", "--interface", "ens192"]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    write(&node.policy(), std::str::from_utf8(&made.stdout).unwrap());
    let policy = node.policy();
    assert!(stdout(&["check", policy.to_str().unwrap()]).contains("policy.yaml: ok"));
    let json: serde_json::Value = serde_json::from_str(&stdout(&["check", "--json", policy.to_str().unwrap()])).unwrap();
    assert_eq!(json["files"][0]["ok"], true);
    assert_eq!(fip_watchdog(&["check", node.path("none").to_str().unwrap()]).status.code(), Some(66));
}

#[test]
fn schema_manual_and_completions_are_written() {
    let schema: serde_json::Value = serde_json::from_str(&stdout(&["schema"])).unwrap();
    assert!(schema["properties"]["fip"].is_object(), "{schema:#}");
    assert!(stdout(&["man"]).contains(".TH fip-watchdog"));
    let node = Node::without_policy();
    stdout(&["man", "--out", node.path("man/man8").to_str().unwrap()]);
    let pages: Vec<_> =
        fs::read_dir(node.path("man/man8")).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    for name in SUBCOMMANDS {
        assert!(pages.iter().any(|page| page.starts_with(&format!("fip-watchdog-{name}."))), "{name}: not in {pages:?}");
    }
    assert!(stdout(&["completions", "bash"]).contains("complete -F _fip__watchdog "));
    let output = fip_watchdog(&["man", "--out", "/proc/none"]);
    assert_eq!(output.status.code(), Some(70), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let node = Node::new();
    let _daemon = node.start();
    let socket = node.socket();
    let (socket, policy) = (socket.to_str().unwrap(), node.policy());
    for arguments in [
        &["--help"][..],
        &["schema"],
        &["man"],
        &["completions", "bash"],
        &["check", policy.to_str().unwrap()],
        &["status", "--json", "--socket", socket],
        &["status", "--socket", socket],
        &["explain", "--socket", socket],
        &["pause", "--reason", "x", "--socket", socket],
        &["resume", "--socket", socket],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = Command::new(BINARY).args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}
