//! One daemon's system calls, by strace from the host, and which of them change something.
//!
//! The watchdog's own are its runtime directory (lock and control socket), the journal's and systemd's sockets, and
//! questions: netlink dumps, a probe. Everything else that creates, changes or removes a file, an address or a
//! process is a change, also when it failed. A child that the daemon started for a question and ends itself, because it takes too long, is its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::scenario::clock;

/// Every call that could change a file, an address, another process or a neighbour's mind.
const TRACED: &str = "trace=open,openat,?openat2,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,\
    symlink,symlinkat,truncate,ftruncate,fallocate,chmod,fchmod,fchmodat,chown,lchown,fchown,fchownat,utimensat,setxattr,\
    lsetxattr,fsetxattr,removexattr,lremovexattr,fremovexattr,mknod,mknodat,mount,umount2,kill,tkill,tgkill,\
    pidfd_send_signal,?fork,?vfork,clone,?clone3,bind,ioctl,io_uring_setup,sendfile,copy_file_range,splice,\
    write,writev,pwrite64,pwritev,sendto,sendmsg,sendmmsg";
/// `strace` attaches within milliseconds; a busy machine may take longer.
const ATTACH_LIMIT: Duration = Duration::from_secs(10);
/// A call is a line of this length at most, see the `-s` below.
const LINE_MAX: usize = 16 * 1024;
/// Changes that are kept; a watchdog that makes more is not observing.
const CHANGES_MAX: usize = 1000;
/// The watchdog's own files. `/run/fip-watchdog` itself is the unit's.
const OWN: [&str; 2] = ["/run/fip-watchdog/", "/dev/null"];

/// What was seen of one watchdog.
#[derive(Debug, Default)]
pub struct Calls {
    /// Daemons that were traced from their first instruction on; one more for each start.
    pub daemons: usize,
    /// Calls.
    pub looked_at: usize,
    /// Those that change something.
    pub changes: Vec<(Duration, String)>,
    /// Why not everything was seen.
    pub blind: Option<String>,
}

/// A tracer, attached to all threads of a daemon.
pub struct Tracer {
    child: Child,
    lines: BufReader<tokio::process::ChildStderr>,
}

/// Attaches to a process, in its network namespace, since strace asks the kernel there which sockets are netlink ones.
///
/// # Errors
/// The process does not run, there is no strace, or it may not trace.
pub async fn attach(namespace: &Path, pid: Pid) -> anyhow::Result<Tracer> {
    let pid = pid.as_raw_nonzero().to_string();
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", namespace.display())).arg("--");
    // -y: paths of descriptors; -x: what is no text in hexadecimal, so that a packet can be read.
    command.args(["strace", "-f", "-y", "-x", "-s", "256", "-e", TRACED, "-e", "signal=none", "-p", pid.as_str()]);
    attached(command).await
}

/// Runs strace, and waits until it has attached.
///
/// # Errors
/// There is no strace, or it says something else.
pub(super) async fn attached(mut command: Command) -> anyhow::Result<Tracer> {
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().context("cannot run strace (apt-get install strace)")?;
    let mut lines = BufReader::new(child.stderr.take().context("strace has no output")?);
    let attached = async {
        let mut line = String::new();
        while lines.read_line(&mut line).await? > 0 {
            if line.contains(" attached") {
                return Ok(());
            }
            anyhow::ensure!(line.len() < LINE_MAX, "strace: {}", line.chars().take(500).collect::<String>());
        }
        anyhow::bail!("strace: {}", line.trim())
    };
    tokio::time::timeout(ATTACH_LIMIT, attached).await.context("strace does not attach")??;
    Ok(Tracer { child, lines })
}

/// Reads until the daemon ends, or until it is asked to stop; then strace ends, which detaches.
pub async fn read(mut tracer: Tracer, calls: &mut Calls, stop: &mut watch::Receiver<bool>) {
    let mut line = Vec::new();
    let mut children = BTreeSet::new();
    while calls.blind.is_none() {
        line.clear();
        let read = tokio::select! {
            biased;
            // Nobody to ask it any more is a stop as well.
            _ = stop.wait_for(|stop| *stop) => break,
            read = tracer.lines.read_until(b'\n', &mut line) => read,
        };
        let text = String::from_utf8_lossy(&line);
        match read {
            Ok(0) => break,
            Err(error) => calls.blind = Some(format!("strace: {error}")),
            Ok(_) if text.len() > LINE_MAX => calls.blind = Some("a call without end".to_owned()),
            Ok(_) if calls.changes.len() >= CHANGES_MAX => calls.blind = Some("too many changes to keep".to_owned()),
            Ok(_) => {
                children.extend(child(&text));
                let Some(call) = call(&text) else { continue };
                calls.looked_at += 1;
                if call.changes(&children) {
                    calls.changes.push((clock::now(), call.text.to_owned()));
                }
            }
        }
    }
    // Already ended is as good.
    drop(tracer.child.start_kill());
}

