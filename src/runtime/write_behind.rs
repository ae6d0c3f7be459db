//! Writing behind the loop's back: the newest value, on one blocking thread at a time.
//!
//! Invariants: [`WriteBehind::keep`] returns at once. Never are two writes of one file under way, which is staged under one name: one
//! would put the other's half into place. What is there in the end is the newest value. A disk that hangs costs one thread and one value.

use std::sync::{Arc, Mutex, PoisonError};

/// What is to be written next, and whether a thread is at it.
#[derive(Debug)]
pub(super) struct WriteBehind<T>(Arc<Mutex<Queue<T>>>);

#[derive(Debug)]
struct Queue<T> {
    next: Option<T>,
    is_writing: bool,
}

impl<T> Default for WriteBehind<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Queue { next: None, is_writing: false })))
    }
}

impl<T: Send + 'static> WriteBehind<T> {
    /// Has `write` called with the value, unless a newer one comes before its turn. `write` is the same at each call.
    pub(super) fn keep(&self, value: T, write: impl Fn(&T) + Send + 'static) {
        let is_writing = {
            let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            queue.next = Some(value);
            std::mem::replace(&mut queue.is_writing, true)
        };
        if !is_writing {
            let queue = Arc::clone(&self.0);
            drop(tokio::task::spawn_blocking(move || {
                while let Some(value) = take_next(&queue) {
                    write(&value);
                }
            }));
        }
    }
}

/// The value to write; without one the thread ends.
fn take_next<T>(queue: &Mutex<Queue<T>>) -> Option<T> {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    let next = queue.next.take();
    queue.is_writing = next.is_some();
    next
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn while_a_write_hangs_no_other_begins_and_then_the_newest_is_written() {
        let (written, writes) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let behind = WriteBehind::default();
        let keep = |value: u32| {
            let (written, gate) = (written.clone(), Arc::clone(&gate));
            behind.keep(value, move |value| {
                written.send(*value).unwrap();
                gate.lock().unwrap().recv().unwrap();
            });
        };
        let next = || writes.recv_timeout(Duration::from_secs(60));
        runtime.block_on(async {
            keep(1);
            assert_eq!(next(), Ok(1));
            keep(2);
            keep(3);
            assert_eq!(writes.recv_timeout(Duration::from_millis(200)).ok(), None, "the first hangs");
            release.send(()).unwrap();
            assert_eq!(next(), Ok(3));
            release.send(()).unwrap();
            keep(4);
            assert_eq!(next(), Ok(4));
            release.send(()).unwrap();
        });
    }
}
