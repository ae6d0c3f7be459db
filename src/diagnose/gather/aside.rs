//! Deadlines for looks, and a place for reads that block.
//!
//! Invariant: a read that hangs costs one thread and no more, however often a diagnosis is made: each [`Aside`] has one read under way at
//! most, and there is a fixed number of them. May be dropped at any await: the read ends by itself, and frees its place then.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::diagnose::evidence::Seen;

/// What a look saw until its deadline. `what` begins the sentence: `etcd's status did not answer within 1.0 s`.
pub(super) async fn within<T>(what: &str, deadline: Duration, look: impl Future<Output = Seen<T>>) -> Seen<T> {
    timeout(deadline, look).await.unwrap_or_else(|_| Seen::No(late(what, deadline)))
}

/// The same as text, for looks with parts of their own.
pub(super) fn late(what: &str, deadline: Duration) -> String {
    format!("{what} did not answer within {:.1} s", deadline.as_secs_f64())
}

/// A place for reads that block: files of a disk that may hang, names to resolve. One `static` a kind of read.
#[derive(Debug)]
pub(super) struct Aside {
    what: &'static str,
    turn: Semaphore,
}

impl Aside {
    /// `what` is what is read, for people.
    pub(super) const fn new(what: &'static str) -> Self {
        Self { what, turn: Semaphore::const_new(1) }
    }

    /// Does `work` on a thread of its own, and waits for `deadline` at most, with the wait for an earlier read of this kind.
    pub(super) async fn read<T: Send + 'static>(
        &'static self,
        deadline: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let until = Instant::now() + deadline;
        let Ok(Ok(turn)) = timeout_at(until, self.turn.acquire()).await else {
            return Err(format!("an earlier read of {} still hangs", self.what));
        };
        let read = tokio::task::spawn_blocking(move || {
            let value = work();
            drop(turn);
            value
        });
        match timeout_at(until, read).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(failed)) => Err(format!("reading {} failed: {failed}", self.what)),
            Err(_) => Err(late(self.what, deadline)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_read_that_hangs_keeps_its_place_until_it_returns() {
        static PLACE: Aside = Aside::new("the disk");
        let (release, gate) = mpsc::channel::<()>();
        let soon = Duration::from_millis(20);
        let hung = PLACE.read(soon, move || gate.recv().is_ok()).await;
        assert_eq!(hung, Err("the disk did not answer within 0.0 s".to_owned()));
        assert_eq!(PLACE.read(soon, || ()).await, Err("an earlier read of the disk still hangs".to_owned()));
        release.send(()).unwrap();
        assert_eq!(PLACE.read(Duration::from_secs(30), || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_read_that_panics_frees_its_place() {
        static PLACE: Aside = Aside::new("the file");
        let long = Duration::from_secs(30);
        assert!(
            PLACE
                .read(long, || panic!("on purpose"))
                .await
                .is_err_and(|text: String| text.starts_with("reading the file failed"))
        );
        assert_eq!(PLACE.read(long, || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_look_without_an_answer_says_so() {
        let seen: Seen<()> = within("etcd", Duration::from_millis(10), std::future::pending()).await;
        assert_eq!(seen, Seen::No("etcd did not answer within 0.0 s".to_owned()));
    }
}
