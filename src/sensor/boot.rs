//! Whether the units that the policy waits for after a boot are active.
//!
//! Asked of systemd, by `systemctl show`: a oneshot unit that did its work has no process that could be seen
//! (docs/decisions/0011). Only within the first minutes after a boot by `CLOCK_BOOTTIME`, and never again once all were active:
//! a restart of this daemon on a node that has been up for longer asks nothing.
//!
//! Invariant: bounded. Each question has a deadline, its child is killed when that is over, and the whole ends at
//! `boot.hold_off_max`. What systemd does not say is waited for until then. Cancel-safe.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::decision::observation::HoldOff;
use crate::decision::time::Moment;
use crate::policy::BootPolicy;
use crate::runtime::child;

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// How long systemd may take to answer, which is busy after a boot.
const DEADLINE: Duration = Duration::from_secs(1);

/// An answer has some 80 bytes a unit.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// What is asked.
const SYSTEMCTL: &str = "systemctl";

/// The sense for the time after a boot.
#[derive(Debug)]
pub struct BootSensor {
    program: String,
    asked: Option<(Moment, String)>,
    over: bool,
}

impl Default for BootSensor {
    fn default() -> Self {
        Self { program: SYSTEMCTL.to_owned(), asked: None, over: false }
    }
}

impl BootSensor {
    /// What is waited for at `now`, when the machine has been up for `uptime`.
    pub async fn read(&mut self, policy: &BootPolicy, now: Moment, uptime: Duration) -> Option<HoldOff> {
        let remaining = policy.hold_off_max.saturating_sub(uptime);
        self.over |= remaining.is_zero() || policy.wait_for.trim().is_empty();
        if self.over {
            return None;
        }
        let reason = match &self.asked {
            Some((at, reason)) if now.since(*at) < ASK_EVERY => reason.clone(),
            Some(_) | None => {
                let units: BTreeSet<&str> = policy.wait_for.split_whitespace().collect();
                let waited_for = match self.ask(&units).await {
                    Ok(answer) => not_active(&answer, units.len()),
                    Err(reason) => Err(reason),
                };
                let reason = match waited_for {
                    Ok(units) if units.is_empty() => {
                        self.over = true;
                        return None;
                    }
                    Ok(units) => units.join(", "),
                    Err(reason) => reason,
                };
                self.asked = Some((now, reason.clone()));
                reason
            }
        };
        Some(HoldOff { reason, remaining })
    }

