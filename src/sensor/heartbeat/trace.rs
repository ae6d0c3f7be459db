//! The grammar of the loop's `set -x` trace: from lines to finished rounds.
//!
//! ```text
//!            curl …/maintenance/status, or a status answer
//!   idle ───────────────────────────────────────────────► round
//!    ▲   fip_assign … FIP=1                    (leader)      │
//!    │   return 4 … clean_up … continue        (follower)    │
//!    │   '[' 7 -ne 0 ']' … continue            (failed)      │
//!    └── or the loop's head '[' 1 ']' ◄──────────────────────┘  one Beat
//! ```
//!
//! Invariant: a beat is a *finished* round that asked etcd. Growth without the end of a round, however much, is no
//! beat, and neither is the end of a round whose beginning was not seen.
//!
//! Tolerant by need: the members of a pipeline trace at the same time and share lines (`+ + jq …`), and stdout and
//! stderr arrive by different ways, so `Is the current leader!` may come late. Pure; cancelling is not a question.

use crate::decision::observation::{Beat, LoopFip, LoopVerdict};

/// Longest detail of a failed query that is kept, in characters: enough for curl's own sentence.
const DETAIL_MAX: usize = 200;

/// What the loop returns when its comparison has no result: this member does not lead.
const NO_RESULT: u32 = 4;

/// Follows the rounds of the loop.
#[derive(Debug, Default)]
pub(super) struct Trace {
    round: Round,
}

/// What was seen of the current round.
#[derive(Debug, Default)]
struct Round {
    /// It asked etcd. Until then nothing counts.
    queried: bool,
    /// Its beat is out; what follows up to the next head or query belongs to it.
    finished: bool,
    status: Option<Status>,
    /// curl's or etcd's own words.
    fault: Option<String>,
    /// Exit status of curl, from the test or assignment that follows it.
    exit: Option<u32>,
    /// Last `return` of the query that was not 0.
    returned: Option<u32>,
    says_leader: bool,
    assigning: bool,
    added: bool,
    /// `FIP=1`: the loop takes the FIP to be in place.
    holds: bool,
    cleaning: bool,
    deleted: bool,
}

/// The fields of etcd's answer that the trace shows; 64-bit numbers are quoted there, zero ones are left out.
#[derive(Debug, Clone, Copy)]
struct Status {
    member_id: u64,
    leader: Option<u64>,
    revision: Option<u64>,
    raft_index: Option<u64>,
    raft_term: Option<u64>,
}

impl Trace {
    /// Forgets the current round: bytes were lost, or another container begins.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Takes one line of the loop's output; a beat if it ends a round.
    pub(super) fn line(&mut self, line: &[u8]) -> Option<Beat> {
        let text = String::from_utf8_lossy(line);
        if commands(&text).any(is_loop_head) {
            return self.begin(Round::default());
        }
        let asks = text.contains("curl ") && text.contains("/maintenance/status");
        let status = Status::parse(&text);
        if asks || (status.is_some() && self.round.has_concluded()) {
            return self.begin(Round { queried: true, status, ..Round::default() });
        }
        let round = &mut self.round;
        if let Some(status) = status {
            round.queried = true;
            round.status = Some(status);
        }
        if !round.queried || round.finished {
            return None;
        }
        round.note_words(&text);
        let mut ends = false;
        for command in commands(&text) {
            ends |= round.note_command(command);
        }
        ends.then(|| round.finish())
    }

    /// Starts `next`; the round before it is thereby finished, if it had asked etcd.
    fn begin(&mut self, next: Round) -> Option<Beat> {
        let closes = if next.queried {
            // A second query is a retry unless the first one led to something.
            self.round.has_concluded() && !self.round.finished
        } else {
            self.round.queried && !self.round.finished
        };
        let mut last = std::mem::replace(&mut self.round, next);
        closes.then(|| last.finish())
    }
}

impl Round {
    /// Whether the loop has drawn a conclusion, so that another answer of etcd belongs to a new round.
    const fn has_concluded(&self) -> bool {
        self.finished || self.says_leader || self.assigning || self.cleaning || self.returned.is_some()
    }

    /// Notes what may stand anywhere in a line.
    fn note_words(&mut self, text: &str) {
        self.says_leader |= text.contains("Is the current leader!");
        self.added |= text.contains("ip addr add ");
        self.deleted |= text.contains("ip addr del");
        if self.status.is_none() && self.fault.is_none() {
            let at = text.find("curl: (").or_else(|| text.find("{\"error\""));
            self.fault = at.and_then(|at| text.get(at..)).map(|fault| fault.chars().take(DETAIL_MAX).collect());
        }
    }

