//! Exit codes and output, against a daemon that the test plays.

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use super::*;
use crate::cli::pause::{PauseArgs, ResumeArgs, run_pause, run_resume};
use crate::control::protocol::{RefusalCode, encode_response, parse};
use crate::decision::verdict::Verdict;

struct Daemon {
    dir: tempfile::TempDir,
    asked: JoinHandle<Request>,
}

impl Daemon {
    /// A daemon that gives one answer.
    fn answering(response: &Response) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("control.sock")).unwrap();
        let line = encode_response(response).unwrap();
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while stream.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
                request.push(byte[0]);
            }
            stream.write_all(line.as_bytes()).unwrap();
            parse(&request).unwrap()
        });
        Self { dir, asked }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("control.sock")
    }
}

fn status(socket: PathBuf, json: bool) -> (u8, String) {
    let mut out = Vec::new();
    let code = run(&StatusArgs { json, watch: false, socket }, &mut out).unwrap();
    (code, String::from_utf8(out).unwrap())
}

fn reporting(verdict: Verdict) -> Response {
    Response::Status(Box::new(screen::tests::sample(verdict)))
}

#[test]
fn the_exit_code_says_whether_a_person_should_look() {
    for (verdict, expected) in
        [(Verdict::Healthy, 0), (Verdict::Paused, 0), (Verdict::Starting, 0), (Verdict::FipMissing, 1), (Verdict::Unknown, 1)]
    {
        let daemon = Daemon::answering(&reporting(verdict));
        let (code, screen) = status(daemon.socket(), false);
        assert_eq!(code, expected, "{verdict}");
        assert!(screen.contains(verdict.name()));
        assert_eq!(daemon.asked.join().unwrap(), Request::Status);
    }
}

#[test]
fn json_is_one_line_that_is_the_report() {
    let daemon = Daemon::answering(&reporting(Verdict::LogStalled));
    let (code, json) = status(daemon.socket(), true);
    assert_eq!(code, 1);
    assert_eq!(json.lines().count(), 1);
    assert_eq!(serde_json::from_str::<StatusReport>(&json).unwrap(), screen::tests::sample(Verdict::LogStalled));
}

#[test]
fn without_a_daemon_the_exit_code_is_69_and_nothing_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(status(dir.path().join("control.sock"), true), (69, String::new()));
}

#[test]
fn a_daemon_too_busy_to_answer_is_unavailable() {
    let daemon = Daemon::answering(&Response::Refused { code: RefusalCode::Busy, reason: "busy".to_owned() });
    assert_eq!(status(daemon.socket(), false).0, 69);
}

#[test]
fn a_reader_that_has_gone_away_is_no_error() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let daemon = Daemon::answering(&reporting(Verdict::Healthy));
    assert_eq!(run(&StatusArgs { json: false, watch: false, socket: daemon.socket() }, &mut Gone).unwrap(), 0);
}

#[test]
fn a_pause_is_asked_for_and_its_length_repeated() {
    let daemon = Daemon::answering(&Response::Paused { for_ms: 1_800_000 });
    let mut out = Vec::new();
    let args = PauseArgs { reason: "etcd upgrade".to_owned(), length: Duration::from_secs(1800), socket: daemon.socket() };
    assert_eq!(run_pause(&args, &mut out).unwrap(), 0);
    assert_eq!(out, b"paused for 30m 00s\n");
    let asked = daemon.asked.join().unwrap();
    assert_eq!(asked, Request::Pause { reason: args.reason, length: args.length });
}

#[test]
fn a_pause_of_more_than_a_day_is_refused_before_the_daemon_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nobody");
    let args = PauseArgs { reason: "holiday".to_owned(), length: Duration::from_secs(86_401), socket };
    assert_eq!(run_pause(&args, &mut Vec::new()).unwrap(), 64);
}

#[test]
fn resume_says_whether_there_was_a_pause() {
    for (was_paused, said) in [(true, &b"resumed\n"[..]), (false, b"was not paused\n")] {
        let daemon = Daemon::answering(&Response::Resumed { was_paused });
        let mut out = Vec::new();
        assert_eq!(run_resume(&ResumeArgs { socket: daemon.socket() }, &mut out).unwrap(), 0);
        assert_eq!(out, said);
    }
}

#[test]
fn the_arguments_have_the_defaults_that_help_tells() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        pause: PauseArgs,
    }
    let line = <Line as clap::Parser>::try_parse_from(["pause", "--reason", "upgrade"]).unwrap();
    assert_eq!(line.pause.length, Duration::from_secs(3600));
    assert_eq!(line.pause.socket, PathBuf::from("/run/fip-watchdog/control.sock"));
    assert!(<Line as clap::Parser>::try_parse_from(["pause", "--reason", "x", "--for", "soon"]).is_err());
}
