//! The list of faults: names, arguments, what each does, what its heal does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;

/// A fault.
#[derive(Debug)]
pub struct FaultInfo {
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub args: &'static [ArgInfo],
    /// What it does.
    pub what: &'static str,
    /// What its heal does.
    pub heal: &'static str,
}

/// An argument of a fault, given as `key=value`.
#[derive(Debug)]
pub struct ArgInfo {
    /// Its key.
    pub key: &'static str,
    /// What it may be; the first one is the default, unless it must be given.
    pub values: &'static str,
    /// It must be given.
    pub required: bool,
}

impl ArgInfo {
    /// What is wrong with a value, where all that there may be are listed.
    #[must_use]
    pub fn flaw(&self, value: &str) -> Option<String> {
        let listed = self.values.contains('|') && !self.values.contains('…');
        let wrong = listed && self.values.split('|').all(|known| known != value);
        wrong.then(|| format!("{}={value}: must be one of {}", self.key, self.values.replace('|', ", ")))
    }
}

const fn optional(key: &'static str, values: &'static str) -> ArgInfo {
    ArgInfo { key, values, required: false }
}

const fn required(key: &'static str, values: &'static str) -> ArgInfo {
    ArgInfo { key, values, required: true }
}

const fn fault(name: &'static str, args: &'static [ArgInfo], what: &'static str, heal: &'static str) -> FaultInfo {
    FaultInfo { name, args, what, heal }
}

/// All faults, in the order in which they are listed.
#[must_use]
pub fn catalogue() -> &'static [FaultInfo] {
    &CATALOGUE
}

