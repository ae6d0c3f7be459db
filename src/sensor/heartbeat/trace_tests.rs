//! Golden traces: the article's own lines, and what real shells make of them.

use super::*;

/// The article's answer of a leader.
const LEADS: &str = r#"'{"header":{"cluster_id":"14063905004556717415","member_id":"14064401587421453142","revision":"7378603","raft_term":"2"},"version":"3.4.13","dbSize":"35561472","leader":"14064401587421453142","raftIndex":"7904694","raftTerm":"2","raftAppliedIndex":"7904694","dbSizeInUse":"15966208"}'"#;
/// The article's answer of a follower.
const FOLLOWS: &str = r#"'{"header":{"cluster_id":"14063905004556717415","member_id":"16529434649879028690","revision":"7378603","raft_term":"2"},"version":"3.4.13","dbSize":"35561472","leader":"14064401587421453142","raftIndex":"7904694","raftTerm":"2","raftAppliedIndex":"7904694","dbSizeInUse":"15966208"}'"#;
const CURL: &str = "++ curl -m 10 --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt --key /etc/kubernetes/pki/etcd/server.key -q -s -X POST -d '{}' https://127.0.0.1:2379/v3beta/maintenance/status";
const COMPARE: &str = "+ jq -r -e 'select(.header.member_id == .leader).header.member_id'";

fn beats(trace: &str) -> Vec<Beat> {
    let mut state = Trace::default();
    trace.lines().filter_map(|line| state.line(line.as_bytes())).collect()
}

fn the_beat(trace: &str) -> Beat {
    let all = beats(trace);
    assert_eq!(all.len(), 1, "{all:?}\n{trace}");
    all.into_iter().next().unwrap()
}

fn query(answer: &str) -> String {
    format!("+ '[' 1 ']'\n+ sleep 5\n{CURL}\n+ out={answer}\n+ '[' 0 -ne 0 ']'\n+ echo -n {answer}\n{COMPARE}\n")
}

fn leader_round(assign: &str) -> String {
    let says = "14064401587421453142\n+ echo 'Is the current leader!'\nIs the current leader!\n";
    let assigns = "+ fip_assign\n+ is_alias_exist\n+ ip addr show eth0\n+ grep 'inet 192.168.111.200/'\n";
    format!("{}{says}{assigns}{assign}", query(LEADS))
}

fn follower_round(clean_up: &str) -> String {
    format!("{}+ '[' 4 -ne 0 ']'\n+ return 4\n+ '[' 4 -ne 0 ']'\n+ clean_up\n{clean_up}+ continue\n+ '[' 1 ']'\n", query(FOLLOWS))
}

fn seen(verdict: LoopVerdict, fip: LoopFip) -> Beat {
    Beat { verdict, revision: Some(7_378_603), raft_index: Some(7_904_694), raft_term: Some(2), fip }
}

#[test]
fn a_leader_that_holds_the_fip_keeps_it() {
    let kept = leader_round("    inet 192.168.111.200/32 scope global eth0\n+ '[' 0 -eq 0 ']'\n+ FIP=1\n+ return\n");
    assert_eq!(the_beat(&kept), seen(LoopVerdict::Leader, LoopFip::Kept));
}

#[test]
fn a_leader_without_the_fip_assigns_it() {
    let add = "+ '[' 1 -eq 0 ']'\n+ ip addr add 192.168.111.200 dev eth0\n+ '[' 0 -ne 0 ']'\n\
               + echo 'Assigned fip 192.168.111.200 on eth0'\n+ FIP=1\n";
    assert_eq!(the_beat(&leader_round(add)), seen(LoopVerdict::Leader, LoopFip::Assigned));
}

#[test]
fn a_leader_whose_assignment_fails_beats_at_the_next_head() {
    let fails = "+ '[' 1 -eq 0 ']'\n+ ip addr add 192.168.111.200 dev eth0\n+ '[' 2 -ne 0 ']'\n+ return 1\n+ '[' 1 ']'\n";
    assert_eq!(the_beat(&leader_round(fails)), seen(LoopVerdict::Leader, LoopFip::Untouched));
}

