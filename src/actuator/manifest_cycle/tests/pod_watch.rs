//! The old pod's end, by processes and cgroup trees.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::policy::Policy;

const UID: &str = "0123456789abcdef0123456789abcdef";

/// A process that lives until it is told to end.
struct Process(Child);

impl Process {
    fn new() -> Self {
        Self(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn name(&self) -> (u32, u64) {
        (self.0.id(), start_ticks(Path::new("/proc"), self.0.id()).unwrap().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).unwrap_or(());
    }
}

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn cgroup(&self, path: &str, procs: &str) {
        let dir = self.0.path().join("cgroup").join(path);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::File::create(dir.join("cgroup.procs")).unwrap().write_all(procs.as_bytes()).unwrap();
    }

    fn watch(&self, process: Option<(u32, u64)>) -> ProcCgroupWatch {
        let mut policy = Policy::with_defaults([10, 0, 0, 1].into(), "eth0").watched_loop;
        policy.log_root = self.0.path().join("pods");
        ProcCgroupWatch::find_in(&policy, process, Path::new("/proc"), &self.0.path().join("cgroup"))
    }

    fn log_directory(&self) {
        std::fs::create_dir_all(self.0.path().join("pods").join(format!("kube-system_wcp-fip-4203_{UID}"))).unwrap();
    }
}

#[test]
fn a_pod_is_present_while_its_process_lives_and_a_zombie_or_another_start_time_is_not_it() {
    let tree = Tree::new();
    tree.log_directory();
    tree.cgroup("cpu", "");
    let mut process = Process::new();
    let (pid, start) = process.name();
    assert!(matches!(tree.watch(Some((pid, start))).look(), PodState::Present(who) if who.contains(&pid.to_string())));
    assert_eq!(tree.watch(Some((pid, start + 1))).look(), PodState::Gone);
    let watch = tree.watch(Some((pid, start)));
    process.0.kill().unwrap();
    let limit = std::time::Duration::from_secs(10);
    let begun = crate::runtime::clock::now();
    while watch.look() != PodState::Gone {
        assert!(crate::runtime::clock::now().since(begun) < limit, "a killed process is a zombie soon: {:?}", watch.look());
        std::thread::yield_now();
    }
}

#[test]
fn the_pods_processes_are_found_in_any_hierarchy_under_either_driver_however_deep() {
    let systemd = format!("kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID}.slice");
    for (pod, container) in [
        (format!("pids/kubepods/besteffort/pod{UID}"), "0badcafe/nested/deeper"),
        (format!("unified/{systemd}"), "cri-containerd-0badcafe.scope"),
        (systemd, "cri-containerd-0badcafe.scope/init.scope"),
        (format!("kubepods/pod{UID}"), ""),
    ] {
        let tree = Tree::new();
        tree.log_directory();
        tree.cgroup("memory/kubepods/pod99999999999999999999999999999999", "1\n");
        tree.cgroup("memory", "1\n2\n");
        let watch = tree.watch(None);
        assert_eq!(watch.look(), PodState::Gone, "{pod}");
        tree.cgroup(&pod, "");
        tree.cgroup(&format!("{pod}/{container}"), "");
        assert_eq!(watch.look(), PodState::Empty, "{pod}");
        tree.cgroup(&format!("{pod}/{container}"), "4711\n");
        assert!(matches!(watch.look(), PodState::Present(who) if who.contains("4711")), "{pod}");
    }
}

#[test]
fn a_uid_is_read_from_a_cgroup_path_and_from_the_log_directory() {
    let dashed = "8c9f1b5e-0a1b-4c2d-9e3f-001122334455";
    for (line, uid) in [
        (format!("0::/kubepods/besteffort/pod{UID}/0badcafe"), Some(UID)),
        (format!("4:pids:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID}.slice/x.scope"), Some(UID)),
        (format!("0::/kubepods.slice/kubepods-pod{}.slice/x", dashed.replace('-', "_")), Some(dashed)),
        ("0::/system.slice/podman.service".to_owned(), None),
        ("0::/".to_owned(), None),
    ] {
        assert_eq!(uid_in_cgroup_path(&line).as_deref(), uid, "{line}");
    }
    let tree = Tree::new();
    tree.log_directory();
    let others = "pods/kube-system_wcp-fip-agent-x7k2p_8c9f1b5e-0a1b-4c2d-9e3f-001122334455";
    std::fs::create_dir(tree.0.path().join(others)).unwrap();
    assert_eq!(tree.watch(None).record().uids, [UID]);
}

#[test]
fn what_cannot_be_told_is_unknown_and_a_process_alone_is_never_more_than_empty() {
    let tree = Tree::new();
    assert!(matches!(tree.watch(None).look(), PodState::Unknown(why) if why.contains("neither a process nor a uid")));
    assert_eq!(tree.watch(Some((u32::MAX - 1, 1))).look(), PodState::Empty);
    tree.log_directory();
    assert!(matches!(tree.watch(None).look(), PodState::Unknown(why) if why.contains("cgroup cannot be listed")));
}

/// A directory like /proc with this process in it.
fn fake_process(proc: &Path, pid: u32, started: u64, in_namespace: u32) {
    let dir = proc.join(pid.to_string());
    std::fs::create_dir_all(&dir).unwrap();
    let stat = format!("{pid} (sh) S {}{started} 0", "0 ".repeat(18));
    std::fs::File::create(dir.join("stat")).unwrap().write_all(stat.as_bytes()).unwrap();
    let status = format!("Name:\tsh\nNSpid:\t{pid}\t{in_namespace}\n");
    std::fs::File::create(dir.join("status")).unwrap().write_all(status.as_bytes()).unwrap();
}

#[test]
fn a_container_that_began_after_the_recorded_one_ended_is_a_successor_and_no_sandbox_or_orphan_is() {
    let tree = Tree::new();
    tree.log_directory();
    let proc = tree.0.path().join("proc");
    let policy = Policy::with_defaults([10, 0, 0, 1].into(), "eth0").watched_loop;
    let policy = LoopPolicy { log_root: tree.0.path().join("pods"), ..policy };
    let watch = ProcCgroupWatch::find_in(&policy, Some((50, 2000)), &proc, &tree.0.path().join("cgroup"));
    let pod = format!("pids/kubepods/pod{UID}/0badcafe");
    fake_process(&proc, 40, 1000, 1);
    fake_process(&proc, 55, 2100, 6);
    fake_process(&proc, 70, 3000, 1);
    tree.cgroup(&pod, "40\n55\n");
    assert!(matches!(watch.look(), PodState::Present(who) if who.contains("process 55")), "an orphan is still the loop's");
    tree.cgroup(&pod, "40\n");
    assert_eq!(watch.look(), PodState::Empty, "a sandbox alone is no loop");
    tree.cgroup(&pod, "40\n55\n70\n");
    assert_eq!(watch.look(), PodState::Reborn("process 70".into()));
    fake_process(&proc, 50, 2000, 1);
    assert_eq!(watch.look(), PodState::Present("process 50".into()), "while the recorded one lives nothing is its successor");
}

#[tokio::test]
async fn only_the_process_that_was_recorded_is_killed() {
    let tree = Tree::new();
    tree.log_directory();
    let mut process = Process::new();
    let (pid, start) = process.name();
    assert_eq!(tree.watch(Some((pid, start + 1))).kill().await, Kill::Gone);
    assert!(process.0.try_wait().unwrap().is_none(), "another start time is another process");
    assert!(matches!(tree.watch(None).kill().await, Kill::Failed(why) if why.contains("not known")));
    for machine in [0, 1] {
        assert!(matches!(tree.watch(Some((machine, 0))).kill().await, Kill::Failed(why) if why.contains("no process of a pod")));
    }
    assert_eq!(tree.watch(Some((pid, start))).kill().await, Kill::Sent(pid));
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(process.0.wait().unwrap().signal(), Some(9));
    assert_eq!(tree.watch(Some((pid, start))).kill().await, Kill::Gone);
}
