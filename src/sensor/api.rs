//! The API sense: whether anything answers behind the FIP, asked on the node that holds it.
//!
//! A TCP connection from the FIP to the FIP's own port: what a client's first packet would find, without a frame on the wire. It is closed
//! without a word, as a load balancer's probe is. A server that hangs is not told from one that works: the kernel accepts for it.
//!
//! Invariants: nobody waits for the answer, a round takes what is there; one question at a time, with a deadline of its own; none is asked
//! without the FIP, and one that is on its way when the FIP leaves has an address that is no longer ours, and ends by itself.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio::sync::oneshot;

use crate::decision::api::ApiView;
use crate::decision::observation::{AliasView, Reading};
use crate::decision::time::Moment;
use crate::policy::ApiPolicy;
use crate::runtime::attend::attended;

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// How long the server's kernel, which is our own, may take.
const DEADLINE: Duration = Duration::from_secs(1);

/// A gap of this process that is longer makes a deadline that passed meanwhile mean nothing.
const GAP_MAX: Duration = Duration::from_millis(500);

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Something answered, or not, and how that showed.
    Answer(Result<(), String>),
    /// It could not be asked, or this process did not run.
    Void,
}

/// The sense.
#[derive(Debug, Default)]
pub struct ApiSensor {
    target: Option<SocketAddrV4>,
    view: ApiView,
    ask_at: Moment,
    asked: Option<oneshot::Receiver<Outcome>>,
}

impl ApiSensor {
    /// What is known by now, and the next question if one is due. `alias` is this round's reading of the interface.
    pub fn read(&mut self, policy: &ApiPolicy, fip: Ipv4Addr, alias: &Reading<AliasView>, now: Moment) -> ApiView {
        let target = policy.port().map(|port| SocketAddrV4::new(fip, port));
        if self.target != target {
            *self = Self { target, view: ApiView::new(target.map_or(0, |target| target.port())), ..Self::default() };
        }
        let Some(target) = target else { return ApiView::default() };
        let here = match alias {
            Reading::Fresh { value, .. } => value.is_held(),
            // What is not known is not asked; what was known stands.
            Reading::Stale { .. } | Reading::Unknown(_) => return self.view.clone(),
        };
        if !here {
            self.view.leave();
            (self.asked, self.ask_at) = (None, now);
            return ApiView::default();
        }
        self.take_answer(now);
        if self.asked.is_none() && now >= self.ask_at {
            self.ask_at = now + ASK_EVERY;
            let (tell, asked) = oneshot::channel();
            tokio::spawn(async move {
                // Nobody may be left to hear it.
                tell.send(ask(target).await).unwrap_or_default();
            });
            self.asked = Some(asked);
        }
        self.view.clone()
    }

    fn take_answer(&mut self, now: Moment) {
        let Some(asked) = &mut self.asked else { return };
        match asked.try_recv() {
            Ok(Outcome::Answer(answer)) => self.view.note(answer, now),
            Err(oneshot::error::TryRecvError::Empty) => return,
            Ok(Outcome::Void) | Err(oneshot::error::TryRecvError::Closed) => {}
        }
        self.asked = None;
    }
}

async fn ask(target: SocketAddrV4) -> Outcome {
    let socket =
        match TcpSocket::new_v4().and_then(|socket| socket.bind(SocketAddrV4::new(*target.ip(), 0).into()).map(|()| socket)) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!(%target, %error, "the API cannot be asked");
                return Outcome::Void;
            }
        };
    let (connected, absence) = attended(tokio::time::timeout(DEADLINE, socket.connect(target.into()))).await;
    match connected {
        // A port of the kernel's own range may meet itself (RFC 9293 section 3.5, simultaneous open).
        Ok(Ok(stream)) if stream.local_addr().ok() == Some(target.into()) => {
            Outcome::Answer(Err(how(&ErrorKind::ConnectionRefused.into())))
        }
        Ok(Ok(_stream)) => Outcome::Answer(Ok(())),
        Ok(Err(error)) => Outcome::Answer(Err(how(&error))),
        Err(_) if absence.in_all > GAP_MAX => Outcome::Void,
        Err(_) => Outcome::Answer(Err(format!("no answer within {} s", DEADLINE.as_secs()))),
    }
}

