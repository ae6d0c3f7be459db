//! The table of keys: what a policy file may say.
//!
//! The one list of its kind. The check walks it, the JSON Schema and `diff` are made from it, and tests hold
//! `policies/default.yaml` against it. Defaults are not in it: they come from [`Policy::with_defaults`].
//! `remedies` is not in it either, see `super::remedies`.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use super::{Mode, OnConflict, Policy};

/// The version of the file format that this table describes.
pub const VERSION: u32 = 1;

/// How a duration that may be absent is spelt when it is.
pub const NEVER: &str = "never";

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Where it is, `limits.cooldown`.
    pub path: &'static str,
    /// What it holds and where that goes.
    pub value: Value,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// Why less is not allowed; empty if that is plain.
    pub why_not_less: &'static str,
    /// Why more is not allowed; empty if that is plain.
    pub why_not_more: &'static str,
}

/// What a key holds, its range, and its place in a [`Policy`].
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// The version of the format: must be there, must be [`VERSION`].
    Version,
    /// An IPv4 address: the only other key without a default.
    Address(fn(&mut Policy) -> &mut Ipv4Addr),
    /// A text of a given form.
    Text(Form, fn(&mut Policy) -> &mut String),
    /// An absolute path.
    Path(fn(&mut Policy) -> &mut PathBuf),
    /// A duration between two bounds, both allowed.
    Duration(Duration, Duration, fn(&mut Policy) -> &mut Duration),
    /// The same, or `never`.
    DurationOrNever(Duration, Duration, fn(&mut Policy) -> &mut Option<Duration>),
    /// A whole number between two bounds, both allowed.
    Count(u32, u32, fn(&mut Policy) -> &mut u32),
    /// `true` or `false`.
    Switch(fn(&mut Policy) -> &mut bool),
    /// One word of a few.
    Choice(Choice),
}

/// One word of a few.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// The words.
    pub words: &'static [&'static str],
    /// The index of the word that a policy holds.
    pub get: fn(&Policy) -> usize,
    /// Puts the word of an index into a policy; an index beyond the words changes nothing.
    pub set: fn(&mut Policy, usize),
}

/// The forms of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Name of a network interface.
    Interface,
    /// DNS label (RFC 1123), as Kubernetes names namespaces and containers.
    Label,
    /// DNS subdomain, as Kubernetes names pods.
    Subdomain,
    /// Name of a systemd service.
    Unit,
    /// Names of systemd units with a blank between them, or nothing.
    Units,
    /// `https://HOST:PORT` with an IP address or `localhost`.
    Endpoint,
}

const MODES: [Mode; 2] = [Mode::Enforce, Mode::Observe];
const ON_CONFLICT: [OnConflict; 3] = [OnConflict::TakeOver, OnConflict::Wait, OnConflict::Alarm];

const MODE: Choice = Choice {
    words: &["enforce", "observe"],
    get: |policy| MODES.iter().position(|mode| *mode == policy.mode).unwrap_or(0),
    set: |policy, index| policy.mode = MODES.get(index).copied().unwrap_or(policy.mode),
};

const CONFLICT: Choice = Choice {
    words: &["take_over", "wait", "alarm"],
    get: |policy| ON_CONFLICT.iter().position(|answer| *answer == policy.fip.on_conflict).unwrap_or(0),
    set: |policy, index| policy.fip.on_conflict = ON_CONFLICT.get(index).copied().unwrap_or(policy.fip.on_conflict),
};

const fn key(path: &'static str, value: Value, meaning: &'static str) -> Key {
    Key { path, value, meaning, why_not_less: "", why_not_more: "" }
}

