//! What is news and what is not: repeated rounds, clocks, truncation, copies that are put back, what a kubelet leaves.

use std::fs::{self, File};
use std::io::Write;

use jiff::Timestamp;

use super::cri::Lines;
use super::tests::{Bench, append, cri, revision, round, truncate};

/// What a real kubelet left of a loop that queries nothing.
const SAMPLES: [(&str, &[u8]); 2] = [
    ("0.log.20261130-014531", include_bytes!("samples/0.log.20261130-014531")),
    ("0.log.20261130-014528.gz", include_bytes!("samples/0.log.20261130-014528.gz")),
];

#[test]
fn an_idle_clusters_equal_rounds_are_a_beat_each() {
    let mut bench = Bench::new();
    append(&bench.log("uid", 0), "");
    assert_eq!(bench.view().last_beat, None);
    for _ in 0..3 {
        append(&bench.log("uid", 0), &cri(&round(7)));
        let view = bench.view();
        assert_eq!((revision(&view), view.last_beat_at), (Some(7), Some(bench.now())));
    }
}

#[test]
fn a_clock_that_was_set_back_voids_no_beats() {
    let mut bench = Bench::new();
    let (early, late) = (cri(&round(1)), cri(&round(2)));
    append(&bench.log("uid", 0), &late);
    assert_eq!(bench.view().last_beat, None);
    append(&bench.log("uid", 0), &early);
    assert_eq!(revision(&bench.view()), Some(1));
}

#[test]
fn what_follows_a_copytruncate_is_a_beat() {
    let mut bench = Bench::new();
    let log = bench.log("uid", 0);
    append(&log, &cri(&round(1)));
    assert_eq!(bench.view().last_beat, None);
    fs::copy(&log, log.with_extension("log.1")).unwrap();
    truncate(&log);
    append(&log, &cri(&round(22)));
    assert_eq!(revision(&bench.view()), Some(22));
    // Grown again to the very size that it had, it looks calm until the next line.
    truncate(&log);
    append(&log, &cri(&round(33)));
    assert_eq!(revision(&bench.view()), Some(22));
    append(&log, &cri("+ sleep 5\n"));
    assert_eq!((revision(&bench.view()), bench.view().last_growth_at.is_some()), (Some(33), true));
}

#[test]
fn a_copy_that_is_put_back_is_no_beat_and_what_follows_it_is() {
    for pieces in [1, 3] {
        let mut bench = Bench::new();
        let log = bench.log("uid", 0);
        append(&log, &cri(&round(1)));
        assert_eq!(bench.view().last_beat, None);
        append(&log, &cri(&round(2)));
        assert_eq!(revision(&bench.view()), Some(2));
        let beat_at = Some(bench.now());
        let copy = fs::read_to_string(&log).unwrap();
        truncate(&log);
        append(&log, &cri("+ sleep 5\n"));
        bench.seconds += 1;
        bench.sensor.read(bench.now());
        truncate(&log);
        for piece in copy.as_bytes().chunks(copy.len().div_ceil(pieces)) {
            append(&log, std::str::from_utf8(piece).unwrap());
            if pieces > 1 {
                bench.sensor.read(bench.now());
            }
        }
        let view = bench.view();
        assert_eq!((revision(&view), view.last_beat_at), (Some(2), beat_at), "in {pieces} pieces");
        append(&log, &cri(&round(2)));
        assert_eq!(bench.view().last_beat_at, Some(bench.now()), "in {pieces} pieces");
    }
}

#[test]
fn a_removed_log_of_which_a_copy_is_put_back_is_no_beat() {
    let mut bench = Bench::new();
    let log = bench.log("uid", 0);
    append(&log, &cri(&round(1)));
    assert_eq!(bench.view().last_beat, None);
    append(&log, &cri(&round(2)));
    assert_eq!(revision(&bench.view()), Some(2));
    let copy = fs::read_to_string(&log).unwrap();
    fs::remove_file(&log).unwrap();
    append(&log, &copy);
    let view = bench.view();
    assert_eq!((view.last_beat, view.following_since), (None, bench.now()));
    fs::remove_dir_all(&bench.policy.log_root).unwrap();
    assert!(bench.unknown().starts_with("no "), "the log and its directories are gone");
    append(&log, &copy);
    assert_eq!(bench.view().last_beat, None);
    append(&log, &cri(&round(3)));
    assert_eq!(revision(&bench.view()), Some(3));
}

#[test]
fn what_a_kubelet_rotated_and_compressed_is_left_alone() {
    let mut bench = Bench::new();
    let log = bench.log("uid", 0);
    append(&log, &cri(&round(1)));
    assert_eq!(bench.view().last_beat, None);
    let since = bench.now();
    for (name, content) in SAMPLES {
        append(&log.with_file_name(name), "");
        File::options().write(true).open(log.with_file_name(name)).unwrap().write_all(content).unwrap();
        append(&log, &cri(&round(2)));
        let view = bench.view();
        assert_eq!((revision(&view), &view.log, view.following_since), (Some(2), &log, since), "{name}");
    }
}

#[test]
fn every_line_of_a_real_kubelets_log_is_understood() {
    let (_, text) = SAMPLES[0];
    let mut stamps = Vec::new();
    Lines::default().feed(text, |line| {
        assert!(line.text.starts_with(b"+ "), "{line:?}");
        stamps.push(std::str::from_utf8(line.stamp).unwrap().parse::<Timestamp>().unwrap());
    });
    assert_eq!(stamps.len(), text.iter().filter(|byte| **byte == b'\n').count());
    assert!(stamps.is_sorted());
}