#[test]
fn the_articles_lines_alone_are_a_leaders_round() {
    let article = format!(
        "echo -n {LEADS} | jq -r -e 'select(.header.member_id == .leader).header.member_id'\n14064401587421453142\n\
         Is the current leader!\n+ fip_assign\n+ is_alias_exist\n+ ip addr show eth0\n+ grep 'inet 192.168.111.200/'\n\
         + '[' 0 -eq 0 ']'\n+ FIP=1\n"
    );
    assert_eq!(the_beat(&article), seen(LoopVerdict::Leader, LoopFip::Kept));
}

#[test]
fn a_follower_leaves_the_interface_alone() {
    let round = follower_round("+ '[' 0 -eq 0 ']'\n+ return\n");
    assert_eq!(the_beat(&round), seen(LoopVerdict::Follower, LoopFip::Untouched));
}

#[test]
fn a_follower_that_held_the_fip_removes_it() {
    let clean = "+ '[' 1 -eq 0 ']'\n+ echo 'Removing interface eth0'\n+ ip addr delete 192.168.111.200 dev eth0\n+ FIP=0\n";
    assert_eq!(the_beat(&follower_round(clean)), seen(LoopVerdict::Follower, LoopFip::Removed));
}

#[test]
fn the_articles_lines_alone_are_a_followers_round() {
    let article = format!(
        "echo -n {FOLLOWS} | jq -r -e 'select(.header.member_id == .leader).header.member_id'\n+ return 4\n\
         + clean_up\n+ '[' 0 -eq 0 ']'\n+ return\n+ continue\n+ '[' 1 ']'\n"
    );
    assert_eq!(the_beat(&article), seen(LoopVerdict::Follower, LoopFip::Untouched));
}

#[test]
fn a_trace_that_stops_inside_a_round_is_no_beat() {
    for whole in [leader_round("+ '[' 0 -eq 0 ']'\n+ FIP=1\n"), follower_round("+ return\n")] {
        let lines: Vec<&str> = whole.lines().collect();
        let end = lines.iter().position(|line| matches!(*line, "+ FIP=1" | "+ continue")).unwrap();
        for cut in 0..end {
            assert_eq!(beats(&lines[..cut].join("\n")), [], "after {cut} lines");
        }
        assert_eq!(beats(&lines[..=end].join("\n")).len(), 1);
    }
}

#[test]
fn a_round_beats_once_whatever_follows_its_end() {
    let leader = leader_round("+ '[' 0 -eq 0 ']'\n+ FIP=1\n+ return\n+ FIP=1\n+ continue\n+ '[' 1 ']'\n");
    let follower = follower_round("+ return\n+ continue\n").replace("+ '[' 1 ']'\n", "");
    for round in [leader, follower] {
        assert_eq!(beats(&round.repeat(3)).len(), 3);
    }
}

#[test]
fn what_the_loop_prints_is_no_command() {
    let printed = format!("{}+ return 4\n+ echo continue\ncontinue\n'[' 1 ']'\n", query(FOLLOWS));
    assert_eq!(beats(&printed), []);
}

#[test]
fn what_the_clean_up_returns_is_no_verdict() {
    let round = follower_round("+ ip addr delete 192.168.111.200 dev eth0\n+ return 2\n");
    assert_eq!(the_beat(&round), seen(LoopVerdict::Follower, LoopFip::Removed));
}

#[test]
fn an_end_without_its_beginning_is_no_beat() {
    assert_eq!(beats("+ FIP=1\n+ return 4\n+ clean_up\n+ continue\n+ '[' 1 ']'\n+ sleep 5\n+ '[' 1 ']'\n"), []);
}

#[test]
fn a_failed_query_names_curls_exit_status() {
    let round = format!("+ '[' 1 ']'\n{CURL}\n+ out=\n+ '[' 7 -ne 0 ']'\n+ return 1\n+ clean_up\n+ return\n+ continue\n");
    let beat = the_beat(&round);
    assert_eq!(beat.verdict, LoopVerdict::QueryFailed("curl exit status 7".to_owned()));
    assert_eq!((beat.revision, beat.raft_index, beat.raft_term, beat.fip), (None, None, None, LoopFip::Untouched));
}