/// The process that a call made, from the line in which it returns. Bounded by what a pid may be.
fn child(line: &str) -> Option<u32> {
    let text = without_pid(line);
    let name = text.strip_prefix("<... ").unwrap_or(text);
    let makes = ["fork", "vfork", "clone"].iter().any(|call| name.starts_with(call));
    let returned = text.rsplit_once(" = ").filter(|_| makes)?.1;
    number(returned).filter(|pid| *pid > 0)
}

/// The number with which a text begins.
fn number(text: &str) -> Option<u32> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn without_pid(line: &str) -> &str {
    line.strip_prefix("[pid").and_then(|rest| rest.split_once("] ")).map_or(line, |(_, call)| call)
}

/// The begin of a call in a line of strace's.
struct Call<'a> {
    name: &'a str,
    arguments: &'a str,
    text: &'a str,
}

/// ```text
/// [pid  4711] openat(AT_FDCWD</>, "/etc/kubernetes/manifests", O_RDONLY|O_CLOEXEC|O_DIRECTORY) = 14</etc/…>
/// sendto(9<socket:[81]>, [{nlmsg_len=28, nlmsg_type=RTM_GETADDR, …
/// ```
fn call(line: &str) -> Option<Call<'_>> {
    let text = without_pid(line.trim_end());
    // "<... openat resumed>" was seen when it began; "strace: …", "+++ exited" and "--- SIGCHLD" are no calls.
    let (name, arguments) = text.split_once('(')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(Call { name, arguments, text })
}

impl Call<'_> {
    /// Whether it changes something that is not the watchdog's own, such as the processes that it started.
    fn changes(&self, children: &BTreeSet<u32>) -> bool {
        let arguments = self.arguments;
        let has = |words: &[&str]| words.iter().any(|word| arguments.contains(word));
        match self.name {
            "open" | "openat" | "openat2" => {
                has(&["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_TMPFILE"]) && !quoted(arguments).is_some_and(is_own)
            }
            "write" | "writev" | "pwrite64" | "pwritev" | "ftruncate" | "fallocate" | "fchmod" | "fchown" | "fsetxattr" => {
                // Pipes, sockets and event counters have no path; a memory file carries a long entry to the journal.
                let path = arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(path, _)| path);
                path.starts_with('/') && !path.starts_with("/memfd:") && !is_own(path)
            }
            "sendto" | "sendmsg" | "sendmmsg" => {
                // A question about links names the packet family, too; a frame is sent to an address of it.
                has(&["RTM_NEW", "RTM_DEL", "RTM_SET", "NFT_MSG_NEW", "NFT_MSG_DEL"])
                    || (has(&["sa_family=AF_PACKET"]) && !is_probe(arguments))
            }
            // A socket with a path is a file.
            "bind" => has(&["AF_UNIX"]) && !quoted(arguments).is_some_and(is_own),
            // The old way to an interface's addresses and flags, and a file's attributes.
            "ioctl" => has(&["SIOCS", "SIOCADD", "SIOCDEL", "FS_IOC_SET", "FICLONE"]),
            // Signal 0 only asks whether somebody is there.
            "kill" | "tkill" | "tgkill" => {
                !arguments.contains(", 0)") && !number(arguments).is_some_and(|pid| children.contains(&pid))
            }
            "fork" | "vfork" | "clone" | "clone3" => false,
            _other => !quoted(arguments).is_some_and(is_own),
        }
    }
}

fn is_own(path: &str) -> bool {
    OWN.iter().any(|own| path.starts_with(own))
}

/// The first quoted argument.
fn quoted(arguments: &str) -> Option<&str> {
    arguments.split('"').nth(1)
}

