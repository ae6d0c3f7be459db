//! Asks `journalctl` for the watchdog's entries: bounded in time and bytes, whatever the journal holds.
//!
//! The journal's files are journald's own matter, with compression, rotation and other machines' files; its reader is the one
//! that every node has. May be dropped at any await: the child is killed then.

use std::ffi::OsStr;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::line::Happened;
use crate::audit::EventKind;
use crate::audit::journald::IDENTIFIER;

/// A journal of some gigabytes on a slow disk takes seconds.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// Most bytes of answer: ten thousand entries of the longest kind do not come to it.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Of a complaint, this much is shown.
const COMPLAINT_BYTES_MAX: u64 = 2000;

/// The fields that a line of the history is made of; `__REALTIME_TIMESTAMP` comes always. Systemd 236 and later.
const FIELDS: &str = "MESSAGE,PRIORITY,FIP_EVENT,FIP_VERDICT,FIP_VERDICT_FROM,FIP_STEP,FIP_REASON,FIP_DURATION_MS,FIP_CAUSE,FIP_OUTCOME,FIP_COMMAND,FIP_AUTOPSY";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// There is no `journalctl`.
    #[error("there is no journalctl on this machine")]
    Missing(#[source] io::Error),
    /// It cannot be run or read.
    #[error("journalctl cannot be run")]
    Unusable(#[source] io::Error),
    /// This user may not read the system's journal.
    #[error("this user may not read the system's journal: {0}")]
    NotPermitted(String),
    /// It says no.
    #[error("journalctl failed ({status}): {complaint}")]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        complaint: String,
    },
    /// What it says is not what this version of it says.
    #[error("journalctl's answer is not understood")]
    NotUnderstood,
    /// It says too much.
    #[error("journalctl's answer is longer than {} MiB; ask for fewer entries (--lines)", ANSWER_BYTES_MAX >> 20)]
    TooLong,
    /// It takes too long.
    #[error("journalctl has not answered within {} s", .0.as_secs())]
    TooSlow(Duration),
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// As `journalctl --since` takes it.
    pub(super) since: Option<String>,
    /// The newest so many.
    pub(super) lines: u32,
}

impl Question {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "--output=json".to_owned(),
            "--no-pager".to_owned(),
            format!("--output-fields={FIELDS}"),
            format!("--lines={}", self.lines),
        ];
        arguments.extend(self.since.as_ref().map(|since| format!("--since={since}")));
        // Root's alone: anybody may write entries with this identifier.
        arguments.extend([format!("SYSLOG_IDENTIFIER={IDENTIFIER}"), "_UID=0".to_owned()]);
        arguments
            .extend(EventKind::ALL.into_iter().filter(|kind| is_told(*kind)).map(|kind| format!("FIP_EVENT={}", kind.name())));
        arguments
    }
}

/// Routine, and what the step's end says again, are no history.
const fn is_told(kind: EventKind) -> bool {
    !matches!(kind, EventKind::LeaseRenewed | EventKind::StepStarted | EventKind::PlanStarted)
}

/// The answer's lines, oldest first.
pub(super) async fn ask(program: &OsStr, question: &Question, deadline: Duration) -> Result<String, JournalError> {
    tokio::time::timeout(deadline, answer(program, question)).await.map_err(|_elapsed| JournalError::TooSlow(deadline))?
}