    /// Notes one traced command; true if it ends the round.
    fn note_command(&mut self, command: &str) -> bool {
        let before_answer = self.status.is_none() && !self.assigning && !self.cleaning;
        match command {
            "fip_assign" => self.assigning = true,
            "clean_up" => self.cleaning = true,
            "FIP=1" => {
                self.holds = self.assigning;
                return self.assigning;
            }
            "continue" => return self.has_concluded() || self.exit.is_some(),
            _ => {
                if let Some(code) = command.strip_prefix("return ").and_then(|code| code.parse().ok()) {
                    if code != 0 && !self.assigning && !self.cleaning {
                        self.returned = Some(code);
                    }
                } else if before_answer && self.exit.is_none() {
                    self.exit = exit_status(command).filter(|code| *code != 0);
                }
            }
        }
        false
    }

    fn finish(&mut self) -> Beat {
        self.finished = true;
        let verdict = self.verdict();
        let fip = match verdict {
            // The next round began without `FIP=1`: the assignment failed.
            LoopVerdict::Leader if !self.holds => LoopFip::Untouched,
            LoopVerdict::Leader if self.added => LoopFip::Assigned,
            LoopVerdict::Leader => LoopFip::Kept,
            LoopVerdict::Follower | LoopVerdict::QueryFailed(_) if self.deleted => LoopFip::Removed,
            LoopVerdict::Follower | LoopVerdict::QueryFailed(_) => LoopFip::Untouched,
        };
        Beat {
            verdict,
            revision: self.status.and_then(|status| status.revision),
            raft_index: self.status.and_then(|status| status.raft_index),
            raft_term: self.status.and_then(|status| status.raft_term),
            fip,
        }
    }

    /// What the loop concluded; the numbers are compared only where it did not say.
    fn verdict(&self) -> LoopVerdict {
        if self.assigning || self.says_leader {
            return LoopVerdict::Leader;
        }
        match (self.status, self.returned) {
            // `jq -e` gives 4 also for no input at all: without an answer that is no verdict.
            (Some(_), Some(NO_RESULT)) => LoopVerdict::Follower,
            (Some(_), Some(code)) => LoopVerdict::QueryFailed(format!("the comparison of the answer returned {code}")),
            (Some(status), None) if status.leader != Some(status.member_id) => LoopVerdict::Follower,
            (Some(_), None) => LoopVerdict::QueryFailed("the answer led to no conclusion".to_owned()),
            (None, returned) => LoopVerdict::QueryFailed(match (&self.fault, self.exit, returned) {
                (Some(fault), ..) => fault.clone(),
                (None, Some(code), _) => format!("curl exit status {code}"),
                (None, None, Some(code)) => format!("no status in the answer, the query returned {code}"),
                (None, None, None) => "no status in the answer".to_owned(),
            }),
        }
    }
}

impl Status {
    /// The status answer in a line: the assignment `out='…'` or the `echo -n '…'` of the comparison.
    fn parse(text: &str) -> Option<Self> {
        Some(Self {
            member_id: number(text, "\"member_id\":")?,
            leader: number(text, "\"leader\":"),
            revision: number(text, "\"revision\":"),
            raft_index: number(text, "\"raftIndex\":"),
            raft_term: number(text, "\"raftTerm\":"),
        })
    }
}

/// The number after `key`, quoted (as etcd's gateway writes 64-bit numbers) or bare.
fn number(text: &str, key: &str) -> Option<u64> {
    let (_, value) = text.split_once(key)?;
    let value = value.trim_start();
    let digits = value.strip_prefix('"').unwrap_or(value);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}

/// The traced commands in a line: what follows each `+ `. Lines that only print something have none.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    text.split("+ ").skip(1).map(|command| command.trim_end_matches(['+', ' ']))
}

/// `while [ 1 ]`, as bash and as busybox trace it.
fn is_loop_head(command: &str) -> bool {
    matches!(command, "'[' 1 ']'" | "'[' 1 ]" | "[ 1 ]")
}

/// The first operand of a test for 0, which is an exit status.
fn exit_status(command: &str) -> Option<u32> {
    let mut words = command.strip_prefix("'['").or_else(|| command.strip_prefix('['))?.split_whitespace();
    let code = words.next()?.parse().ok()?;
    matches!((words.next(), words.next()), (Some("-ne" | "-eq" | "!="), Some("0"))).then_some(code)
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