/// An ARP packet without a sender address (bytes 14 to 17).
fn is_probe(arguments: &str) -> bool {
    let Some(bytes) = quoted(arguments) else { return false };
    let sender: Vec<&str> = bytes.split("\\x").skip(1).skip(14).take(4).collect();
    sender == ["00"; 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(line: &str) -> Option<&str> {
        call(line).filter(|call| call.changes(&BTreeSet::from([137]))).map(|call| call.text)
    }

    #[test]
    fn reading_asking_and_the_watchdogs_own_files_are_no_changes() {
        for line in [
            r#"openat(AT_FDCWD</>, "/etc/kubernetes/manifests", O_RDONLY|O_CLOEXEC|O_DIRECTORY) = 14</etc>"#,
            r#"[pid  4711] openat(AT_FDCWD</>, "/run/fip-watchdog/lock", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 5"#,
            r#"openat(AT_FDCWD</>, "/dev/null", O_RDWR) = 5"#,
            r#"write(7<anon_inode:[eventfd]>, "\x01\x00\x00\x00\x00\x00\x00\x00", 8) = 8"#,
            r#"write(9</memfd:journal-data>, "MESSAGE", 7) = 7"#,
            r"sendto(9<socket:[81]>, [{nlmsg_len=28, nlmsg_type=RTM_GETADDR, nlmsg_flags=NLM_F_REQUEST|NLM_F_DUMP}], 28, 0) = 28",
            r#"sendmsg(4<socket:[80]>, {msg_name={sa_family=AF_UNIX, sun_path="/run/systemd/journal/socket"}, msg_iov=[]}, 0) = 9"#,
            r#"sendto(12<socket:[9]>, "\x00\x01\x08\x00\x06\x04\x00\x01\x00\x50\x56\x87\x5b\xd1\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xc0\xa8\x6f\xc8", 28, 0, {sa_family=AF_PACKET, sll_protocol=htons(ETH_P_ARP)}, 20) = 28"#,
            "kill(1234, 0) = 0",
            "kill(137, SIGKILL) = 0",
            "[pid    72] clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88) = 137",
            r"sendto(4<socket:[98]>, [{nlmsg_len=20, nlmsg_type=RTM_GETLINK, nlmsg_flags=NLM_F_REQUEST|NLM_F_DUMP}, {ifi_family=AF_PACKET, ...}], 20, 0, {sa_family=AF_NETLINK, nl_pid=0}, 12) = 20",
            r"sendto(4<socket:[98]>, [{nlmsg_len=20, nlmsg_type=NFNL_SUBSYS_NFTABLES<<8|NFT_MSG_GETRULE}], 20, 0, {sa_family=AF_NETLINK}, 12) = 20",
            r#"bind(11<socket:[82]>, {sa_family=AF_UNIX, sun_path="/run/fip-watchdog/control.sock"}, 32) = 0"#,
            r#"bind(12<socket:[9]>, {sa_family=AF_PACKET, sll_ifindex=if_nametoindex("eth0")}, 20) = 0"#,
            "ioctl(3<socket:[7]>, FIONBIO, [1]) = 0",
            "<... openat resumed>) = 14</etc>",
            "[pid  4711] +++ exited with 0 +++",
            "strace: Process 4711 attached",
        ] {
            assert_eq!(change(line), None, "{line}");
        }
    }

    #[test]
    fn files_addresses_announcements_and_signals_are_changes() {
        for line in [
            r#"openat(AT_FDCWD</>, "/var/lib/fip-watchdog/cycles.journal", O_WRONLY|O_CREAT|O_APPEND|O_CLOEXEC, 0600) = 14"#,
            r#"[pid  4711] renameat2(AT_FDCWD</>, "/etc/kubernetes/manifests/wcp-fip.yaml", AT_FDCWD</>, "/etc/x", RENAME_NOREPLACE) = 0"#,
            r#"mkdir("/etc/kubernetes/fip-watchdog.staging", 0700) = -1 EROFS (Read-only file system)"#,
            r#"write(9</var/lib/fip-watchdog/pause.json>, "{}", 2) = 2"#,
            r"sendto(9<socket:[81]>, [{nlmsg_len=56, nlmsg_type=RTM_NEWADDR, nlmsg_flags=NLM_F_REQUEST|NLM_F_ACK}], 56, 0) = 56",
            r"sendto(9<socket:[81]>, [{nlmsg_len=56, nlmsg_type=RTM_DELADDR, nlmsg_flags=NLM_F_REQUEST|NLM_F_ACK}], 56, 0) = 56",
            r#"sendto(12<socket:[9]>, "\x00\x01\x08\x00\x06\x04\x00\x01\x00\x50\x56\x87\x5b\xd1\xc0\xa8\x6f\xc8\x00\x00\x00\x00\x00\x00\xc0\xa8\x6f\xc8", 28, 0, {sa_family=AF_PACKET, sll_protocol=htons(ETH_P_ARP)}, 20) = 28"#,
            "kill(1234, SIGKILL) = 0",
            r"sendto(4<socket:[98]>, [{nlmsg_len=20, nlmsg_type=NFNL_SUBSYS_NFTABLES<<8|NFT_MSG_DELRULE}], 20, 0, {sa_family=AF_NETLINK}, 12) = 20",
            "tgkill(1234, 1234, SIGKILL) = 0",
            r#"bind(11<socket:[82]>, {sa_family=AF_UNIX, sun_path="/etc/kubernetes/x"}, 32) = 0"#,
            r#"ioctl(3<socket:[7]>, SIOCSIFADDR, {ifr_name="eth0"}) = 0"#,
            "io_uring_setup(8, {flags=0}) = 5",
            r#"unlink("/etc/kubernetes/manifests/wcp-fip.yaml" <unfinished ...>"#,
        ] {
            assert!(change(line).is_some(), "{line}");
        }
    }

    #[test]
    fn a_child_is_known_from_the_line_in_which_its_call_returns() {
        for (line, pid) in [
            ("[pid    72] clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88) = 137", Some(137)),
            ("vfork() = 9", Some(9)),
            ("[pid    72] <... clone3 resumed>) = 137", Some(137)),
            ("clone3({flags=CLONE_VM}, 88 <unfinished ...>", None),
            ("clone3({flags=CLONE_VM}, 88) = -1 ENOSYS (Function not implemented)", None),
            ("openat(AT_FDCWD</>, \"/fork = 7\", O_RDONLY) = 14", None),
        ] {
            assert_eq!(child(line), pid, "{line}");
        }
    }
}
