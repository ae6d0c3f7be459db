//! Combinations of values that are each allowed and unsafe together.
//!
//! A rule names the keys that it looks at, so that it stays silent while one of them is at fault itself,
//! and so that it is reported at the first of them that the file sets.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use super::Policy;
use super::units::format as d;

/// What the rest of a loop's round (jq, ip, forks on a busy machine) may take beyond interval and query.
const ROUND_MARGIN: Duration = Duration::from_secs(3);

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The keys that it looks at; the first one is the one to change.
    pub keys: &'static [&'static str],
    /// Why the policy is unsafe, or `None`. It may assume that each value is in its own range.
    pub violation: fn(&Policy) -> Option<String>,
}

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule { keys: &["etcd.poll_alert", "etcd.poll"], violation: poll_alert },
    Rule { keys: &["etcd.endpoint", "fip.address"], violation: endpoint_is_the_fip },
    Rule { keys: &["loop.stalled_after", "loop.interval", "loop.query_timeout"], violation: stalled_after },
    Rule { keys: &["loop.stalled_after_log_only", "loop.stalled_after"], violation: log_only },
    Rule { keys: &["loop.manifest"], violation: manifest_name },
    Rule { keys: &["cycle.staging_dir", "loop.manifest"], violation: staging_dir },
    Rule { keys: &["state_dir", "loop.manifest"], violation: state_dir },
    Rule { keys: &["cycle.staging_dir", "state_dir"], violation: staging_in_state },
    Rule { keys: &["cycle.verify_timeout", "loop.interval", "loop.query_timeout"], violation: verify_timeout },
    Rule { keys: &["limits.cooldown", "cycle.settle", "cycle.verify_timeout"], violation: cooldown },
    Rule { keys: &["limits.alias_lease"], violation: lease_in_seconds },
    Rule { keys: &["limits.alias_lease", "etcd.deadline", "etcd.poll"], violation: lease },
    Rule { keys: &["limits.proof_max_age", "etcd.deadline"], violation: proof_max_age },
    Rule { keys: &["limits.proof_max_age", "limits.alias_lease"], violation: proof_outlives_lease },
    Rule { keys: &["limits.grace", "loop.interval", "loop.query_timeout"], violation: grace },
];

fn poll_alert(policy: &Policy) -> Option<String> {
    let (alert, poll) = (policy.etcd.poll_alert, policy.etcd.poll);
    (alert > poll).then(|| {
        format!("{} is longer than etcd.poll ({}): etcd would be asked less often when something is wrong", d(alert), d(poll))
    })
}

fn endpoint_is_the_fip(policy: &Policy) -> Option<String> {
    let host = policy.etcd.endpoint.strip_prefix("https://")?.rsplit_once(':')?.0;
    (host.parse::<Ipv4Addr>().ok()? == policy.fip.address)
        .then(|| "is the FIP itself: the answer would come from whichever node holds it, not from this node's member".to_owned())
}

fn stalled_after(policy: &Policy) -> Option<String> {
    let watched = &policy.watched_loop;
    let least = watched.interval + watched.query_timeout + ROUND_MARGIN;
    (watched.stalled_after < least).then(|| {
        format!(
            "{} is shorter than loop.interval + loop.query_timeout + {} = {}: a slow query would look like a stall (allowed: at least {})",
            d(watched.stalled_after),
            d(ROUND_MARGIN),
            d(least),
            d(least)
        )
    })
}

fn log_only(policy: &Policy) -> Option<String> {
    let (alone, both) = (policy.watched_loop.stalled_after_log_only, policy.watched_loop.stalled_after);
    (alone < both).then(|| {
        format!(
            "{} is shorter than loop.stalled_after ({}): the weaker evidence would act sooner (allowed: at least {})",
            d(alone),
            d(both),
            d(both)
        )
    })
}

fn manifest_name(policy: &Policy) -> Option<String> {
    let manifest = &policy.watched_loop.manifest;
    if manifest.parent().is_none_or(|parent| parent == Path::new("/")) {
        return Some("is in the root directory, which is no manifest directory".to_owned());
    }
    let hidden = manifest.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    hidden.then(|| "is a dotfile, and the kubelet reads no dotfiles".to_owned())
}

fn inside_manifest_dir(policy: &Policy, path: &Path) -> bool {
    policy.watched_loop.manifest.parent().is_some_and(|dir| path.starts_with(dir))
}

