//! Byte for byte: what reaches the sink through growth, rotation, truncation and replacement.

use std::io::Write;

use tempfile::TempDir;

use super::*;
use crate::policy::Policy;

/// Records what it is given.
#[derive(Default)]
struct Recorder {
    history: Vec<u8>,
    /// New bytes, those that were found included.
    appended: Vec<u8>,
    found: Vec<u8>,
    began: usize,
    cuts: usize,
    /// Of each piece of history.
    began_inside_a_line: Vec<bool>,
}

impl Sink for Recorder {
    fn began(&mut self) {
        self.began += 1;
    }
    fn history(&mut self, bytes: &[u8], inside_line: bool) {
        self.began_inside_a_line.push(inside_line);
        self.history.extend_from_slice(bytes);
    }
    fn found(&mut self, bytes: &[u8]) {
        self.appended.extend_from_slice(bytes);
        self.found.extend_from_slice(bytes);
    }
    fn appended(&mut self, bytes: &[u8]) {
        self.appended.extend_from_slice(bytes);
    }
    fn cut(&mut self, _inside_line: bool) {
        self.cuts += 1;
    }
}

struct Bench {
    root: TempDir,
    follower: Follower,
    got: Recorder,
    clock: Duration,
}

impl Bench {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let mut policy = Policy::with_defaults([192, 0, 2, 1].into(), "eth0").watched_loop;
        policy.log_root = root.path().to_owned();
        let bench = Self { follower: Follower::new(Target::new(&policy)), root, got: Recorder::default(), clock: RESCAN };
        fs::create_dir_all(bench.log().parent().unwrap()).unwrap();
        bench
    }

    fn log(&self) -> PathBuf {
        self.root.path().join("kube-system_wcp-fip-node_uid/wcp-fip/0.log")
    }

    fn append(&self, path: &Path, text: &str) {
        OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// One call, a second after the last; what it appended.
    fn poll(&mut self) -> Result<String, FollowError> {
        self.clock += Duration::from_secs(1);
        self.got.appended.clear();
        self.got.found.clear();
        self.follower.poll(Moment::from_origin(self.clock), &mut self.got)?;
        Ok(String::from_utf8_lossy(&self.got.appended).into_owned())
    }

    fn following(history: &str) -> Self {
        let mut bench = Self::new();
        bench.append(&bench.log(), history);
        assert_eq!(bench.poll().unwrap(), "");
        assert_eq!(bench.got.history, history.as_bytes());
        bench
    }

    fn rename_log(&self, suffix: &str) -> PathBuf {
        let rotated = self.log().with_extension(suffix);
        rustix::fs::rename(self.log(), &rotated).unwrap();
        rotated
    }
}

#[test]
fn history_is_told_apart_and_growth_arrives_once() {
    let mut bench = Bench::following("old\n");
    assert_eq!(bench.got.began_inside_a_line, [false]);
    assert_eq!(bench.poll().unwrap(), "");
    bench.append(&bench.log(), "new\n");
    assert_eq!(bench.poll().unwrap(), "new\n");
    assert_eq!(bench.poll().unwrap(), "");
}

#[test]
fn a_rotated_log_is_read_to_its_end_before_its_successor() {
    let mut bench = Bench::following("old\n");
    bench.append(&bench.log(), "one\n");
    let rotated = bench.rename_log("log.20261130-014528");
    // No file of that name for a moment; the writer still has the old one.
    assert_eq!(bench.poll().unwrap(), "one\n");
    bench.append(&rotated, "two\n");
    assert_eq!(bench.poll().unwrap(), "two\n");
    // The new file exists, and the writer has not changed to it yet.
    bench.append(&bench.log(), "");
    bench.append(&rotated, "three\n");
    assert_eq!(bench.poll().unwrap(), "three\n");
    bench.append(&rotated, "four\n");
    bench.append(&bench.log(), "five\n");
    assert_eq!(bench.poll().unwrap(), "four\nfive\n");
    assert_eq!((bench.got.began, bench.got.cuts), (1, 0));
}

#[test]
fn a_rotated_log_that_takes_several_calls_is_still_read_first() {
    let mut bench = Bench::following("old\n");
    bench.append(&bench.log(), &"x".repeat(3 * 1024 * 1024 / 2));
    bench.rename_log("log.20261130-014528");
    bench.append(&bench.log(), "new\n");
    assert_eq!(bench.poll().unwrap().len(), 1024 * 1024);
    assert_eq!(bench.poll().unwrap(), format!("{}new\n", "x".repeat(512 * 1024)));
}

