//! The control socket under rubbish, slowness and crowds.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use crate::bench::{Daemon, LIMIT, Node, rest_of, until};

fn connect(node: &Node) -> UnixStream {
    let stream = UnixStream::connect(node.socket()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

fn say(node: &Node, bytes: &[u8]) -> String {
    let mut stream = connect(node);
    // The daemon may stop listening before the end of a long one.
    stream.write_all(bytes).ok();
    stream.shutdown(std::net::Shutdown::Write).ok();
    String::from_utf8(rest_of(stream)).unwrap()
}

#[test]
fn without_a_daemon_every_question_is_exit_69_with_the_socket() {
    let node = Node::new();
    for arguments in [&["status"][..], &["status", "--json"], &["explain"], &["resume"], &["pause", "--reason", "x"]] {
        let answer = node.ask(arguments);
        assert_eq!((answer.status.code(), answer.stdout.len()), (Some(69), 0), "{arguments:?}");
        let error = String::from_utf8(answer.stderr).unwrap();
        assert!(error.starts_with("fip-watchdog: the daemon is not running") && error.lines().count() == 1, "{error}");
    }
    // A socket file that a killed daemon left.
    node.start().kill();
    assert!(node.socket().exists());
    assert_eq!(node.ask(&["status"]).status.code(), Some(69));
}

#[test]
fn something_else_that_answers_is_exit_69_and_does_not_hang() {
    let node = Node::new();
    std::fs::create_dir(node.path("run")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(node.socket()).unwrap();
    let answers: [&[u8]; 3] = [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"{\"version\":1,\"response\":\"status\"}\n"];
    let server = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
            stream.write_all(answer).unwrap();
        }
    });
    for _ in answers {
        let answer = node.ask(&["status"]);
        assert_eq!(answer.status.code(), Some(69), "{answer:?}");
    }
    server.join().unwrap();
}

#[test]
fn the_socket_is_roots_alone() {
    let node = Node::new();
    let _daemon = node.start();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(node.socket()), mode(node.path("run")), mode(node.path("state"))), (0o600, 0o700, 0o700));
}

#[test]
fn rubbish_is_refused_with_a_reason_and_the_daemon_goes_on() {
    let node = Node::new();
    let daemon = node.start();
    let deep = "[".repeat(60_000);
    let rubbish: [&[u8]; 9] = [
        b"",
        b"\n",
        b"\0\0\0\0\n",
        b"\xff\xfe\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"{\"command\":\"reboot\"}\n",
        b"{\"version\":-1,\"command\":\"status\"}\n",
        b"{\"command\":\"pause\",\"reason\":\"x\",\"for\":\"99999999999999999999h\"}\n",
        deep.as_bytes(),
    ];
    for bytes in rubbish {
        let answer = say(&node, bytes);
        assert!(answer.contains("\"response\":\"refused\"") && answer.len() < 4096, "{bytes:?}: {answer}");
    }
    assert_eq!(daemon.status().facts.paused, None);
}

#[test]
fn a_megabyte_in_one_request_is_neither_kept_nor_waited_for() {
    let node = Node::new();
    let daemon = node.start();
    say(&node, &vec![b'x'; 1 << 20]);
    let before = daemon.rss_kib();
    for _ in 0..20 {
        let answer = say(&node, &vec![b'x'; 1 << 20]);
        assert!(answer.is_empty() || answer.contains("request is longer than 65536 bytes"), "{answer}");
    }
    daemon.status();
    let grown = daemon.rss_kib().saturating_sub(before);
    assert!(grown < 4096, "20 MiB of requests left {grown} KiB behind");
}

#[test]
fn a_request_that_is_too_long_gets_its_reason() {
    let node = Node::new();
    let _daemon = node.start();
    assert!(say(&node, &vec![b'x'; 65 * 1024]).contains("request is longer than 65536 bytes"));
}

#[test]
fn slow_and_silent_peers_are_let_go_and_the_next_is_served() {
    let node = Node::new();
    let daemon = node.start();
    let held = daemon.descriptors();
    let mut slow: Vec<UnixStream> = (0..8).map(|_| connect(&node)).collect();
    for stream in &mut slow[..4] {
        stream.write_all(b"{\"command\":").unwrap();
    }
    // All places are taken; the client waits in the kernel's queue and is served before its own patience ends.
    let answer = node.ask(&["status", "--json"]);
    assert!(matches!(answer.status.code(), Some(0 | 1)), "{answer:?}");
    for stream in slow {
        assert!(String::from_utf8(rest_of(stream)).unwrap().contains("no whole line arrived"));
    }
    until("no descriptor is left", || (daemon.descriptors() <= held).then_some(()));
}

#[test]
fn a_crowd_of_a_hundred_is_answered_within_bounded_memory() {
    let node = Node::new();
    let daemon = node.start();
    let crowd = |daemon: &Daemon| {
        let streams: Vec<UnixStream> = (0..100)
            .map(|_| {
                let mut stream = connect(&node);
                stream.write_all(b"{\"command\":\"status\"}\n").unwrap();
                stream
            })
            .collect();
        let answers = streams.into_iter().map(rest_of).filter(|answer| !answer.is_empty()).count();
        assert_eq!(answers, 100);
        daemon.rss_kib()
    };
    let before = crowd(&daemon);
    let held = daemon.descriptors();
    for _ in 0..3 {
        crowd(&daemon);
    }
    let grown = daemon.rss_kib().saturating_sub(before);
    assert!(grown < 4096, "300 more connections left {grown} KiB behind");
    until("no descriptor is left", || (daemon.descriptors() <= held).then_some(()));
}

#[test]
fn peers_that_hang_up_at_once_are_nothing() {
    let node = Node::new();
    let daemon = node.start();
    for round in 0..200 {
        let mut stream = connect(&node);
        if round % 2 == 0 {
            stream.write_all(b"{\"command\":\"status\"}\n").unwrap();
        }
    }
    daemon.status();
}
