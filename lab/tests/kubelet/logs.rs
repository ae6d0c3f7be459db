//! Rule 19: the logs.

use std::fs;
use std::io::Read as _;

use super::bench::{Bench, mode_of, pod};

#[test]
fn no_19_logs_are_where_and_how_a_kubelet_writes_them() {
    let bench = Bench::new(&["--time-scale", "0.1"]);
    bench.put("p.yaml", &pod("p", "set -x; true; echo out; head -c 20000 /dev/zero | tr '\\0' x; echo; sleep 1000"));
    let record = bench.wait_live("p");
    let dir = bench.path("log/pods").join(format!("kube-system_p-node1_{}", record.uid));
    assert_eq!(record.log, dir.join("main/0.log"));
    assert_eq!(mode_of(&record.log), 0o640);
    let link = bench.path("log/containers").join(format!("p-node1_kube-system_main-{}.log", record.id));
    assert_eq!(fs::read_link(link).expect("link"), record.log);
    let text = bench.wait_for("the last line", |_| {
        fs::read_to_string(&record.log).ok().filter(|text| text.lines().any(|line| line.ends_with("+ sleep 1000")))
    });
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(4, ' ').collect()).collect();
    for line in &lines {
        let (time, zone) = line[0].split_at(line[0].len() - 1);
        assert!(zone == "Z" && time.contains('T') && (!time.contains('.') || !time.ends_with('0')), "{:?}", line[0]);
    }
    let has = |stream: &str, tag: &str, content: &str| lines.iter().any(|line| line[1..] == [stream, tag, content]);
    assert!(has("stderr", "F", "+ true") && has("stdout", "F", "out"), "{text}");
    assert!(has("stdout", "P", &"x".repeat(16_384)) && has("stdout", "F", &"x".repeat(20_000 - 16_384)));
}

#[test]
fn no_19_a_log_that_is_too_large_is_renamed_then_compressed_and_five_files_are_kept() {
    let bench = Bench::new(&["--rotate-bytes", "2000", "--time-scale", "0.1"]);
    bench.put("p.yaml", &pod("p", "n=0; while :; do n=$((n+1)); echo line $n; sleep 0.01; done"));
    let record = bench.wait_live("p");
    let files = || -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(record.log.parent().expect("parent"))
            .expect("read")
            .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let compressed = bench.wait_for("five files, three of them compressed", |_| {
        let gz: Vec<String> = files().into_iter().filter(|name| name.ends_with(".gz")).collect();
        (files().len() == 5 && gz.len() == 3).then_some(gz)
    });
    let stamp = compressed[0].strip_prefix("0.log.").and_then(|name| name.strip_suffix(".gz")).expect("a stamp");
    assert!(stamp.len() == 15 && stamp.as_bytes()[8] == b'-', "{stamp}");
    let mut text = String::new();
    let path = record.log.with_file_name(&compressed[2]);
    if let Ok(file) = fs::File::open(path) {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
        assert!(text.contains(" stdout F line "));
    }
    assert_eq!(record.attempt, 0);
}