const fn bounded(path: &'static str, value: Value, meaning: &'static str, why: [&'static str; 2]) -> Key {
    Key { path, value, meaning, why_not_less: why[0], why_not_more: why[1] }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Every key but the remedies, in the order of `policies/default.yaml`.
pub const KEYS: &[Key] = &[
    key("version", Value::Version, "Version of this file's format."),
    key("mode", Value::Choice(MODE), "Carry out the steps, or only say what would be done."),
    key("fip.address", Value::Address(|p| &mut p.fip.address), "The floating IP; always handled as a /32."),
    key("fip.interface", Value::Text(Form::Interface, |p| &mut p.fip.interface), "The interface that carries it."),
    key("fip.on_conflict", Value::Choice(CONFLICT), "What a proven leader does when another host goes on answering for the FIP."),
    key(
        "fip.lease_loop_alias",
        Value::Switch(|p| &mut p.fip.lease_loop_alias),
        "Whether the alias that the loop put up gets our lease too, while this node is proven to lead.",
    ),
    key("etcd.endpoint", Value::Text(Form::Endpoint, |p| &mut p.etcd.endpoint), "Client URL of this node's etcd member."),
    key("etcd.ca", Value::Path(|p| &mut p.etcd.ca), "CA certificate (PEM)."),
    key("etcd.cert", Value::Path(|p| &mut p.etcd.cert), "Client certificate (PEM)."),
    key("etcd.key", Value::Path(|p| &mut p.etcd.key), "Key of the client certificate (PEM)."),
    key(
        "etcd.poll",
        Value::Duration(ms(250), s(10), |p| &mut p.etcd.poll),
        "Time between two questions to etcd while all is well.",
    ),
    key(
        "etcd.poll_alert",
        Value::Duration(ms(100), s(5), |p| &mut p.etcd.poll_alert),
        "Time between two questions to etcd while something is not.",
    ),
    bounded(
        "etcd.deadline",
        Value::Duration(ms(250), s(5), |p| &mut p.etcd.deadline),
        "Deadline of one round of questions to etcd.",
        ["a busy but healthy member needs some 100 ms", "a member that is cut off must be found out before the lease ends"],
    ),
    bounded(
        "etcd.flap_changes",
        Value::Count(2, 30, |p| &mut p.etcd.flap_changes),
        "The leadership flaps when its term has changed this often within etcd.flap_window.",
        ["one change is an ordinary failover", ""],
    ),
    key(
        "etcd.flap_window",
        Value::Duration(s(5), s(3600), |p| &mut p.etcd.flap_window),
        "The window in which changes of the term count.",
    ),
    key(
        "etcd.stable_for",
        Value::Duration(s(1), s(600), |p| &mut p.etcd.stable_for),
        "How long the term of a leadership that flapped must not have changed before anything is put up or cycled.",
    ),
    key("loop.manifest", Value::Path(|p| &mut p.watched_loop.manifest), "The loop's manifest in the kubelet's directory."),
    key("loop.namespace", Value::Text(Form::Label, |p| &mut p.watched_loop.namespace), "Namespace of the loop's pod."),
    key("loop.pod", Value::Text(Form::Subdomain, |p| &mut p.watched_loop.pod), "Name of the pod in the manifest."),
    key("loop.container", Value::Text(Form::Label, |p| &mut p.watched_loop.container), "Name of the container."),
    key("loop.log_root", Value::Path(|p| &mut p.watched_loop.log_root), "Where the kubelet keeps the logs of pods."),
    key(
        "loop.kubelet_unit",
        Value::Text(Form::Unit, |p| &mut p.watched_loop.kubelet_unit),
        "The kubelet's systemd service; while it does not run, the manifest is left alone.",
    ),
    key("loop.interval", Value::Duration(s(1), s(60), |p| &mut p.watched_loop.interval), "How often the loop runs."),
    key(
        "loop.query_timeout",
        Value::Duration(s(1), s(60), |p| &mut p.watched_loop.query_timeout),
        "How long the loop waits for etcd, the -m of its curl.",
    ),
    key(
        "loop.stalled_after",
        Value::Duration(s(5), s(600), |p| &mut p.watched_loop.stalled_after),
        "The loop is stalled when its log and its process have both been frozen for this long.",
    ),
    key(
        "loop.stalled_after_log_only",
        Value::Duration(s(10), s(3600), |p| &mut p.watched_loop.stalled_after_log_only),
        "The same when the process cannot be seen.",
    ),
    bounded(
        "loop.settle_after_change",
        Value::Duration(s(60), s(86_400), |p| &mut p.watched_loop.settle_after_change),
        "How long the loop may take to finish its first round under a changed manifest, before it is judged like any other.",
        ["the old pod alone takes its grace period, and the new one comes up to 10 s later", ""],
    ),
    key(
        "cycle.staging_dir",
        Value::Path(|p| &mut p.cycle.staging_dir),
        "Where the manifest waits while it is out: on the manifest directory's mount, and not in that directory.",
    ),
    bounded(
        "cycle.kill_after",
        Value::DurationOrNever(ms(2500), s(60), |p| &mut p.cycle.kill_after),
        "How long the manifest has been out when the loop's process, if it still lives, is killed by the watchdog itself.",
        ["the kubelet must have noticed by its next 2 s tick, or it keeps the dead container's record for up to 50 s", ""],
    ),
    key(
        "cycle.death_margin",
        Value::Duration(s(5), s(300), |p| &mut p.cycle.death_margin),
        "How long the old pod may take to die, beyond its own grace period or after it was killed.",
    ),
    bounded(
        "cycle.settle",
        Value::Duration(s(3), s(30), |p| &mut p.cycle.settle),
        "How long the manifest stays out after the old pod's end.",
        [
            "the kubelet tidies up every 2 s, and a restart before that counts as a crash, with a back-off of up to 5 min",
            "nobody runs the loop meanwhile",
        ],
    ),
    key(
        "cycle.verify_timeout",
        Value::Duration(s(5), s(300), |p| &mut p.cycle.verify_timeout),
        "How long the new pod may take to finish a round.",
    ),
    key(
        "limits.confirm",
        Value::Duration(s(0), s(300), |p| &mut p.limits.confirm),
        "How long a verdict must have held before the manifest is cycled for it; the alias does not wait.",
    ),
    bounded(
        "limits.cooldown",
        Value::Duration(s(30), s(86_400), |p| &mut p.limits.cooldown),
        "Least time between two cycles.",
        ["an old pod alone takes up to 30 s to die", ""],
    ),
    bounded(
        "limits.cycles_per_hour",
        Value::Count(1, 12, |p| &mut p.limits.cycles_per_hour),
        "Most cycles in any hour.",
        [
            "to switch cycles off, leave `cycle_manifest` out of the remedies",
            "a loop that freezes more often than that needs a person",
        ],
    ),
    bounded(
        "limits.alias_lease",
        Value::Duration(s(4), s(60), |p| &mut p.limits.alias_lease),
        "Lifetime that the kernel is given for an alias that the watchdog adds; renewed at half of it.",
        [
            "it is renewed at half of it, and each renewal needs an answer from etcd",
            "for this long a node whose watchdog died may hold the FIP although another node leads",
        ],
    ),
    key(
        "limits.alias_cooldown",
        Value::Duration(ms(200), s(60), |p| &mut p.limits.alias_cooldown),
        "Least time between two attempts of the same step on the alias.",
    ),
    bounded(
        "limits.alias_per_hour",
        Value::Count(1, 600, |p| &mut p.limits.alias_per_hour),
        "Most applications of the alias in any hour; renewals do not count.",
        ["to switch the alias off, leave `apply_alias` out of the remedies", ""],
    ),
    bounded(
        "limits.proof_max_age",
        Value::Duration(ms(500), s(5), |p| &mut p.limits.proof_max_age),
        "How old a proof of leadership may be when a step starts.",
        ["", "a proof tells of an instant: about 1 s after a partition another node can lead"],
    ),
    key(
        "limits.grace",
        Value::Duration(s(5), s(600), |p| &mut p.limits.grace),
        "How long nothing is judged after the daemon itself did not run (a suspended VM, a clock jump).",
    ),
    key(
        "host.late_ticks",
        Value::Count(1, 60, |p| &mut p.host.late_ticks),
        "The node counts as starved when the watchdog itself woke half a second late this many times in a minute.",
    ),
    bounded(
        "host.cpu_pressure",
        Value::Count(50, 100, |p| &mut p.host.cpu_pressure),
        "It counts as starved, too, when some task waited for a CPU for more than this percentage of the last 10 s; 100 is never.",
        ["half of the time is what a busy node shows", ""],
    ),
    key(
        "host.calm_after",
        Value::Duration(s(10), s(600), |p| &mut p.host.calm_after),
        "How long neither must have shown until the loop's silence counts again, from zero.",
    ),
    key(
        "host.starved_max",
        Value::Duration(s(60), s(86_400), |p| &mut p.host.starved_max),
        "How long the node counts as starved at most; from then on the loop's silence counts all the same.",
    ),
    key(
        "boot.wait_for",
        Value::Text(Form::Units, |p| &mut p.boot.wait_for),
        "systemd units that must be active after a boot before anything is judged; one that does not exist is not waited for.",
    ),
    key(
        "boot.hold_off_max",
        Value::Duration(s(0), s(3600), |p| &mut p.boot.hold_off_max),
        "How long after the boot they are waited for at most; 0s is not at all.",
    ),
    key(
        "api.check",
        Value::Switch(|p| &mut p.api.check),
        "Whether the node that holds the FIP asks if anything answers behind it; nothing but a word in status and journal follows.",
    ),
    key("api.port", Value::Count(1, 65_535, |p| &mut p.api.port), "The TCP port of the API server."),
    key(
        "cluster.share_views",
        Value::Switch(|p| &mut p.cluster.share_views),
        "Whether nodes share in etcd what they see of their peers.",
    ),
    key("state_dir", Value::Path(|p| &mut p.state_dir), "Where the journal of cycles and the manifest backups live."),
];

/// The key of that path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The names of the sections, each once, in order; `remedies` is the last.
pub fn sections() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    KEYS.iter().filter_map(|key| key.path.split_once('.')).map(|(section, _)| section).chain(["remedies"]).filter(
        move |section| {
            let new = *section != last;
            last = *section;
            new
        },
    )
}

/// The names of the keys in a section (`""`: the keys outside any).
pub fn names_in(section: &str) -> impl Iterator<Item = &'static str> + use<'_> {
    KEYS.iter().filter_map(move |key| match key.path.split_once('.') {
        Some((of, name)) if of == section => Some(name),
        None if section.is_empty() => Some(key.path),
        Some(_) | None => None,
    })
}

impl Key {
    /// What is allowed, as a message says it: `5s to 1h`.
    #[must_use]
    pub fn allowed(&self) -> String {
        let format = super::units::format;
        match self.value {
            Value::Version => VERSION.to_string(),
            Value::Address(_) => "an IPv4 unicast address".to_owned(),
            Value::Text(form, _) => form.allowed().to_owned(),
            Value::Path(_) => "an absolute path".to_owned(),
            Value::Duration(min, max, _) => format!("{} to {}", format(min), format(max)),
            Value::DurationOrNever(min, max, _) => format!("{} to {}, or never", format(min), format(max)),
            Value::Count(min, max, _) => format!("{min} to {max}"),
            Value::Switch(_) => "true, false".to_owned(),
            Value::Choice(choice) => choice.words.join(", "),
        }
    }

    /// The value that a policy holds, as the file would spell it.
    #[must_use]
    pub fn spell(&self, policy: &Policy) -> String {
        // The table's accessors are for writing; a policy is small enough to be copied for reading.
        let mut policy = policy.clone();
        match self.value {
            Value::Version => VERSION.to_string(),
            Value::Address(field) => field(&mut policy).to_string(),
            Value::Text(_, field) => field(&mut policy).clone(),
            Value::Path(field) => field(&mut policy).display().to_string(),
            Value::Duration(_, _, field) => super::units::format(*field(&mut policy)),
            Value::DurationOrNever(_, _, field) => field(&mut policy).map_or_else(|| NEVER.to_owned(), super::units::format),
            Value::Count(_, _, field) => field(&mut policy).to_string(),
            Value::Switch(field) => field(&mut policy).to_string(),
            Value::Choice(choice) => choice.words.get((choice.get)(&policy)).copied().unwrap_or_default().to_owned(),
        }
    }
}

impl Form {
    /// What is allowed, in words.
    #[must_use]
    pub const fn allowed(self) -> &'static str {
        match self {
            Self::Interface => "1 to 15 characters, no space, `/` or `:`",
            Self::Label => "a DNS label: a-z, 0-9 and `-`, at most 63",
            Self::Subdomain => "a DNS name: a-z, 0-9, `-` and `.`, at most 253",
            Self::Unit => "a systemd service, at most 255 characters: kubelet.service",
            Self::Units => "at most 8 systemd units with a blank between them, or \"\"",
            Self::Endpoint => "https://HOST:PORT, HOST an IP address or localhost",
        }
    }
}
