//! The loop's manifest: the trace it writes, for each way a round can end.
//!
//! etcd, `ip` and jq are scripts here, found first on the container's PATH; the lab's nodes have the real ones.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use fip_lab::kubelet::state_json::Record;

use super::bench::Bench;

const LEADER: &str = r#"{"header":{"cluster_id":"1","member_id":"14064401587421453142","revision":"7","raft_term":"2"},"leader":"14064401587421453142"}"#;
const FOLLOWER: &str = r#"{"header":{"cluster_id":"1","member_id":"16529434649879028690","revision":"7","raft_term":"2"},"leader":"14064401587421453142"}"#;
const LEADERLESS: &str = r#"{"header":{"cluster_id":"1","member_id":"16529434649879028690","revision":"7","raft_term":"2"},"errors":["etcdserver: no leader"]}"#;

const JQ: &str = r#"in=$(cat); id() { echo "$in" | sed -n "s/.*\"$1\":\"\([0-9]*\)\".*/\1/p"; }
[ -n "$in" ] && [ "$(id member_id)" = "$(id leader)" ] && id leader || exit 4"#;

const IP: &str = r#"case "$2" in
show) [ ! -e alias ] || echo '    inet 192.168.111.200/32 scope global eth0';;
add) : >alias;;
delete) rm alias;;
esac"#;

fn script(bench: &Bench, name: &str, text: &str) {
    let path = bench.path("bin").join(name);
    fs::write(&path, format!("#!/bin/sh\ncd {}\n{text}\n", bench.path("bin").display())).expect("write");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("chmod");
}

fn manifest(bench: &Bench) -> String {
    let env = format!("env: [{{name: PATH, value: '{}:/usr/bin:/bin'}}]", bench.path("bin").display());
    include_str!("../../assets/wcp-fip.yaml")
        .replace("  terminationGracePeriodSeconds: @GRACE@\n", "")
        .replace("@FIP@", "192.168.111.200")
        .replace("@INTERFACE@", "eth0")
        .replace("@INTERVAL@", "0.1")
        .replace("image: localhost/vmware/wcp-fip:lab", &env)
}

/// What `curl` answers from now on, in one step.
fn answer(bench: &Bench, reply: &str, status: u8) {
    script(bench, ".curl", &format!("echo '{reply}'; exit {status}"));
    fs::rename(bench.path("bin/.curl"), bench.path("bin/curl")).expect("rename");
}

/// The lines of the article's trace, one after another and nothing between.
fn traced(output: &str, expected: &[&str]) -> bool {
    let lines: Vec<&str> = output.lines().collect();
    lines.windows(expected.len()).any(|window| window.iter().zip(expected).all(|(line, start)| line.starts_with(start)))
}

/// The loop's log, but for what comes by its other pipe and the parts of pipelines: their places between the lines are not fixed.
fn trace(record: &Record) -> String {
    let text = fs::read_to_string(&record.log).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(" stderr F "));
    let kept =
        lines.map(|(_, line)| line).filter(|line| !line.contains("echo -n") && !line.contains("jq") && !line.contains("grep"));
    kept.fold(String::new(), |all, line| all + line + "\n")
}

/// A running loop whose etcd says that another member leads.
fn follower() -> (Bench, Record) {
    let bench = Bench::new(&["--time-scale", "0.1"]);
    fs::create_dir(bench.path("bin")).expect("create");
    script(&bench, "jq", JQ);
    script(&bench, "ip", IP);
    answer(&bench, FOLLOWER, 0);
    bench.put("wcp-fip.yaml", &manifest(&bench));
    let record = bench.wait_live("wcp-fip");
    (bench, record)
}

#[test]
fn the_manifest_declares_the_pod_of_a_supervisor() {
    let (_bench, record) = follower();
    assert_eq!((record.container.as_str(), record.namespace.as_str(), record.grace_seconds), ("wcp-fip", "kube-system", 30));
}

#[test]
fn every_way_that_a_round_can_end_leaves_the_trace_of_the_article() {
    let (bench, record) = follower();
    let ends = |what: &str, expected: &[&str]| bench.wait(what, |_| traced(&trace(&record), expected));
    let leads = ["+ echo 'Is the current leader!'", "+ fip_assign", "+ is_alias_exist"];
    let removes =
        ["+ clean_up", "+ '[' 1 -eq 0 ']'", "+ echo 'Removing interface eth0'", "+ ip addr delete 192.168.111.200 dev eth0"];
    let next = ["+ continue", "+ '[' 1 ']'", "+ sleep 0.1"];

    ends("a follower cleans nothing up", &[&["+ return 4", "+ clean_up", "+ '[' 0 -eq 0 ']'", "+ return"], &next[..]].concat());
    answer(&bench, LEADER, 0);
    let assigns = [
        "+ '[' 1 -eq 0 ']'",
        "+ ip addr add 192.168.111.200 dev eth0",
        "+ '[' 0 -ne 0 ']'",
        "+ echo 'Assigned fip 192.168.111.200 on eth0'",
        "+ FIP=1",
    ];
    ends("a new leader assigns", &[&leads[..], &["+ ip addr show eth0"], &assigns].concat());
    ends("a leader finds it assigned", &[&leads[..], &["+ ip addr show eth0", "+ '[' 0 -eq 0 ']'", "+ FIP=1"]].concat());
    assert!(bench.output(&record).contains("\n14064401587421453142\n"));
    answer(&bench, "", 28);
    ends("a failed query cleans up", &[&["+ out=", "+ return 28"], &removes[..]].concat());
    bench.wait("the alias is gone", |bench| !bench.path("bin/alias").exists());
    answer(&bench, LEADER, 0);
    bench.wait("it is assigned again", |bench| bench.path("bin/alias").exists());
    answer(&bench, LEADERLESS, 0);
    ends("a member without a leader cleans up", &[&["+ return 4"], &removes[..]].concat());
    bench.wait("the alias is gone", |bench| !bench.path("bin/alias").exists());
}