#[test]
fn an_empty_answer_is_a_failed_query_although_jq_returns_4() {
    let round = format!("{CURL}\n+ out=\n+ echo -n ''\n{COMPARE}\n+ return 4\n+ clean_up\n+ return\n+ continue\n");
    let failed = LoopVerdict::QueryFailed("no status in the answer, the query returned 4".to_owned());
    assert_eq!(the_beat(&round).verdict, failed);
}

#[test]
fn words_of_curl_or_etcd_are_the_detail() {
    for words in ["curl: (35) error:1408F10B", r#"{"error":"etcdserver: no leader","code":14}"#] {
        let round = format!("{CURL}\n+ out='{words}\n+ return 5\n+ clean_up\n+ continue\n");
        assert_eq!(the_beat(&round).verdict, LoopVerdict::QueryFailed(words.to_owned()));
    }
}

#[test]
fn a_missing_jq_is_a_failed_query_and_not_a_verdict() {
    let round = format!("{}bash: jq: command not found\n+ return 127\n+ clean_up\n+ continue\n", query(FOLLOWS));
    let failed = LoopVerdict::QueryFailed("the comparison of the answer returned 127".to_owned());
    assert_eq!(the_beat(&round).verdict, failed);
}

#[test]
fn an_answer_without_leader_is_a_followers_round() {
    let no_leader = r#"'{"header":{"member_id":"12162094141993025483","revision":"2","raft_term":"2"},"raftIndex":"10","raftTerm":"2","errors":["etcdserver: no leader"]}'"#;
    let round = format!("{}+ return 4\n+ clean_up\n+ return\n+ continue\n", query(no_leader));
    let beat = the_beat(&round);
    assert_eq!((beat.verdict, beat.revision), (LoopVerdict::Follower, Some(2)));
}

#[test]
fn without_a_word_of_the_loop_the_numbers_are_compared() {
    assert_eq!(the_beat(&format!("{}+ '[' 1 ']'\n", query(FOLLOWS))).verdict, LoopVerdict::Follower);
    let nothing = LoopVerdict::QueryFailed("the answer led to no conclusion".to_owned());
    assert_eq!(the_beat(&format!("{}+ '[' 1 ']'\n", query(LEADS))).verdict, nothing);
}

#[test]
fn the_loops_word_counts_and_not_the_numbers() {
    let mistaken = format!("{}+ return 4\n+ clean_up\n+ continue\n", query(LEADS));
    assert_eq!(the_beat(&mistaken).verdict, LoopVerdict::Follower);
}

#[test]
fn pipelines_that_share_lines_are_understood() {
    let interleaved = format!(
        "{CURL}\n+ out={LEADS}\n+ + jq -r -e 'select(.header.member_id == .leader).header.member_id'\necho -n {LEADS}\n\
         + echo 'Is the current leader!'\n+ fip_assign\n+ is_alias_exist\n+ + grep ip addr 'inet 192.168.111.200/'\nshow eth0\n\n\
         + '[' 0 -eq 0 ']'\n+ FIP=1\n"
    );
    assert_eq!(the_beat(&interleaved), seen(LoopVerdict::Leader, LoopFip::Kept));
}

#[test]
fn a_late_line_of_stdout_does_not_spoil_the_next_round() {
    let late = leader_round("+ '[' 0 -eq 0 ']'\n+ FIP=1\n+ return\n+ '[' 1 ']'\n").replace("\nIs the current leader!", "");
    let all = beats(&format!("{late}Is the current leader!\n{}", follower_round("+ return\n")));
    let verdicts: Vec<_> = all.into_iter().map(|beat| beat.verdict).collect();
    assert_eq!(verdicts, [LoopVerdict::Leader, LoopVerdict::Follower]);
}

#[test]
fn a_shell_of_busybox_and_a_loop_without_head_are_followed_too() {
    let busybox = format!("{}+ '[' 1 ]\n", query(FOLLOWS).replace("']'", "]"));
    assert_eq!(the_beat(&busybox).verdict, LoopVerdict::Follower);
    let headless = follower_round("+ return\n").replace("+ '[' 1 ']'\n", "").replace("+ continue\n", "+ true\n");
    assert_eq!(beats(&headless.repeat(3)).len(), 2);
}