#[test]
fn another_file_under_a_known_path_is_new() {
    let mut bench = Bench::new();
    let other = bench.root.path().join("kube-system_wcp-fip-node_other/wcp-fip/0.log");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    bench.append(&other, "other\n");
    bench.append(&bench.log(), "old\n");
    let calm = File::options().write(true).open(&other).unwrap();
    calm.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(bench.poll().unwrap(), "");
    assert_eq!(bench.got.history, b"old\n");
    // `calm` keeps the old file's inode from being used again.
    fs::remove_file(&other).unwrap();
    bench.append(&other, "longer than the other was\n");
    let all: String = (0..3).map(|_| bench.poll().unwrap()).collect();
    assert_eq!(all, "longer than the other was\n");
    drop(calm);
}

#[test]
fn rotation_within_one_call_loses_nothing() {
    let mut bench = Bench::following("old\n");
    for round in 0..5 {
        bench.append(&bench.log(), &format!("a{round}\n"));
        bench.rename_log(&format!("log.{round}"));
        bench.append(&bench.log(), &format!("b{round}\n"));
        assert_eq!(bench.poll().unwrap(), format!("a{round}\nb{round}\n"));
    }
    assert_eq!((bench.got.began, bench.got.cuts), (1, 0));
}

#[test]
fn a_truncated_log_is_read_from_its_beginning() {
    let mut bench = Bench::following("some old line\n");
    File::options().write(true).open(bench.log()).unwrap().set_len(0).unwrap();
    bench.append(&bench.log(), "new\n");
    assert_eq!(bench.poll().unwrap(), "new\n");
    assert_eq!((bench.got.began, bench.got.cuts), (1, 1));
}

#[test]
fn a_log_that_outgrew_its_old_size_after_truncation_is_noticed() {
    let mut bench = Bench::following("old\n");
    File::options().write(true).open(bench.log()).unwrap().set_len(0).unwrap();
    bench.append(&bench.log(), "new, and longer\n");
    assert_eq!(bench.poll().unwrap(), "new, and longer\n");
    assert_eq!((bench.got.began, bench.got.cuts), (1, 1));
}

#[test]
fn a_new_container_under_the_same_path_is_new_whatever_its_inode() {
    let mut bench = Bench::following("old line of the old loop\n");
    for round in 1..20 {
        fs::remove_file(bench.log()).unwrap();
        if round % 2 == 0 {
            // Gone at a look: the inode is free for the next file.
            assert!(matches!(bench.poll(), Err(FollowError::NoLog { .. })));
        }
        bench.append(&bench.log(), "new line, longer than the old one was\n");
        assert_eq!(bench.poll().unwrap(), "new line, longer than the old one was\n", "round {round}");
        assert_eq!(bench.got.began, 1 + round);
    }
}

#[test]
fn a_removed_log_is_forgotten_so_that_a_reused_inode_names_another() {
    let mut bench = Bench::following("old\n");
    fs::remove_file(bench.log()).unwrap();
    // No look is due yet: the stat alone tells.
    assert!(matches!(bench.poll(), Err(FollowError::NoLog { .. })));
    assert!(bench.follower.seen.as_ref().is_some_and(BTreeMap::is_empty));
}

#[test]
fn a_restarts_log_takes_over_from_its_first_byte() {
    let mut bench = Bench::following("old\n");
    let restarted = bench.log().with_file_name("1.log");
    bench.append(&bench.log(), "last words\n");
    bench.append(&restarted, "new\n");
    assert!(bench.poll().unwrap().ends_with("new\n") || bench.poll().unwrap().ends_with("new\n"));
    assert_eq!(bench.got.began, 2);
    bench.append(&restarted, "more\n");
    assert_eq!(bench.poll().unwrap(), "more\n");
}

#[test]
fn of_several_pods_the_one_that_moves_is_followed() {
    let mut bench = Bench::following("old\n");
    let other = bench.root.path().join("kube-system_wcp-fip-node_other/wcp-fip/0.log");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    bench.append(&other, "other\n");
    let all: String = (0..3).map(|_| bench.poll().unwrap()).collect();
    assert_eq!(all, "other\n");
    // The first one comes to life again, and only it.
    bench.append(&bench.log(), "again\n");
    let all: String = (0..3).map(|_| bench.poll().unwrap()).collect();
    assert_eq!(all, "again\n");
    // Both move: no reason to change.
    for _ in 0..6 {
        bench.append(&bench.log(), "x\n");
        bench.append(&other, "y\n");
        assert_eq!(bench.poll().unwrap(), "x\n");
    }
}

#[test]
fn a_call_is_bounded_and_a_huge_backlog_is_skipped() {
    let mut bench = Bench::following("old\n");
    bench.append(&bench.log(), &"x".repeat(3 * 1024 * 1024 / 2));
    assert_eq!(bench.poll().unwrap().len(), 1024 * 1024);
    assert_eq!(bench.poll().unwrap().len(), 512 * 1024);
    // A hole costs no disk: 100 MB of zeros, then the end.
    let file = File::options().write(true).open(bench.log()).unwrap();
    file.set_len(100 * 1024 * 1024).unwrap();
    bench.append(&bench.log(), "the end\n");
    assert!(bench.poll().unwrap().ends_with("the end\n"));
    assert_eq!(bench.got.cuts, 1);
}