fn staging_dir(policy: &Policy) -> Option<String> {
    inside_manifest_dir(policy, &policy.cycle.staging_dir).then(|| {
        let aside = default_staging_dir(&policy.watched_loop.manifest);
        format!(
            "{} is in the manifest directory: whatever is in there belongs to the kubelet (allowed: a directory beside it, such as {})",
            policy.cycle.staging_dir.display(),
            aside.display()
        )
    })
}

fn state_dir(policy: &Policy) -> Option<String> {
    inside_manifest_dir(policy, &policy.state_dir).then(|| {
        format!("{} is in the manifest directory: a backup in there would run as a second pod", policy.state_dir.display())
    })
}

fn staging_in_state(policy: &Policy) -> Option<String> {
    let (staging, state) = (&policy.cycle.staging_dir, &policy.state_dir);
    (staging.starts_with(state) || state.starts_with(staging)).then(|| {
        format!(
            "{} and state_dir ({}) are within one another: a staged manifest must not be taken for a backup",
            staging.display(),
            state.display()
        )
    })
}

fn verify_timeout(policy: &Policy) -> Option<String> {
    let least = policy.watched_loop.worst_round() + Duration::from_secs(2);
    (policy.cycle.verify_timeout < least).then(|| {
        format!(
            "{} is too short for one slow round of the new pod: loop.interval + loop.query_timeout + 3s = {} (allowed: at least {})",
            d(policy.cycle.verify_timeout),
            d(least),
            d(least)
        )
    })
}

fn cooldown(policy: &Policy) -> Option<String> {
    let least = policy.cycle.settle + policy.cycle.verify_timeout;
    (policy.limits.cooldown < least).then(|| {
        format!(
            "{} is shorter than cycle.settle + cycle.verify_timeout = {}: the next cycle could start before the last one is verified (allowed: at least {})",
            d(policy.limits.cooldown),
            d(least),
            d(least)
        )
    })
}

fn lease_in_seconds(policy: &Policy) -> Option<String> {
    let lease = policy.limits.alias_lease;
    (lease.subsec_nanos() != 0)
        .then(|| format!("{} is not a whole number of seconds, and the kernel counts lifetimes in seconds", d(lease)))
}

/// The lease is renewed at half-life. In the half that is left one renewal may fail at its deadline, the
/// next poll comes, and a second one must succeed before the kernel takes the address away.
fn lease(policy: &Policy) -> Option<String> {
    let half = policy.etcd.deadline * 2 + policy.etcd.poll;
    let least = half * 2;
    (policy.limits.alias_lease < least).then(|| {
        format!(
            "{} leaves no time for a second try: after half of it two questions to etcd (etcd.deadline {}) and a poll ({}) must fit, which takes a lease of {} (allowed: at least {})",
            d(policy.limits.alias_lease),
            d(policy.etcd.deadline),
            d(policy.etcd.poll),
            d(least),
            d(least)
        )
    })
}

fn proof_max_age(policy: &Policy) -> Option<String> {
    let (age, deadline) = (policy.limits.proof_max_age, policy.etcd.deadline);
    (age < deadline).then(|| {
        format!(
            "{} is shorter than etcd.deadline ({}): a slow proof would be too old when it arrives (allowed: at least {})",
            d(age),
            d(deadline),
            d(deadline)
        )
    })
}

fn proof_outlives_lease(policy: &Policy) -> Option<String> {
    let (age, lease) = (policy.limits.proof_max_age, policy.limits.alias_lease);
    (age >= lease / 2).then(|| {
        format!(
            "{} is not shorter than half of limits.alias_lease ({}): a lease must be renewed under a fresh proof",
            d(age),
            d(lease)
        )
    })
}

fn grace(policy: &Policy) -> Option<String> {
    let least = policy.watched_loop.worst_round();
    (policy.limits.grace < least).then(|| {
        format!(
            "{} is shorter than the loop's worst round of {}: after a pause the loop must have had time for one (allowed: at least {})",
            d(policy.limits.grace),
            d(least),
            d(least)
        )
    })
}

/// Where the manifest waits by default: beside its directory, so on the same mount.
#[must_use]
pub fn default_staging_dir(manifest: &Path) -> std::path::PathBuf {
    manifest.parent().and_then(Path::parent).unwrap_or(Path::new("/")).join("fip-watchdog.staging")
}