fn how(error: &Error) -> String {
    if error.kind() == ErrorKind::ConnectionRefused { "connection refused".to_owned() } else { error.to_string() }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::decision::observation::AliasEntry;

    /// Stands in for the FIP: an address that is here.
    const FIP: Ipv4Addr = Ipv4Addr::new(127, 6, 4, 43);

    fn alias(held: bool) -> Reading<AliasView> {
        let entries = held.then_some(AliasEntry { prefix_len: 32, valid_for: None, lent: false }).into_iter().collect();
        Reading::Fresh { value: AliasView { entries, up: true, carrier: true }, at: Moment::default() }
    }

    fn at(second: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(second))
    }

    fn policy(port: u16) -> ApiPolicy {
        ApiPolicy { check: true, port: port.into() }
    }

    /// Looks until the question on its way is answered.
    async fn heard(sensor: &mut ApiSensor, policy: &ApiPolicy, second: u64) -> ApiView {
        loop {
            let view = sensor.read(policy, FIP, &alias(true), at(second));
            if sensor.asked.is_none() {
                return view;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_server_that_ends_is_silent_after_three_questions_and_back_after_two() {
        let server = TcpListener::bind((FIP, 0)).await.unwrap();
        let address = server.local_addr().unwrap();
        let policy = policy(address.port());
        let mut sensor = ApiSensor::default();
        let first = sensor.read(&policy, FIP, &alias(true), at(0));
        assert_eq!((first.port(), first.answered_at()), (Some(address.port()), None), "nobody waits for the answer");
        assert_eq!(heard(&mut sensor, &policy, 1).await.answered_at(), Some(at(1)));
        drop(server);
        for (second, silent) in [(9, false), (10, false), (20, false), (29, false), (30, true)] {
            let view = heard(&mut sensor, &policy, second).await;
            assert_eq!(view.alarm().is_some(), silent, "{second}: {view:?}");
        }
        assert_eq!(heard(&mut sensor, &policy, 31).await.alarm().unwrap().how, "connection refused");
        let server = TcpListener::bind(address).await.unwrap();
        assert!(heard(&mut sensor, &policy, 40).await.alarm().is_some());
        assert_eq!(heard(&mut sensor, &policy, 50).await.alarm(), None);
        drop(server);
    }

    #[tokio::test]
    async fn without_the_fip_or_by_the_policy_nothing_is_asked() {
        let server = TcpListener::bind((FIP, 0)).await.unwrap();
        let policy = policy(server.local_addr().unwrap().port());
        let mut sensor = ApiSensor::default();
        for second in 0..30 {
            assert_eq!(sensor.read(&policy, FIP, &alias(false), at(second)), ApiView::default());
            assert_eq!(
                sensor.read(&ApiPolicy { check: false, ..policy.clone() }, FIP, &alias(true), at(second)),
                ApiView::default()
            );
            assert_eq!(sensor.read(&policy, FIP, &Reading::Unknown("no netlink".to_owned()), at(second)).answered_at(), None);
            assert!(sensor.asked.is_none());
        }
        let asked = tokio::time::timeout(Duration::from_millis(50), server.accept()).await;
        assert!(asked.is_err(), "somebody asked: {asked:?}");
    }

    #[tokio::test]
    async fn an_address_that_is_not_here_is_not_asked_and_tells_nothing() {
        // TEST-NET-1, which no host has.
        assert_eq!(ask(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 6443)).await, Outcome::Void);
    }

    #[tokio::test]
    async fn an_edit_of_the_port_asks_anew() {
        let mut sensor = ApiSensor::default();
        let server = TcpListener::bind((FIP, 0)).await.unwrap();
        heard(&mut sensor, &policy(server.local_addr().unwrap().port()), 0).await;
        let closed = TcpListener::bind((FIP, 0)).await.unwrap().local_addr().unwrap().port();
        let view = heard(&mut sensor, &policy(closed), 1).await;
        assert_eq!((view.port(), view.answered_at()), (Some(closed), None));
    }
}
