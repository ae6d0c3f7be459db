//! Faults by name, each with its heal. All bounded in time, all by process id, address or path, never by a broad pattern.
//!
//! What is injected is written down in the instance's runtime directory, so that `heal_all` undoes exactly that, newest
//! first, whoever injected it. Every heal is idempotent: healing what is well is success.

mod catalogue;
mod certificate;
mod client;
mod clock;
mod curl;
pub(crate) mod disk;
mod etcd;
mod etcd_disk;
mod kubelet;
mod log_disk;
mod machine;
mod manifest;
mod member;
mod network;
mod process;
mod record;
mod watchdog;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;

pub use catalogue::{ArgInfo, FaultInfo, catalogue, list};

use record::Injected;

use crate::cluster::Lab;
use crate::command;
use crate::node::NodeId;

/// `systemctl` and `ip` answer in milliseconds; a stop job may take as long as a unit's stop time.
const EXEC_LIMIT: Duration = Duration::from_secs(15);

/// What a fault is to be done to.
struct Target<'a> {
    lab: &'a Lab,
    node: NodeId,
    args: &'a BTreeMap<String, String>,
}

impl Target<'_> {
    /// The argument `key`, or its default.
    fn arg<'s>(&'s self, key: &str, default: &'s str) -> &'s str {
        self.args.get(key).map_or(default, String::as_str)
    }

    /// The argument `key`, one of `values`; the first is the default.
    fn choice(&self, key: &str, values: &[&'static str]) -> anyhow::Result<&'static str> {
        let Some(given) = self.args.get(key) else { return values.first().copied().context("no values") };
        let found = values.iter().copied().find(|value| value == given);
        found.with_context(|| format!("{key}={given}: must be one of {}", values.join(", ")))
    }

    /// Runs a program in the node that must succeed.
    async fn run(&self, argv: &[&str]) -> anyhow::Result<String> {
        self.lab.exec_ok(self.node, argv, EXEC_LIMIT).await
    }

    /// Runs a shell script in the node that must succeed; `args` are its `$1`, `$2`, …. Of a failure only what the script
    /// said is shown.
    async fn shell(&self, script: &str, args: &[&str]) -> anyhow::Result<String> {
        let argv = [&["sh", "-euc", script, "fip-lab"], args].concat();
        let output = self.lab.exec(self.node, &argv, EXEC_LIMIT).await?;
        anyhow::ensure!(output.status.success(), "{}", command::tail(&String::from_utf8_lossy(&output.stderr), 4));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Breaks something on `node`.
///
/// # Errors
/// There is no such fault, an argument is wrong, or it cannot be done.
pub async fn inject(lab: &Lab, name: &str, node: NodeId, args: &BTreeMap<String, String>) -> anyhow::Result<()> {
    catalogue::check(name, args)?;
    lab.find(node)?;
    let target = Target { lab, node, args };
    check_healable(&target, name).with_context(|| format!("fault {name} on {node}"))?;
    // Written down first: a fault that was half done must be healed too.
    record::add(lab, Injected { name: name.to_owned(), node, args: args.clone() })?;
    let applied = apply(&target, name).await.with_context(|| format!("fault {name} on {node}"));
    applied.map_err(|error| frozen(lab, node, error))
}

/// A frozen node answers nothing, and what was asked of it only ran out of time.
fn frozen(lab: &Lab, node: NodeId, error: anyhow::Error) -> anyhow::Error {
    if !lab.is_frozen(node) {
        return error;
    }
    let (name, last) = (lab.name(), format!("{error:#}"));
    anyhow::anyhow!("{last}; node {node} is frozen: first do `fip-lab --lab {name} heal node-freeze {node}`")
}

/// Refuses arguments that the heal could not use: once written down they would be in the way of each later `heal all`.
fn check_healable(target: &Target<'_>, name: &str) -> anyhow::Result<()> {
    match name {
        "disk-full" => machine::disk_path(target).map(drop),
        "manifest-shadow" => manifest::shadow_path(target).map(drop),
        _ => Ok(()),
    }
}

async fn apply(target: &Target<'_>, name: &str) -> anyhow::Result<()> {
    match name {
        "loop-stop" => process::stop_loop(target),
        "loop-freeze" => process::freeze_loop(target),
        "loop-kill" => process::kill_loop(target),
        "log-reader-dead" => process::kill_log_reader(target),
        "log-disk" => log_disk::attach(target).await,
        "log-disk-freeze" => log_disk::freeze(target).await,
        "loop-dead-unnoticed" => process::kill_loop_unnoticed(target),
        "child-hang" => process::hang_child(target).await,
        "etcd-stop" => etcd::stop(target).await,
        "etcd-kill" => etcd::kill(target).await,
        "loop-caches-answer" => curl::cache_answer(target).await,
        "certs-expire" => certificate::expire(target).await,
        "etcd-certificate" => certificate::swap(target).await,
        "etcd-crash-loop" => etcd::crash(target).await,
        "etcd-disk" => etcd_disk::attach(target).await,
        "etcd-disk-freeze" => etcd_disk::freeze(target).await,
        "etcd-disk-slow" => etcd_disk::slow_down(target).await,
        "etcd-removed" => member::remove(target).await,
        "etcd-learner" => member::make_learner(target).await,
        "etcd-reverted" => member::revert(target).await,
        "etcd-restart" => etcd::restart(target).await,
        "etcd-nospace" => etcd::spend_quota(target).await,
        "etcd-unreachable" => etcd::cut_off(target).await,
        "move-leader" => etcd::move_leader(target).await,
        "link-down" => network::link_down(target).await,
        "partition" => network::partition(target).await,
        "mtu-black-hole" => wire::black_hole(target).await,
        "address-change" => wire::change_address(target).await,
        "address-twin" => wire::add_twin(target).await,
        "fip-del" => network::delete_fip(target).await,
        "fip-add" => network::add_fip(target).await,
        "client-keeps-arp" => client::keep_neighbours(target, client::HOUR).await,
        "client-misses-announcement" => client::miss_announcement(target).await,
        "node-freeze" => machine::freeze(target).await,
        "disk-full" => machine::fill_disk(target).await,
        "clock-jump" => clock::jump(target).await,
        "manifest-remove" => manifest::remove(target).await,
        "manifest-restore" => manifest::restore(target).await,
        "manifest-touch" => manifest::touch(target).await,
        "manifest-edit" => manifest::edit(target).await,
        "manifest-shadow" => manifest::shadow(target).await,
        "kubelet-mode" => kubelet::set_modes(target),
        "kubelet-stop" => kubelet::stop(target).await,
        "watchdog-kill" => watchdog::kill(target).await,
        "watchdog-freeze" => watchdog::freeze(target).await,
        "watchdog-stop" => watchdog::stop(target).await,
        "watchdog-restart" => watchdog::restart(target).await,
        "watchdog-start" => watchdog::start(target).await,
        "watchdog-mask" => watchdog::mask(target).await,
        "watchdog-unmask" => watchdog::unmask(target).await,
        other => anyhow::bail!("there is no fault {other:?}"),
    }
}

/// Undoes it, in each way in which it was injected and that agrees with the arguments given; with those alone if there is none.
///
/// # Errors
/// There is no such fault or argument, or it cannot be undone.
pub async fn heal(lab: &Lab, name: &str, node: NodeId, args: &BTreeMap<String, String>) -> anyhow::Result<()> {
    catalogue::check_given(name, args)?;
    lab.find(node)?;
    let mut injected = record::args(lab, name, node, args)?;
    if injected.is_empty() {
        injected.push(args.clone());
    }
    for args in injected {
        let target = Target { lab, node, args: &args };
        let undone = undo(&target, name).await.with_context(|| format!("healing {name} on {node}"));
        undone.map_err(|error| frozen(lab, node, error))?;
        record::remove(lab, &Injected { name: name.to_owned(), node, args })?;
    }
    Ok(())
}

async fn undo(target: &Target<'_>, name: &str) -> anyhow::Result<()> {
    match name {
        "loop-stop" => process::continue_loop(target),
        "loop-freeze" => process::thaw_loop(target),
        "log-reader-dead" => process::replace_container_without_reader(target),
        "log-disk" => log_disk::detach(target).await,
        "log-disk-freeze" => log_disk::thaw(target).await,
        "loop-dead-unnoticed" => process::let_the_shim_go_on(target),
        "child-hang" => process::release_child(target).await,
        "etcd-stop" => etcd::resume(target).await,
        "etcd-kill" => etcd::start(target).await,
        "loop-caches-answer" => curl::ask_anew(target).await,
        "certs-expire" => certificate::renew(target).await,
        "etcd-certificate" => certificate::swap_back(target).await,
        "etcd-crash-loop" => etcd::crash_no_more(target).await,
        "etcd-disk" => etcd_disk::detach(target).await,
        "etcd-disk-freeze" => etcd_disk::thaw(target).await,
        "etcd-disk-slow" => etcd_disk::speed_up(target).await,
        "etcd-removed" => member::add_again(target).await,
        "etcd-learner" => member::give_vote(target).await,
        "etcd-reverted" => member::unrevert(target).await,
        "etcd-nospace" => etcd::free_quota(target).await,
        "client-keeps-arp" => client::keep_neighbours(target, client::DEFAULT).await,
        "client-misses-announcement" => client::hear_again(target).await,
        "etcd-unreachable" => etcd::let_in(target).await,
        "link-down" => network::link_up(target).await,
        "partition" => network::join(target).await,
        "mtu-black-hole" => wire::fill_hole(target).await,
        "address-change" => wire::change_address_back(target).await,
        "address-twin" => wire::remove_twin(target).await,
        "fip-add" => network::delete_fip(target).await,
        "node-freeze" => machine::thaw(target),
        "disk-full" => machine::free_disk(target).await,
        "clock-jump" => clock::restore(target).await,
        "manifest-remove" => manifest::restore(target).await,
        "manifest-edit" => manifest::unedit(target).await,
        "manifest-shadow" => manifest::unshadow(target).await,
        "kubelet-mode" => kubelet::clear_modes(target),
        "kubelet-stop" => kubelet::start(target).await,
        "watchdog-kill" | "watchdog-mask" => watchdog::revive(target).await,
        "watchdog-freeze" => watchdog::thaw(target).await,
        "watchdog-stop" | "watchdog-start" => watchdog::as_brought_up(target).await,
        // Over by itself, or itself a cure.
        "loop-kill" | "move-leader" | "fip-del" | "manifest-restore" | "manifest-touch" | "watchdog-unmask"
        | "watchdog-restart" | "etcd-restart" => Ok(()),
        other => anyhow::bail!("there is no fault {other:?}"),
    }
}

/// Undoes all that was injected and not healed: first thaws, since a frozen node answers nothing, then newest first. One that
/// fails does not keep the others from being healed, and is tried again after them: an etcd behind a partition does not start.
///
/// # Errors
/// Something cannot be undone; names all that.
pub async fn heal_all(lab: &Lab) -> anyhow::Result<()> {
    let mut failed = heal_each(lab).await?;
    loop {
        let before = failed.len();
        if before == 0 {
            return Ok(());
        }
        failed = heal_each(lab).await?;
        anyhow::ensure!(failed.len() < before, "{}", failed.join("; "));
    }
}

/// Why those that could not be undone could not.
async fn heal_each(lab: &Lab) -> anyhow::Result<Vec<String>> {
    let mut failed = Vec::new();
    let mut injected = record::all(lab)?;
    injected.reverse();
    injected.sort_by_key(|injected| injected.name != "node-freeze");
    for injected in injected {
        // Healed together with a newer one.
        if !record::all(lab)?.contains(&injected) {
            continue;
        }
        if let Err(error) = heal(lab, &injected.name, injected.node, &injected.args).await {
            failed.push(format!("{error:#}"));
        }
    }
    Ok(failed)
}
