//! How fast the heartbeat parser reads, and what it allocates: `make bench`.
//!
//! The logs are what a loop writes on a leader and on a follower, in both framings, whole and in reads of an odd size.
//! The parser is made once and goes on, as in the daemon, so what is counted is the cost of a megabyte of log alone.

use std::fmt::Write as _;
use std::hint::black_box;

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher};
use fip_watchdog::sensor::heartbeat::BeatParser;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const LOG_BYTES: usize = 1024 * 1024;

const LEADER: &str = include_str!("leader.trace");
const FOLLOWER: &str = include_str!("follower.trace");

/// Some round's worth of growth, which ends inside a line.
const ODD_READ: usize = 1999;

fn cri(line: &str, number: usize) -> String {
    format!("2026-11-30T01:45:28.{number:09}Z stderr F {line}\n")
}

fn docker(line: &str, number: usize) -> String {
    let record = serde_json::json!({ "log": format!("{line}\n"), "stream": "stderr", "time": format!("2026-11-30T01:45:28.{number:09}Z") });
    format!("{record}\n")
}

/// A mebibyte of one round after another.
fn log(round: &str, frame: fn(&str, usize) -> String) -> Vec<u8> {
    let mut text = String::new();
    for (number, line) in round.lines().cycle().enumerate() {
        let _written = text.write_str(&frame(line, number));
        if text.len() >= LOG_BYTES {
            break;
        }
    }
    text.truncate(LOG_BYTES);
    text.into_bytes()
}

fn read(bencher: Bencher<'_, '_>, log: &[u8], piece: usize) {
    let mut parser = BeatParser::new();
    bencher.counter(BytesCount::new(log.len())).bench_local(|| {
        let mut rounds = 0_usize;
        for bytes in log.chunks(piece) {
            parser.feed(black_box(bytes), |_| rounds += 1);
        }
        assert!(rounds > 100, "{rounds} rounds: this is no log of the loop");
        rounds
    });
}

#[divan::bench]
fn cri_leader(bencher: Bencher<'_, '_>) {
    read(bencher, &log(LEADER, cri), 64 * 1024);
}

#[divan::bench]
fn cri_follower(bencher: Bencher<'_, '_>) {
    read(bencher, &log(FOLLOWER, cri), 64 * 1024);
}

#[divan::bench]
fn cri_odd_reads(bencher: Bencher<'_, '_>) {
    read(bencher, &log(FOLLOWER, cri), ODD_READ);
}

#[divan::bench]
fn docker_follower(bencher: Bencher<'_, '_>) {
    read(bencher, &log(FOLLOWER, docker), 64 * 1024);
}

/// Growth that is no trace of the loop.
#[divan::bench]
fn one_endless_line(bencher: Bencher<'_, '_>) {
    let log = vec![b'x'; LOG_BYTES];
    let mut parser = BeatParser::new();
    bencher.counter(BytesCount::new(log.len())).bench_local(|| {
        for bytes in log.chunks(64 * 1024) {
            parser.feed(black_box(bytes), |_| ());
        }
    });
}

fn main() {
    divan::main();
}