async fn answer(program: &OsStr, question: &Question) -> Result<String, JournalError> {
    let mut command = Command::new(program);
    command.args(question.arguments()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let unusable = |error: io::Error| {
        if error.kind() == io::ErrorKind::NotFound { JournalError::Missing(error) } else { JournalError::Unusable(error) }
    };
    let mut child = command.spawn().map_err(unusable)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let complaint = async { read(stderr, COMPLAINT_BYTES_MAX).await.map_err(JournalError::Unusable) };
    let (text, complaint) = tokio::try_join!(whole(stdout), complaint)?;
    let status = child.wait().await.map_err(JournalError::Unusable)?;
    let complaint = complaint.split_whitespace().collect::<Vec<_>>().join(" ");
    let has_entries = text.lines().any(|line| Happened::parse(line).is_some());
    // Without the right it shows what little the user may see, which of a system service is nothing.
    if !has_entries && (complaint.contains("permission") || complaint.contains("not seeing messages")) {
        return Err(JournalError::NotPermitted(complaint));
    }
    // An empty journal is 1 with some versions, and says nothing.
    if !status.success() && (has_entries || !complaint.is_empty()) {
        return Err(JournalError::Failed { status, complaint });
    }
    // What is no entry is a remark of an old version, as "-- No entries --".
    if !has_entries && text.lines().any(|line| !line.trim().is_empty() && !line.starts_with("-- ")) {
        return Err(JournalError::NotUnderstood);
    }
    Ok(text)
}

/// All of an answer. One without an end is left alone as soon as it is too long: its newest entries come last.
async fn whole(stream: Option<impl AsyncRead + Unpin>) -> Result<String, JournalError> {
    let Some(stream) = stream else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut bytes).await.map_err(JournalError::Unusable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > ANSWER_BYTES_MAX {
        return Err(JournalError::TooLong);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// At most so many bytes; the rest is read and dropped, so that the writer is not held up.
async fn read(stream: Option<impl AsyncRead + Unpin>, bytes_max: u64) -> io::Result<String> {
    let Some(mut stream) = stream else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    (&mut stream).take(bytes_max).read_to_end(&mut bytes).await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    const ANY: Question = Question { since: None, lines: 3 };

    /// A journalctl of our own.
    async fn asked(script: &str, deadline: Duration) -> Result<String, JournalError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journalctl");
        let mut file = std::fs::OpenOptions::new().create_new(true).write(true).mode(0o755).open(&path).unwrap();
        file.write_all(script.as_bytes()).unwrap();
        drop(file);
        // A child that another test is just starting may hold it open for writing, and until then it cannot be executed.
        let end = crate::runtime::clock::now() + LONG;
        loop {
            match ask(path.as_os_str(), &ANY, deadline).await {
                Err(JournalError::Unusable(error))
                    if error.kind() == io::ErrorKind::ExecutableFileBusy && crate::runtime::clock::now() < end =>
                {
                    tokio::task::yield_now().await;
                }
                answer => return answer,
            }
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn it_is_asked_for_roots_entries_of_each_kind_that_is_told() {
        let entry = r#"{"__REALTIME_TIMESTAMP":"1","FIP_EVENT":"started","args":"%s"}"#;
        let script = &format!("#!/bin/sh\nprintf '{entry}\\n' \"$*\"\n");
        let text = asked(script, LONG).await.unwrap();
        for part in ["--lines=3", "SYSLOG_IDENTIFIER=fip-watchdog _UID=0 FIP_EVENT=started", "FIP_EVENT=hang_autopsied"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("lease_renewed") && !text.contains("--since"), "{text}");
    }

    #[tokio::test]
    async fn every_way_to_get_no_answer_has_its_own_words() {
        let hint = "#!/bin/sh\necho 'Hint: You are currently not seeing messages from other users and the system.' >&2\n";
        let error = asked(hint, LONG).await.unwrap_err();
        assert!(matches!(error, JournalError::NotPermitted(_)), "{error}");
        let error = asked("#!/bin/sh\necho 'Failed to parse timestamp: soon' >&2; exit 1\n", LONG).await.unwrap_err();
        assert!(error.to_string().ends_with("Failed to parse timestamp: soon"), "{error}");
        let error = asked("#!/bin/sh\nexec sleep 600\n", Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(error, JournalError::TooSlow(_)), "{error}");
        let error = asked("#!/bin/sh\nprintf '\\377\\n{\\000}\\n[1]\\n{}\\n'", LONG).await.unwrap_err();
        assert!(matches!(error, JournalError::NotUnderstood), "{error}");
        let error = asked("#!/bin/sh\nexec cat /dev/zero\n", LONG).await.unwrap_err();
        assert!(matches!(error, JournalError::TooLong), "{error}");
        let error = ask(OsStr::new("/nonexistent/journalctl"), &ANY, LONG).await.unwrap_err();
        assert!(matches!(error, JournalError::Missing(_)), "{error}");
    }

    #[tokio::test]
    async fn an_empty_journal_is_no_error() {
        assert_eq!(asked("#!/bin/sh\necho '-- No entries --'; exit 1\n", LONG).await.unwrap(), "-- No entries --\n");
    }
}