static CATALOGUE: [FaultInfo; 50] = [
    fault("loop-stop", &[], "SIGSTOP to the loop's shell and all its children", "SIGCONT to all of them"),
    fault(
        "loop-freeze",
        &[],
        "puts the loop's shell and its children into a frozen cgroup, where even SIGKILL stays pending, as in uninterruptible sleep",
        "thaws them; what was sent meanwhile takes effect",
    ),
    fault("loop-kill", &[], "SIGKILL to the loop's shell", "none: the kubelet starts it again"),
    fault(
        "log-reader-dead",
        &[optional("fill", "now|slow")],
        "kills the process that drains the loop's pipe; `now` fills the pipe at once, `slow` leaves that to the loop (minutes)",
        "kills the loop, unless its reader lives, so that the kubelet makes a new container with a new reader",
    ),
    fault(
        "loop-dead-unnoticed",
        &[],
        "SIGSTOP to the container's shim, then SIGKILL to the loop's shell: nobody reaps it, and the kubelet goes on calling the pod running",
        "SIGCONT to the shim, which tells of the end",
    ),
    fault(
        "log-disk",
        &[],
        "puts the pods' logs on a disk of their own (16 MiB, ext4 on a loop device at /var/log/pods) and kills the loop, so that its \
         next container logs there",
        "the node's own disk again, and a new container",
    ),
    fault(
        "log-disk-freeze",
        &[],
        "freezes that disk (fsfreeze), so that the log reader hangs in its next write, and fills the loop's pipe; needs log-disk",
        "thaws it",
    ),
    fault(
        "child-hang",
        &[optional("how", "stop|drop"), optional("child", "curl|jq|ip|grep|sleep")],
        "`stop`: SIGSTOP to the loop's next child of that name, so that the shell waits for ever; `drop`: new connections to \
         127.0.0.1:2379 get no answer, so that curl takes its whole -m (the watchdog's open connection goes on)",
        "SIGCONT, and connections are answered again",
    ),
    fault(
        "loop-caches-answer",
        &[],
        "the loop's curl gives the answer of now for ever, in this container; the next one asks anew",
        "every curl asks etcd",
    ),
    fault("etcd-stop", &[], "SIGSTOP to etcd: connections are accepted and nothing answers", "SIGCONT"),
    fault(
        "etcd-kill",
        &[optional("restart", "yes|no")],
        "SIGKILL to etcd; `no` keeps systemd from starting it again",
        "starts it if it does not run",
    ),
    fault("etcd-restart", &[], "systemctl restart: an orderly end and a start at once, as an upgrade does", "none"),
    fault(
        "etcd-nospace",
        &[],
        "restarts the node's etcd with a quota of 2 MiB and writes until it is spent: the cluster has a NOSPACE alarm and takes no writes",
        "the default quota again, and the alarm is disarmed",
    ),
    fault(
        "certs-expire",
        &[],
        "etcd's server certificate, which is the loop's client certificate too, has expired; open connections go on",
        "the good one is back",
    ),
    fault(
        "etcd-certificate",
        &[optional("which", "peer|server"), optional("what", "expired|not-yet-valid|wrong-ca|wrong-name|wrong-usage|wrong-key")],
        "puts an odd certificate (or, with `wrong-key`, another key) in place of etcd's own and restarts it; `wrong-ca` is signed by \
         another one of the same name",
        "the good one is back, and etcd restarted",
    ),
    fault(
        "etcd-crash-loop",
        &[],
        "gives etcd a setting with which it ends at once: systemd starts it again every 2 s",
        "the setting goes, and etcd is restarted",
    ),
    fault(
        "etcd-disk",
        &[],
        "moves etcd's data to a disk of their own (ext4 on a loop device at /var/lib/etcd), with a restart",
        "the data go back, with a restart",
    ),
    fault(
        "etcd-disk-freeze",
        &[],
        "freezes that disk (fsfreeze) and writes a key, so that etcd waits for it; needs etcd-disk",
        "thaws it",
    ),
    fault(
        "etcd-disk-slow",
        &[optional("ms", "300")],
        "each fdatasync of the node's etcd takes so many milliseconds more (strace), and a key is written again and again",
        "as fast as ever",
    ),
    fault("etcd-removed", &[], "removes the node's member from the cluster, by another member", "adds it again, with empty data"),
    fault("etcd-learner", &[], "removes the node's member and adds it again as a learner, with empty data", "promotes it"),
    fault(
        "etcd-reverted",
        &[],
        "puts etcd's data back to what they were some writes ago, as going back to a machine's snapshot does: it panics again and again \
         for as long as the leader is the same. Not on the leader",
        "the newer data are back",
    ),
    fault(
        "etcd-unreachable",
        &[],
        "drops everything to and from port 2379 on the node's loopback: loop and watchdog reach their etcd no more, which itself is well",
        "the filter goes",
    ),
    fault("move-leader", &[], "makes the node's etcd the leader; nothing if it is", "none"),
    fault(
        "link-down",
        &[optional("side", "bridge|node")],
        "`bridge`: the switch's port goes down and the node loses its carrier; `node`: eth0 is set down in the node",
        "both ends up",
    ),
    fault(
        "partition",
        &[
            optional("peers", "nodes|all|client|cp2,cp3,…"),
            optional("ports", "all|2379,2380,…"),
            optional("direction", "both|in|out"),
            optional("action", "drop|reject"),
            optional("where", "node|network"),
        ],
        "filters between the node and those peers (`nodes`: the other nodes; `all`: also the client): `in` connections to the node's \
         ports, `out` connections to the peers' ports; with all ports, packets in or out. IP only, as a firewall does: ARP passes. In the \
         node's own packet filter, or in the `network`, where the node cannot see it",
        "the filter goes",
    ),
    fault(
        "mtu-black-hole",
        &[optional("bytes", "1400")],
        "the network loses packets of more than so many bytes to and from the node, and tells nobody",
        "it passes them",
    ),
    fault(
        "address-change",
        &[optional("restart", "no|yes")],
        "eth0 has another address (.211 for .201), while all members know the old one; `yes` restarts etcd, which cannot bind",
        "the old address is back",
    ),
    fault(
        "address-twin",
        &[],
        "a station that is no node has the node's address too, and announces it; one in a lab at a time",
        "it goes",
    ),
    fault("fip-del", &[], "deletes the floating IP from eth0", "none: who is to put it back is what is being tested"),
    fault("fip-add", &[], "adds the floating IP to eth0, for ever, without announcing it", "deletes it"),
    fault(
        "client-keeps-arp",
        &[],
        "the client's neighbour entries are good for an hour, as a router's are: only an announcement changes them. The node is of no matter",
        "30 s again",
    ),
    fault(
        "client-misses-announcement",
        &[],
        "the next announcement of the floating IP does not reach the client, as when a packet is lost. The node is of no matter",
        "none is lost any more",
    ),
    fault(
        "node-freeze",
        &[optional("seconds", "(until healed)")],
        "stops every process of the node at one instant, as a hypervisor stuns a machine; with `seconds` it returns after thawing",
        "thaws",
    ),
    fault(
        "disk-full",
        &[optional("path", "/etc/kubernetes"), optional("how", "fill|mount|copy")],
        "`fill`: fills the file system that path is on (the node's root is one); `mount`: mounts a tiny full one over path, hiding \
         what is there; `copy`: the same with a copy of what is there",
        "frees it",
    ),
    fault(
        "clock-jump",
        &[required("by", "±length (+1h, -60s, +30)"), optional("clock", "realtime|boottime|monotonic")],
        "`realtime`: sets the wall clock of the watchdog and of the stamps in the pods' logs, by so much from where it is, as NTP does; all \
         else in the node has the host's (x86-64 alone). A watchdog that starts later has the same clock in `fip-lab run`, else the host's. \
         `boottime` and `monotonic`: restarts the watchdog with that clock shifted (time namespace, kernel 5.6 or later)",
        "the host's clocks again: the wall clock jumps back, for the others the watchdog is restarted",
    ),
    fault("manifest-remove", &[], "moves the loop's manifest out of the kubelet's directory", "moves it back"),
    fault("manifest-restore", &[], "moves it back, unless there is one", "none"),
    fault("manifest-touch", &[], "changes nothing but its time stamps", "none"),
    fault("manifest-edit", &[], "replaces it by one with another annotation, as an upgrade does", "the original goes back"),
    fault(
        "manifest-shadow",
        &[optional("name", "wcp-fip.yaml.bak")],
        "copies it to another name in the same directory: a second file that declares the same pod",
        "removes the copy",
    ),
    fault(
        "kubelet-mode",
        &[required("mode", "sources-not-ready,watch-dead,unkillable,log-reader-dead,evict,termination-stuck")],
        "sets the kubelet's faults, separated by commas, in place of those before",
        "none of them",
    ),
    fault("kubelet-stop", &[], "stops the kubelet; its pods go on", "starts it"),
    fault(
        "watchdog-kill",
        &[optional("mask", "no|yes")],
        "SIGKILL to the watchdog; `yes` keeps systemd from starting it again",
        "unmasks and starts it",
    ),
    fault(
        "watchdog-freeze",
        &[],
        "SIGSTOP to the watchdog; systemd replaces it when it has not been fed for 10 s",
        "SIGCONT, if it still is that one",
    ),
    fault("watchdog-stop", &[], "systemctl stop: an orderly end", "starts it, if the lab was brought up with watchdogs"),
    fault("watchdog-restart", &[], "systemctl restart: an orderly end and a start at once, as an upgrade does", "none"),
    fault("watchdog-start", &[], "systemctl start", "stops it, unless the lab was brought up with watchdogs"),
    fault("watchdog-mask", &[], "no start from now on; one that runs goes on", "unmasks and starts it"),
    fault("watchdog-unmask", &[], "may be started again", "none"),
];

