//! Clocks of real processes, asked before and after each jump.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::*;

/// Seconds since the epoch that may pass between two looks on a busy machine.
const SLACK: i64 = 30;

/// A process that says what its clocks show, line by line, as often as it is asked.
struct Asked {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Asked {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut asked = Self { child, stdin, stdout };
        // It is up, and past all that happens before its own code.
        asked.ask();
        asked
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The numbers in its answer.
    fn ask(&mut self) -> Vec<i64> {
        writeln!(self.stdin, "now?").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the process ended");
            if let Some((_, answer)) = line.split_once("clocks: ") {
                return answer.split_whitespace().map(|word| word.parse().unwrap()).collect();
            }
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn clocks() -> [i64; 4] {
    let seconds = |id| clock_gettime(id).tv_sec;
    let std = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    [seconds(ClockId::Realtime), std.cast_signed(), seconds(ClockId::Monotonic), seconds(ClockId::Boottime)]
}

/// The other side of the next test: rustix's way to the clocks, and libc's.
#[test]
#[ignore = "run by a_process_has_a_wall_clock_of_its_own_and_all_other_clocks_are_everybodys, in a process of its own"]
fn says_what_its_clocks_show() {
    for line in std::io::stdin().lines() {
        line.unwrap();
        let shown = clocks().map(|seconds| seconds.to_string());
        println!("clocks: {}", shown.join(" "));
    }
}

fn assert_ahead(asked: &mut Asked, ahead: i64) {
    let before = clocks();
    let shown = asked.ask();
    for (index, off) in [ahead, ahead, 0, 0].into_iter().enumerate() {
        let difference = shown[index] - before[index] - off;
        assert!((0..SLACK).contains(&difference), "clock {index}: {shown:?}, here {before:?}, should be {off} ahead");
    }
}

#[test]
fn a_process_has_a_wall_clock_of_its_own_and_all_other_clocks_are_everybodys() {
    let own = concat!(module_path!(), "::says_what_its_clocks_show").split_once("::").unwrap().1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut asked = Asked::start(command.args(["--exact", own, "--ignored", "--nocapture"]));
    assert_ahead(&mut asked, 0);
    for ahead in [3600, -3600, 0, 86_400] {
        set_ahead(asked.pid(), ahead).unwrap();
        assert_ahead(&mut asked, ahead);
    }
}

#[test]
fn a_process_that_was_stopped_stays_stopped() {
    let mut asked = Asked::start(Command::new("bash").args(["-c", BASH]));
    let is_stopped = |asked: &Asked| Process::look(asked.pid()).unwrap().is_stopped();
    kill_process(asked.pid(), Signal::STOP).unwrap();
    wait_until_stopped(asked.pid()).unwrap();
    set_ahead(asked.pid(), -60).unwrap();
    assert!(is_stopped(&asked));
    kill_process(asked.pid(), Signal::CONT).unwrap();
    assert!(asked.ask()[0] < clocks()[0] - 30);
}

/// `time` and `gettimeofday`.
const BASH: &str = "while read -r; do echo \"clocks: $EPOCHSECONDS ${EPOCHREALTIME%[.,]*}\"; done";

#[test]
fn the_older_calls_show_the_same_clock() {
    let mut asked = Asked::start(Command::new("bash").args(["-c", BASH]));
    for ahead in [0, -3600, 3600] {
        set_ahead(asked.pid(), ahead).unwrap();
        let before = clocks()[0];
        for shown in asked.ask() {
            assert!((-1..SLACK).contains(&(shown - before - ahead)), "{shown}, here {before}, should be {ahead} ahead");
        }
    }
}

#[test]
fn a_process_that_is_gone_is_an_error() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = Pid::from_child(&child);
    child.wait().unwrap();
    assert!(set_ahead(pid, 1).unwrap_err().to_string().contains("gone"));
}
