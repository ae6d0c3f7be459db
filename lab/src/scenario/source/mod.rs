//! Where events come from: one task for each source, one channel into the run.
//!
//! Invariant: a source that can no longer see says so with an event, so that a run is never judged on silence. The
//! channel is bounded; a source that finds it full waits. Dropping [`Sources`] ends every task and its child process.

pub mod address;
pub mod files;
pub mod journal;

use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::clock;
use super::event::{Event, What};
use super::lab_api::{self, Lab};
use super::node::Node;

/// Events that may wait to be read; a run reads them at once.
pub const CHANNEL: usize = 4096;
/// The longest line of a child: journald cuts at 48 KiB a field, evidence included.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Of what a child complains about, this much is read, and no longer than this.
const COMPLAINT_BYTES_MAX: u64 = 2048;
const COMPLAINT_LIMIT: Duration = Duration::from_millis(500);

/// The running sources of one lab.
pub struct Sources {
    _tasks: JoinSet<()>,
}

impl Sources {
    /// Starts watching every node.
    ///
    /// # Errors
    /// A child process cannot be started.
    pub fn start(lab: &Lab, events: &Sender<Event>) -> anyhow::Result<Self> {
        let mut tasks = JoinSet::new();
        for (node, id) in lab_api::nodes(lab) {
            let to = Out { node, events: events.clone() };
            let journal =
                spawn(lab.node_command(id, &journal::COMMAND)).with_context(|| format!("cannot follow the journal of {node}"))?;
            tasks.spawn(journal::follow(journal, to.clone()));
            let monitor = spawn(lab.netns_command(id, &address::MONITOR))
                .with_context(|| format!("cannot watch the addresses of {node}"))?;
            let lists = address::LISTS.map(|list| lab.netns_command(id, &list));
            tasks.spawn(address::follow(monitor, lists, to.clone()));
            tasks.spawn(files::follow(lab_api::node_root(lab, id)?, lab_api::kubelet_state(lab, id), to));
        }
        Ok(Self { _tasks: tasks })
    }
}

/// Where one node's events go.
#[derive(Clone)]
pub struct Out {
    node: Node,
    events: Sender<Event>,
}

impl Out {
    /// Sends what was seen at `at`. False when nobody listens any more.
    pub async fn send(&self, at: Duration, what: What) -> bool {
        self.events.send(Event { at, node: Some(self.node), what }).await.is_ok()
    }

    /// Sends what is seen now.
    pub async fn send_now(&self, what: What) -> bool {
        self.send(clock::now(), what).await
    }

    async fn lost(&self, what: String) {
        // Nobody listening any more is the normal end of a run.
        self.send_now(What::SourceLost(what)).await;
    }
}

fn spawn(mut command: Command) -> std::io::Result<Child> {
    use std::process::Stdio;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn()
}

/// The lines of a child, one at a time.
struct Lines {
    child: Child,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Lines {
    fn of(mut child: Child) -> Option<Self> {
        let stdout = BufReader::new(child.stdout.take()?);
        Some(Self { child, stdout, line: Vec::new() })
    }

    /// What the child complained about before it ended.
    async fn complaint(mut self) -> String {
        let mut text = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            // Whoever still holds the other end must not keep a run waiting.
            tokio::time::timeout(COMPLAINT_LIMIT, stderr.take(COMPLAINT_BYTES_MAX).read_to_end(&mut text)).await.ok();
        }
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    /// The next line; none at the end of the output, on an error, and for a line that never ends.
    async fn next(&mut self) -> Option<&str> {
        next_line(&mut self.stdout, &mut self.line).await
    }
}

async fn next_line<'a, R: AsyncBufRead + Unpin>(from: &mut R, line: &'a mut Vec<u8>) -> Option<&'a str> {
    line.clear();
    let mut bounded = from.take(LINE_BYTES_MAX);
    bounded.read_until(b'\n', line).await.ok()?;
    let whole = line.strip_suffix(b"\n")?;
    // journalctl prints JSON in ASCII or UTF-8, ip prints ASCII: anything else is no line of ours.
    Some(std::str::from_utf8(whole).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_bounded_and_a_torn_last_one_is_none() {
        let mut line = Vec::new();
        let mut good = BufReader::new(&b"one\ntwo\nthr"[..]);
        assert_eq!(next_line(&mut good, &mut line).await, Some("one"));
        assert_eq!(next_line(&mut good, &mut line).await, Some("two"));
        assert_eq!(next_line(&mut good, &mut line).await, None);
        let endless = vec![b'x'; usize::try_from(LINE_BYTES_MAX).unwrap() + 1];
        assert_eq!(next_line(&mut BufReader::new(&endless[..]), &mut line).await, None);
    }

    #[tokio::test]
    async fn a_source_that_ends_says_what_it_complained_about() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'too many open files' >&2"]);
        let (send, mut events) = tokio::sync::mpsc::channel(4);
        journal::follow(spawn(command).unwrap(), Out { node: Node::new(1), events: send }).await;
        let lost = events.recv().await.unwrap().what;
        assert!(matches!(&lost, What::SourceLost(what) if what.contains("too many open files")), "{lost:?}");
    }
}
