//! What systemd is told: ready, one sentence of status, that the decision loop lives, stopping.
//!
//! Invariant: only the decision loop holds the [`Notifier`], and it feeds the watchdog as the last act of
//! a finished round. A loop that hangs anywhere, or a starved runtime, therefore stops the feeding, and
//! systemd replaces the daemon after `WatchdogSec`. Nothing here waits, because a PID 1 that hangs must not
//! freeze the watchdog: the socket takes a datagram, or the message is tried again in the next round.
//!
//! There is no `RELOADING=1`: a policy is swapped between two rounds, so there is nothing to wait for,
//! and since systemd 253 a reload that is not closed ends the service.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use sd_notify::NotifyState;

use crate::audit::text::clip;
use crate::decision::time::Moment;

/// `systemctl status` shows one line.
const STATUS_BYTES_MAX: usize = 200;

/// How many times the watchdog is fed within its limit: two rounds may come late before it bites.
const FEEDS_PER_LIMIT: u32 = 3;

type Sender = Box<dyn Fn(&[NotifyState<'_>]) -> std::io::Result<()> + Send>;

/// The daemon's voice towards systemd. Without one it speaks into the void.
pub struct Notifier {
    send: Sender,
    feed_every: Option<Duration>,
    fed_at: Option<Moment>,
    status: String,
    ready_is_due: bool,
}

impl Notifier {
    /// As the environment says: `NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`.
    #[must_use]
    pub fn from_env() -> Self {
        Self::new(Box::new(send), sd_notify::watchdog_enabled())
    }

    fn new(send: Sender, limit: Option<Duration>) -> Self {
        Self {
            send,
            feed_every: limit.map(|limit| limit / FEEDS_PER_LIMIT),
            fed_at: None,
            status: String::new(),
            ready_is_due: false,
        }
    }

    /// How often the decision loop must finish a round; `None` without a watchdog.
    #[must_use]
    pub const fn feed_every(&self) -> Option<Duration> {
        self.feed_every
    }

    /// The daemon watches: policy valid, lock held, control socket bound.
    pub fn ready(&mut self) {
        self.ready_is_due = !self.tell(&[NotifyState::Ready]);
    }

    /// The daemon ends. `why` is what `systemctl status` shows meanwhile.
    pub fn stopping(&mut self, why: &str) {
        self.status = clip(why, STATUS_BYTES_MAX);
        self.tell(&[NotifyState::Stopping, NotifyState::Status(&self.status)]);
    }

    /// One sentence for `systemctl status`, sent when it differs from the last.
    pub fn status(&mut self, sentence: &str) {
        let sentence = clip(sentence, STATUS_BYTES_MAX);
        if sentence != self.status && self.tell(&[NotifyState::Status(&sentence)]) {
            self.status = sentence;
        }
    }

    /// The decision loop has finished a round at `now`. systemd 252 does not count while it stops a service
    /// (measured: 20 s without a feed under a limit of 10 s); feeding on costs nothing and trusts no version.
    pub fn feed(&mut self, now: Moment) {
        if self.ready_is_due {
            self.ready();
        }
        let Some(every) = self.feed_every else { return };
        if self.fed_at.is_none_or(|fed_at| now.since(fed_at) >= every) && self.tell(&[NotifyState::Watchdog]) {
            self.fed_at = Some(now);
        }
    }

    /// Whether it was taken. A socket that is not there takes nothing and never will; that is no news.
    fn tell(&self, state: &[NotifyState<'_>]) -> bool {
        (self.send)(state).inspect_err(|error| tracing::debug!(%error, "systemd did not take a notification")).is_ok()
    }
}

/// As [`sd_notify::notify`], which waits for room in systemd's queue.
fn send(state: &[NotifyState<'_>]) -> std::io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let message: String = state.iter().map(|assignment| format!("{assignment}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    // A datagram is taken whole or not at all.
    socket.send_to(message.as_bytes(), path).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;
    use std::sync::{Arc, Mutex};

    use super::*;

    fn recorded(limit: Option<Duration>) -> (Notifier, Arc<Mutex<Vec<String>>>) {
        let said = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&said);
        let send: Sender = Box::new(move |state| {
            record.lock().unwrap().extend(state.iter().map(ToString::to_string));
            Ok(())
        });
        (Notifier::new(send, limit), said)
    }

    fn at(milliseconds: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(milliseconds))
    }

    #[test]
    fn the_watchdog_is_fed_three_times_within_its_limit_and_not_more() {
        let (mut notifier, said) = recorded(Some(Duration::from_secs(3)));
        for round in 0..30 {
            notifier.feed(at(round * 100));
        }
        assert_eq!(*said.lock().unwrap(), ["WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]);
    }

    #[test]
    fn without_a_watchdog_nothing_is_fed() {
        let (mut notifier, said) = recorded(None);
        notifier.feed(at(0));
        assert!(said.lock().unwrap().is_empty());
    }

    #[test]
    fn a_status_is_sent_once_and_cannot_smuggle_in_another_assignment() {
        let (mut notifier, said) = recorded(None);
        notifier.status("healthy\nMAINPID=1");
        notifier.status("healthy\nMAINPID=1");
        assert_eq!(*said.lock().unwrap(), ["STATUS=healthy MAINPID=1"]);
    }

    #[test]
    fn the_environment_names_the_socket_and_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        systemd.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "runtime::sd_notify::tests::child_of_the_environment_test"])
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "3000000")
            .env_remove("WATCHDOG_PID")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        let mut heard = Vec::new();
        let mut buffer = [0; 512];
        for _ in 0..3 {
            let length = systemd.recv(&mut buffer).unwrap();
            heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        assert_eq!(heard, ["READY=1\n", "WATCHDOG=1\n", "STOPPING=1\nSTATUS=SIGTERM\n"]);
    }

    #[test]
    #[ignore = "the_environment_names_the_socket_and_the_limit runs it as a process of its own"]
    fn child_of_the_environment_test() {
        let mut notifier = Notifier::from_env();
        assert_eq!(notifier.feed_every(), Some(Duration::from_secs(1)));
        notifier.ready();
        notifier.feed(at(0));
        notifier.stopping("SIGTERM");
    }
}
