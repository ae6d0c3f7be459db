//! Senses that read files, kept off the loop's thread.
//!
//! A read from a hung disk cannot be cancelled. It is given up after a deadline, its sense is unknown from
//! then on, and the same read is picked up when the kernel lets go of it. At most one read a sense is
//! under way, so that a dead disk costs one thread and no memory.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::decision::observation::Reading;
use crate::decision::time::Moment;
use crate::runtime::clock;

/// A sense that blocks, with the state that it keeps between two reads.
#[derive(Debug)]
pub struct Offloaded<S, T> {
    name: &'static str,
    state: State<S, T>,
}

#[derive(Debug)]
enum State<S, T> {
    Idle(S),
    Busy { since: Moment, read: JoinHandle<(S, T)> },
    Lost,
}

impl<S: Send + 'static, T: Send + 'static> Offloaded<S, T> {
    /// Wraps a sense; `name` is what is read, for people.
    pub const fn new(name: &'static str, sense: S) -> Self {
        Self { name, state: State::Idle(sense) }
    }

    /// Reads, waiting for `deadline` at most. `Err` says that the read hangs, or that it panicked.
    ///
    /// Not cancel-safe: a call that is dropped midway loses the sense. The loop awaits it to the end.
    pub async fn read(&mut self, deadline: Duration, work: impl FnOnce(&mut S) -> T + Send + 'static) -> Result<T, String> {
        let (since, mut read) = match std::mem::replace(&mut self.state, State::Lost) {
            State::Idle(mut sense) => {
                let read = tokio::task::spawn_blocking(move || {
                    let value = work(&mut sense);
                    (sense, value)
                });
                (clock::now(), read)
            }
            State::Busy { since, read } => (since, read),
            State::Lost => return Err(format!("reading {} failed inside this daemon", self.name)),
        };
        match tokio::time::timeout(deadline, &mut read).await {
            Ok(Ok((sense, value))) => {
                self.state = State::Idle(sense);
                Ok(value)
            }
            Ok(Err(failed)) => Err(format!("reading {} failed inside this daemon: {failed}", self.name)),
            Err(_) => {
                self.state = State::Busy { since, read };
                Err(format!("reading {} has not returned for {} s", self.name, clock::now().since(since).as_secs()))
            }
        }
    }
}

/// Flattens the outcome of an offloaded read into the reading itself.
pub fn into_reading<T>(outcome: Result<Reading<T>, String>) -> Reading<T> {
    outcome.unwrap_or_else(Reading::Unknown)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_read_that_hangs_is_given_up_and_picked_up_again_when_it_returns() {
        let (release, gate) = mpsc::channel::<()>();
        let mut sense = Offloaded::new("the log", gate);
        let outcome = sense.read(Duration::from_millis(20), |gate| gate.recv().map_or(0, |()| 7)).await;
        assert_eq!(outcome, Err("reading the log has not returned for 0 s".to_owned()));
        release.send(()).unwrap();
        let outcome = sense.read(Duration::from_secs(30), |_| 8).await;
        assert_eq!(outcome, Ok(7), "the read that was under way counts, no second one is started");
        assert_eq!(sense.read(Duration::from_secs(30), |_| 9).await, Ok(9));
    }

    #[tokio::test]
    async fn a_read_that_panics_is_an_unknown_sense_and_not_the_end_of_the_daemon() {
        let mut sense: Offloaded<(), ()> = Offloaded::new("the log", ());
        assert!(sense.read(Duration::from_secs(30), |()| panic!("on purpose")).await.is_err());
        let again = sense.read(Duration::from_secs(30), |()| ()).await;
        assert_eq!(again, Err("reading the log failed inside this daemon".to_owned()));
    }
}
