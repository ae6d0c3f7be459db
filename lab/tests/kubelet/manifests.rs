//! Rules 1 to 6: which files count, when, and which of two.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::bench::{Bench, STUBBORN, pod, pod_with};

/// So long that only events can be what worked.
const NO_LIST: [&str; 4] = ["--list-period", "1h", "--time-scale", "0.1"];

#[test]
fn no_01_every_kind_of_event_is_seen_without_a_list() {
    let bench = Bench::new(&NO_LIST);
    // MODIFY: the file is still open, so there is no CLOSE_WRITE that could have done it.
    let mut open = File::create(bench.manifest("p.yaml")).expect("create");
    open.write_all(pod("p", STUBBORN).as_bytes()).expect("write");
    let first = bench.wait_live("p");
    drop(open);
    // MOVED_FROM
    fs::rename(bench.manifest("p.yaml"), bench.path("p.yaml")).expect("rename");
    bench.wait_dead(&first);
    // MOVED_TO
    fs::rename(bench.path("p.yaml"), bench.manifest("p.yaml")).expect("rename");
    let second = bench.wait_other("p", &first);
    // DELETE
    bench.remove("p.yaml");
    bench.wait_dead(&second);
    // CREATE of a whole file
    fs::write(bench.path("q.yaml"), pod("q", STUBBORN)).expect("write");
    fs::hard_link(bench.path("q.yaml"), bench.manifest("q.yaml")).expect("link");
    let third = bench.wait_live("q");
    // ATTRIB: content that changed under another name is only read at the next event of this one.
    fs::write(bench.path("q.yaml"), pod_with("q", STUBBORN, "  terminationGracePeriodSeconds: 1\n")).expect("write");
    fs::set_permissions(bench.manifest("q.yaml"), Permissions::from_mode(0o640)).expect("chmod");
    let fourth = bench.wait_for("new content", |bench| bench.live("q").filter(|record| record.uid != third.uid));
    assert_eq!(fourth.grace_seconds, 1);
}

#[test]
fn no_01_a_list_finds_what_no_event_told() {
    let mut bench = Bench::stopped(&["--list-period", "5s", "--time-scale", "0.1"]);
    fs::rename(bench.path("manifests"), bench.path("later")).expect("rename");
    fs::create_dir(bench.path("manifests")).expect("create");
    bench.start();
    // The watch stays on the directory that it was made for.
    fs::rename(bench.path("manifests"), bench.path("old")).expect("rename");
    fs::rename(bench.path("later"), bench.path("manifests")).expect("rename");
    bench.put("p.yaml", &pod("p", STUBBORN));
    bench.wait_live("p");
}

#[test]
fn no_02_dotfiles_and_directories_are_ignored_and_every_other_name_and_links_are_read() {
    let bench = Bench::new(&NO_LIST);
    fs::write(bench.manifest(".hidden.yaml"), pod("hidden", STUBBORN)).expect("write");
    fs::create_dir(bench.manifest("directory")).expect("create");
    fs::write(bench.manifest("directory").join("inner.yaml"), pod("inner", STUBBORN)).expect("write");
    for (file, name) in [("a.yaml.bak", "a"), ("b~", "b"), ("#c#", "c"), ("d.txt", "d")] {
        bench.put(file, &pod(name, STUBBORN));
    }
    fs::write(bench.path("target"), pod("e", STUBBORN)).expect("write");
    symlink(bench.path("target"), bench.manifest("link")).expect("symlink");
    for name in ["a", "b", "c", "d", "e"] {
        bench.wait_live(name);
    }
    assert_eq!(bench.records().len(), 5);
}

#[test]
fn no_03_unparsable_content_changes_nothing_on_an_event_and_removes_the_pod_at_a_list() {
    // Scaled: a list each 6 s of 60.
    let bench = Bench::new(&["--list-period", "60s", "--time-scale", "0.1"]);
    bench.put("p.yaml", &pod("p", STUBBORN));
    let first = bench.wait_live("p");
    fs::write(bench.manifest("p.yaml"), "kind: [Pod").expect("write");
    bench.wait("the event was handled", |bench| bench.said("Could not process manifest file"));
    assert!(!bench.said("SyncLoop REMOVE"), "{}", bench.log());
    bench.wait("the list removes the pod", |bench| bench.said("SyncLoop REMOVE"));
    bench.wait_dead(&first);
}

