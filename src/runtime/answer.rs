//! The loop's answers over the control socket: from what the last round saw, without a new one.

use super::clock;
use super::supervisor::Supervisor;
use super::world::World;
use crate::control::protocol::{RefusalCode, Request, Response};
use crate::control::report::{StatusInputs, StatusReport};
use crate::control::server::Call;
use crate::runtime::startup::chain;

impl<W: World> Supervisor<W> {
    /// Answers one question; whether the answer makes a new round worth while. A peer that has gone away is no fault.
    pub(super) fn answer(&mut self, call: Call) -> bool {
        let response = self.respond(call.request);
        let changes = matches!(response, Response::Paused { .. } | Response::Resumed { was_paused: true });
        drop(call.reply.send(response));
        changes
    }

    fn respond(&mut self, request: Request) -> Response {
        match request {
            Request::Status => self.report().map_or_else(not_yet, |report| Response::Status(Box::new(report))),
            Request::Explain => self.report().map_or_else(not_yet, |report| Response::Explain(Box::new(report))),
            Request::Pause { reason, length } => match self.parts.world.pause(&reason, length, clock::wall()) {
                Ok(()) => Response::Paused { for_ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX) },
                Err(error) => Response::Refused { code: RefusalCode::BadRequest, reason: chain(&error) },
            },
            Request::Resume => match self.parts.world.resume() {
                Ok(was_paused) => Response::Resumed { was_paused },
                Err(error) => Response::Refused { code: RefusalCode::BadRequest, reason: chain(&error) },
            },
        }
    }

    fn report(&self) -> Option<StatusReport> {
        let (observation, decision) = self.last.as_ref()?;
        Some(StatusReport::new(StatusInputs {
            observation,
            decision,
            policy: &self.summary,
            recent: &self.recent,
            pauses: &self.pauses,
            diagnosis: self.diagnosis.as_ref(),
            started_at: self.started_at,
            now: clock::now(),
        }))
    }
}

fn not_yet() -> Response {
    Response::Refused { code: RefusalCode::Busy, reason: "the first round is not over yet; ask again".to_owned() }
}