#[test]
fn a_real_bash_is_understood() {
    // The pipeline's members trace at the same time: each run may share lines in another way.
    let script = r#"set -x; fip_assign() { true | grep x; FIP=1; }
        clean_up() { if [ "$FIP" -eq 0 ]; then return; fi; }
        ask() { out=$ANSWER; echo -n "$out" | grep -q "$LEADER"; if [ $? -ne 0 ]; then return 4; fi; }
        FIP=0; n=0
        while [ 1 ]; do
          n=$((n + 1)); if [ $n -gt 20 ]; then exit; fi
          ask; if [ $? -ne 0 ]; then clean_up; continue; fi
          echo 'Is the current leader!'; fip_assign
        done"#;
    for (answer, verdict) in [(LEADS, LoopVerdict::Leader), (FOLLOWS, LoopVerdict::Follower)] {
        let output = std::process::Command::new("bash")
            .args(["-c", script])
            .env("ANSWER", answer.trim_matches('\''))
            .env("LEADER", r#""member_id":"14064401587421453142""#)
            .output()
            .unwrap();
        let all = beats(&String::from_utf8_lossy(&output.stderr));
        assert_eq!(all.len(), 20, "{all:?}");
        assert!(all.iter().all(|beat| beat.verdict == verdict), "{all:?}");
    }
}

#[test]
fn another_query_begins_a_round_once_the_last_one_led_to_something() {
    let asked = format!("{CURL}\n+ out={LEADS}\n");
    for conclusion in ["Is the current leader!\n", "+ fip_assign\n", "+ clean_up\n", "+ return 4\n"] {
        assert_eq!(beats(&format!("{asked}{conclusion}{CURL}\n")).len(), 1, "{conclusion}");
    }
    assert_eq!(beats(&format!("{asked}{asked}{CURL}\n")), [], "a query that led to nothing is tried again");
    assert_eq!(the_beat(&format!("{asked}Is the current leader!\n{CURL}\n")).verdict, LoopVerdict::Leader);
}

#[test]
fn an_answer_after_a_rounds_end_begins_the_next_one_with_its_numbers() {
    let failed = format!("{CURL}\n+ out=\n+ '[' 7 -ne 0 ']'\n+ continue\n");
    let answered = format!("+ out={FOLLOWS}\n+ return 4\n+ clean_up\n+ continue\n");
    let all = beats(&format!("{failed}{answered}{answered}"));
    assert_eq!(all.iter().map(|beat| beat.revision).collect::<Vec<_>>(), [None, Some(7_378_603), Some(7_378_603)]);
    let once = beats(&format!("+ out={FOLLOWS}\n+ return 4\n+ out={FOLLOWS}\n+ '[' 1 ']'\n"));
    assert_eq!(once.iter().map(|beat| beat.revision).collect::<Vec<_>>(), [Some(7_378_603); 2]);
}

#[test]
fn a_curl_to_elsewhere_is_no_query() {
    let elsewhere =
        "+ curl https://127.0.0.1:6443/healthz\n+ echo /maintenance/status\n+ ip addr delete 192.168.111.200 dev eth0\n";
    assert_eq!(the_beat(&follower_round(elsewhere)), seen(LoopVerdict::Follower, LoopFip::Removed));
}

#[test]
fn only_the_first_test_after_the_query_is_of_curls_status() {
    let tests = "+ '[' 0 -ne 0 ']'\n+ '[' 7 -ne 0 ']'\n+ return 1\n+ '[' 1 -ne 0 ']'\n";
    let failed = the_beat(&format!("{CURL}\n+ out=\n{tests}+ continue\n"));
    assert_eq!(failed.verdict, LoopVerdict::QueryFailed("curl exit status 7".to_owned()));
    let cleaned = the_beat(&format!("{CURL}\n+ out=\n+ clean_up\n+ '[' 1 -eq 0 ']'\n+ continue\n"));
    assert_eq!(cleaned.verdict, LoopVerdict::QueryFailed("no status in the answer".to_owned()));
    assert_eq!(beats(&format!("{}+ '[' 4 -ne 0 ']'\n+ continue\n", query(FOLLOWS))), [], "jq's status ends nothing");
}