    async fn ask(&self, units: &BTreeSet<&str>) -> Result<String, String> {
        let about = ["show", "--no-pager", "--property=Id,LoadState,ActiveState", "--"].into_iter().chain(units.iter().copied());
        let answer = child::answer(&self.program, about, DEADLINE, ANSWER_BYTES_MAX).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// The units of an answer about `asked` of them that are still waited for, with their states. A unit that does not exist,
/// or that an administrator masked, is not; one that the answer does not speak of is, and so the answer is none.
fn not_active(answer: &str, asked: usize) -> Result<Vec<String>, String> {
    let told = answer.split("\n\n").filter_map(|block| {
        let property = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        Some((property("Id")?, property("LoadState")?, property("ActiveState")?))
    });
    let told: Vec<_> = told.collect();
    if told.len() < asked {
        return Err(format!("{SYSTEMCTL} tells of {} units, and was asked for {asked}", told.len()));
    }
    let waited_for = told.into_iter().filter(|(_, load, state)| {
        let active = matches!(*state, "active" | "reloading" | "refreshing");
        *load == "loaded" && !active
    });
    Ok(waited_for.map(|(id, _, state)| format!("{id} is {state}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::Path;

    use super::*;

    fn policy() -> BootPolicy {
        BootPolicy { wait_for: "hypercrypt.service kubelet.service".to_owned(), hold_off_max: Duration::from_secs(300) }
    }

    /// A systemctl that says this.
    fn sensor(dir: &Path, script: &str) -> BootSensor {
        let path = dir.join("systemctl");
        let staged = dir.join("systemctl.new");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o755).open(&staged).unwrap();
        std::io::Write::write_all(&mut file, format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
        drop(file);
        rustix::fs::rename(&staged, &path).unwrap();
        BootSensor { program: path.display().to_string(), ..BootSensor::default() }
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(seconds))
    }

    async fn reason(sensor: &mut BootSensor, second: u64) -> Option<String> {
        sensor.read(&policy(), at(second), Duration::from_secs(second)).await.map(|hold_off| hold_off.reason)
    }

    #[test]
    fn only_units_that_exist_and_are_not_active_are_waited_for() {
        let block = |id: &str, load: &str, active: &str| format!("Id={id}\nLoadState={load}\nActiveState={active}\n");
        let answer = [
            block("hypercrypt.service", "not-found", "inactive"),
            block("kubelet.service", "loaded", "activating"),
            block("a.service", "loaded", "active"),
            block("b.service", "masked", "inactive"),
            block("c.service", "loaded", "failed"),
            block("d.mount", "loaded", "reloading"),
        ]
        .join("\n");
        assert_eq!(not_active(&answer, 6).unwrap(), ["kubelet.service is activating", "c.service is failed"]);
        assert_eq!(not_active("", 0).unwrap(), [""; 0]);
        for (answer, asked) in
            [("", 1), ("\u{fffd}\u{1b}[31m=x", 1), (answer.as_str(), 7), ("Id=a.service\nActiveState=active\n", 1)]
        {
            assert!(not_active(answer, asked).is_err(), "{answer}: a unit that nothing is said of is waited for");
        }
    }

    #[tokio::test]
    async fn a_node_whose_units_are_active_is_held_off_no_longer_and_never_again() {
        let dir = tempfile::tempdir().unwrap();
        let says = |state: &str| {
            let absent = "Id=hypercrypt.service\\nLoadState=not-found\\nActiveState=inactive\\n";
            format!("printf '{absent}\\nId=kubelet.service\\nLoadState=loaded\\nActiveState={state}\\n'")
        };
        let mut sensor = sensor(dir.path(), &says("inactive"));
        // A loaded machine may take longer than the deadline to start a shell.
        let mut second = 10;
        while reason(&mut sensor, second).await.as_deref() != Some("kubelet.service is inactive") {
            second += 2;
            assert!(second < 100, "the stand-in is never heard");
        }
        let told = reason(&mut sensor, second + 1).await;
        assert_eq!(told.as_deref(), Some("kubelet.service is inactive"), "not asked twice within two seconds");
        super::tests::sensor(dir.path(), &says("active"));
        while reason(&mut sensor, second).await.is_some() {
            second += 2;
            assert!(second < 200, "the stand-in is never heard");
        }
        super::tests::sensor(dir.path(), &says("inactive"));
        assert_eq!(reason(&mut sensor, second + 10).await, None);
    }

    #[tokio::test]
    async fn a_systemd_that_cannot_be_asked_is_waited_for_until_the_time_is_over() {
        let dir = tempfile::tempdir().unwrap();
        for script in ["exit 1", "exec sleep 600", "exit 0", "head -c 4000 /dev/urandom", "exec cat /dev/zero"] {
            let mut sensor = sensor(dir.path(), script);
            assert!(reason(&mut sensor, 10).await.is_some(), "{script}");
            assert!(reason(&mut sensor, 299).await.is_some(), "{script}");
            assert_eq!(reason(&mut sensor, 300).await, None, "{script}");
        }
        let mut absent = BootSensor { program: "/nonexistent/systemctl".to_owned(), ..BootSensor::default() };
        assert!(reason(&mut absent, 10).await.is_some());
    }

    #[tokio::test]
    async fn a_policy_that_waits_for_nothing_asks_nobody() {
        let policy = BootPolicy { wait_for: String::new(), ..policy() };
        let mut sensor = BootSensor { program: "/nonexistent/systemctl".to_owned(), ..BootSensor::default() };
        assert_eq!(sensor.read(&policy, at(1), Duration::from_secs(1)).await, None);
    }
}