/// The fault `name`, or an error that lists all names.
pub(super) fn check_name(name: &str) -> anyhow::Result<&'static FaultInfo> {
    let names = || CATALOGUE.iter().map(|fault| fault.name).collect::<Vec<_>>().join(", ");
    CATALOGUE
        .iter()
        .find(|fault| fault.name == name)
        .with_context(|| format!("there is no fault {name:?}: there are {}", names()))
}

/// Refuses arguments that the fault does not have, values that they cannot have, and the lack of one that it needs.
pub(super) fn check(name: &str, args: &BTreeMap<String, String>) -> anyhow::Result<()> {
    check_given(name, args)?;
    for arg in check_name(name)?.args {
        anyhow::ensure!(!arg.required || args.contains_key(arg.key), "fault {name} needs {}={}", arg.key, arg.values);
    }
    Ok(())
}

/// As [`check`], but nothing need be given: a heal takes what is not from the fault.
pub(super) fn check_given(name: &str, args: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let fault = check_name(name)?;
    for (key, value) in args {
        let keys = || fault.args.iter().map(|arg| arg.key).collect::<Vec<_>>().join(", ");
        let known = fault.args.iter().find(|arg| arg.key == key);
        let has = || if fault.args.is_empty() { "none".to_owned() } else { keys() };
        let arg = known.with_context(|| format!("fault {name} has no argument {key:?}; it has: {}", has()))?;
        if let Some(flaw) = arg.flaw(value) {
            anyhow::bail!("fault {name}: {flaw}");
        }
    }
    Ok(())
}

/// The list that a person reads.
#[must_use]
pub fn list() -> String {
    let mut text = String::new();
    for fault in catalogue() {
        let args: Vec<String> = fault
            .args
            .iter()
            .map(
                |arg| {
                    if arg.required { format!(" {}={}", arg.key, arg.values) } else { format!(" [{}={}]", arg.key, arg.values) }
                },
            )
            .collect();
        // Writing to a string cannot fail.
        writeln!(text, "{} NODE{}\n    {}\n    heal: {}", fault.name, args.concat(), fault.what, fault.heal).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn unknown_names_and_arguments_are_refused_and_what_there_is_is_named() {
        assert!(check("loop-stopp", &args(&[])).unwrap_err().to_string().contains("loop-stop"));
        assert!(check("partition", &args(&[("peer", "cp2")])).unwrap_err().to_string().contains("peers"));
        assert!(check("kubelet-mode", &args(&[])).unwrap_err().to_string().contains("mode=sources-not-ready"));
        check("partition", &args(&[("peers", "cp2"), ("action", "reject")])).unwrap();
        assert!(check("loop-stop", &args(&[("x", "1")])).unwrap_err().to_string().ends_with("it has: none"));
        check_given("kubelet-mode", &args(&[])).unwrap();
    }

    #[test]
    fn a_value_that_is_not_among_those_listed_is_refused_and_what_is_open_is_not() {
        let error = check("etcd-certificate", &args(&[("which", "both")])).unwrap_err().to_string();
        assert!(error.contains("which=both: must be one of peer, server"), "{error}");
        assert!(check("partition", &args(&[("direction", "sideways")])).is_err());
        check("partition", &args(&[("peers", "cp2,cp3"), ("ports", "2380")])).unwrap();
        check("etcd-disk-slow", &args(&[("ms", "20")])).unwrap();
        check("disk-full", &args(&[("path", "/var"), ("how", "copy")])).unwrap();
    }

    #[test]
    fn every_fault_is_listed_once_with_its_heal() {
        let list = list();
        for fault in catalogue() {
            assert_eq!(list.matches(&format!("{} NODE", fault.name)).count(), 1, "{}", fault.name);
            assert!(!fault.what.is_empty() && !fault.heal.is_empty());
        }
    }
}