#[test]
fn no_03_half_a_written_file_that_is_a_pod_runs() {
    let bench = Bench::new(&NO_LIST);
    let mut open = File::create(bench.manifest("p.yaml")).expect("create");
    let text = pod("p", STUBBORN);
    let (half, rest) = text.split_at(text.find("    args").expect("there"));
    open.write_all(half.as_bytes()).expect("write");
    // A shell that waits for no input ends at once, again and again: that it ran is what counts.
    let first = bench.wait_for("the half runs", |bench| bench.records().into_iter().next());
    open.write_all(rest.as_bytes()).expect("write");
    bench.wait_for("the whole runs", |bench| bench.live("p").filter(|record| record.uid != first.uid));
}

#[test]
fn no_04_the_uid_comes_from_content_node_and_path_and_the_pod_is_named_after_the_node() {
    let mut bench = Bench::new(&NO_LIST);
    bench.put("p.yaml", &pod("p", STUBBORN));
    let first = bench.wait_live("p");
    assert_eq!((first.pod.as_str(), first.uid.len()), ("p-node1", 32));
    assert!(first.uid.bytes().all(|byte| byte.is_ascii_hexdigit()));
    // The same bytes again, after a kubelet that remembers nothing: the same UID.
    bench.remove("p.yaml");
    bench.wait("the pod is gone", |bench| bench.records().is_empty());
    bench.stop();
    fs::remove_dir_all(bench.path("state")).expect("remove");
    bench.start();
    bench.put("p.yaml", &pod("p", STUBBORN));
    assert_eq!(bench.wait_live("p").uid, first.uid);
    // Under another name: another UID.
    bench.put("q.yaml", &pod("p", STUBBORN));
    bench.wait_for("another UID", |bench| bench.live("p").filter(|record| record.uid != first.uid));
}

#[test]
fn no_05_the_last_event_wins_a_removal_of_either_file_removes_the_pod_and_the_last_name_wins_a_list() {
    // Scaled: a list each 8 s of 80.
    let bench = Bench::new(&["--list-period", "80s", "--time-scale", "0.1"]);
    let text = pod_with("p", STUBBORN, "  terminationGracePeriodSeconds: 1\n");
    bench.put("p.yaml", &text);
    let yaml = bench.wait_live("p");
    bench.put("p.yaml.bak", &text);
    let backup = bench.wait_for("the backup takes over", |bench| bench.live("p").filter(|record| record.uid != yaml.uid));
    // Touched last, the manifest wins until the next list.
    fs::set_permissions(bench.manifest("p.yaml"), Permissions::from_mode(0o600)).expect("chmod");
    bench.wait_dead(&backup);
    bench.wait_for("the backup wins the list", |bench| {
        bench.live("p").filter(|record| record.uid == backup.uid && record.id != backup.id)
    });
    // Out goes the manifest that does not even run, and out goes the pod.
    let removals = bench.said_times("SyncLoop REMOVE");
    bench.remove("p.yaml");
    bench.wait("the pod is removed", |bench| bench.said_times("SyncLoop REMOVE") > removals);
    // The next list finds the backup alone.
    let adds = bench.said_times("SyncLoop ADD");
    bench.wait("the backup is back", |bench| bench.said_times("SyncLoop ADD") > adds);
}

#[test]
fn no_06_an_identical_file_renamed_over_the_old_one_restarts_nothing() {
    let bench = Bench::new(&NO_LIST);
    bench.put("p.yaml", &pod("p", STUBBORN));
    let before = bench.wait_live("p");
    bench.put("p.yaml", &pod("p", STUBBORN));
    bench.settle("later");
    assert_eq!(bench.live("p"), Some(before));
    assert!(!bench.said("SyncLoop REMOVE"), "{}", bench.log());
}