#[test]
fn history_is_read_from_the_end_alone() {
    let mut bench = Bench::new();
    bench.append(&bench.log(), &"0123456\n".repeat(100_000));
    assert_eq!(bench.poll().unwrap(), "");
    assert_eq!((bench.got.history.len(), &*bench.got.began_inside_a_line), (64 * 1024, &[true][..]));
}

#[test]
fn what_grows_under_our_eyes_is_not_found() {
    let mut bench = Bench::following("old\n");
    let other = bench.root.path().join("kube-system_wcp-fip-node_other/wcp-fip/0.log");
    for text in ["one\n", "two\n"] {
        bench.append(&bench.log(), text);
        assert_eq!((bench.poll().unwrap(), &*bench.got.found), (text.to_owned(), &b""[..]));
    }
    bench.rename_log("log.20261130-014528");
    bench.append(&bench.log(), "rotated\n");
    assert_eq!((bench.poll().unwrap(), &*bench.got.found), ("rotated\n".to_owned(), &b""[..]));
    // A log that was known, and is changed to because it grew.
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    bench.append(&other, "other\n");
    let all: String = (0..3).map(|_| bench.poll().unwrap()).collect();
    assert_eq!(all, "other\n");
    bench.append(&bench.log(), "again\n");
    let mut found = 0;
    let all: String = (0..3).map(|_| (bench.poll().unwrap(), found += bench.got.found.len()).0).collect();
    assert_eq!((&*all, found), ("again\n", 0));
}

#[test]
fn what_a_new_file_holds_is_found_and_what_follows_two_seconds_later_is_not() {
    let mut bench = Bench::following("old\n");
    let look = |bench: &mut Bench, change: &dyn Fn(&Bench)| {
        change(bench);
        let all = bench.poll().unwrap();
        (all, String::from_utf8(bench.got.found.clone()).unwrap())
    };
    let truncate = |bench: &Bench| File::options().write(true).open(bench.log()).unwrap().set_len(0).unwrap();
    let changes: [&dyn Fn(&Bench); 2] = [&truncate, &|bench| fs::remove_file(bench.log()).unwrap()];
    for change in changes {
        change(&bench);
        let (all, found) = look(&mut bench, &|bench| bench.append(&bench.log(), "first\n"));
        assert_eq!((&*all, &*found), ("first\n", "first\n"));
        let (all, found) = look(&mut bench, &|bench| bench.append(&bench.log(), "a second later\n"));
        assert_eq!((&*all, &*found), ("a second later\n", "a second later\n"));
        let (all, found) = look(&mut bench, &|bench| bench.append(&bench.log(), "two seconds later\n"));
        assert_eq!((&*all, &*found), ("two seconds later\n", ""));
    }
}

#[test]
fn a_log_that_shrank_since_it_was_last_seen_is_read_from_its_beginning() {
    let mut bench = Bench::new();
    let other = bench.root.path().join("kube-system_wcp-fip-node_other/wcp-fip/0.log");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    bench.append(&other, "a long line of the other pod\n");
    File::options().write(true).open(&other).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    bench.append(&bench.log(), "old\n");
    assert_eq!((bench.poll().unwrap(), &*bench.got.history), (String::new(), &b"old\n"[..]));
    File::options().write(true).open(&other).unwrap().set_len(0).unwrap();
    bench.append(&other, "new\n");
    let all: String = (0..3).map(|_| bench.poll().unwrap()).collect();
    assert_eq!(all, "new\n");
}

#[test]
fn a_path_that_cannot_be_looked_at_is_an_error_and_not_a_removed_log() {
    let mut bench = Bench::following("old\n");
    let rotated = bench.rename_log("log.20261130-014528");
    std::os::unix::fs::symlink(bench.log(), bench.log()).unwrap();
    assert!(matches!(bench.poll(), Err(FollowError::Read { .. })));
    fs::remove_file(bench.log()).unwrap();
    rustix::fs::rename(&rotated, bench.log()).unwrap();
    bench.append(&bench.log(), "new\n");
    assert_eq!(bench.poll().unwrap(), "new\n");
}

#[test]
fn a_log_longer_than_the_longest_backlog_is_followed_without_a_loss() {
    let mut bench = Bench::new();
    bench.append(&bench.log(), "");
    // A hole costs no disk.
    File::options().write(true).open(bench.log()).unwrap().set_len(40 * 1024 * 1024).unwrap();
    assert_eq!(bench.poll().unwrap(), "");
    bench.append(&bench.log(), "new\n");
    assert_eq!((bench.poll().unwrap(), bench.got.cuts), ("new\n".to_owned(), 0));
}
