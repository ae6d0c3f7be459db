//! `fip-watchdog history` as a process: what a journalctl or a state directory that is not as it should be may do to it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Runs it with that directory's `journalctl` before all others.
fn history(dir: &Path, arguments: &[&str]) -> Output {
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").expect("a PATH"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_fip-watchdog"));
    command.arg("history").arg("--state-dir").arg(dir.join("state")).args(arguments).env("PATH", path);
    command.stdin(Stdio::null()).output().expect("its output")
}

/// What was printed, and that nothing in it moves a cursor or hides text.
fn printed(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(!out.chars().chain(err.chars()).any(|c| c.is_control() && c != '\n'), "{out:?} {err:?}");
    (output.status.code(), out, err)
}

// One test: while another one starts a child, a script that was just written cannot be executed.
#[test]
fn no_journal_and_no_state_directory_keeps_it_waiting_or_reaches_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    for part in ["bin", "state/autopsies"] {
        fs::create_dir_all(dir.path().join(part)).unwrap();
    }
    let journalctl = |script: &str| {
        let path = dir.path().join("bin/journalctl");
        fs::File::create(&path).unwrap().write_all(format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let pipe = dir.path().join("state/autopsies/0001.json");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();

    let entry =
        r#"{"__REALTIME_TIMESTAMP":"1","FIP_EVENT":"started\u001b[31m","MESSAGE":"a\u001b]0;x\u0007b\u009b31m\n1970 forged"}"#;
    journalctl(&format!("cat <<'END'\n{entry}\nEND"));
    let (code, out, err) = printed(&history(dir.path(), &[]));
    assert_eq!((code, out.lines().count(), err.as_str()), (Some(0), 1, ""), "{out}");
    assert!(out.contains("1970 forged"), "{out}");
    let (code, out, _) = printed(&history(dir.path(), &["--json"]));
    assert_eq!((code, out.lines().count()), (Some(0), 1), "{out}");

    let (code, _, err) = printed(&history(dir.path(), &["--autopsy", "1"]));
    assert_eq!(code, Some(66));
    assert!(err.contains("0001.json cannot be read: it is no regular file"), "{err}");

    journalctl(r"printf '\033[31mbad\007\n' >&2; exit 3");
    let (code, _, err) = printed(&history(dir.path(), &[]));
    assert_eq!((code, err.lines().count()), (Some(69), 1), "{err}");
    assert!(err.contains("journalctl failed (exit status: 3)"), "{err}");

    journalctl(r"printf '\377\033[31m\n{\000\n{}\n[1]\n'");
    let (code, out, err) = printed(&history(dir.path(), &[]));
    assert_eq!((code, out.as_str()), (Some(69), ""));
    assert!(err.contains("journalctl's answer is not understood"), "{err}");
}
