//! Tells apart why etcd gave no answer.
//!
//! The classes follow what `etcd-client` 0.21 was seen to report: the outer gRPC status says little,
//! the `io::Error` at the end of the source chain says what happened.

use std::error::Error as StdError;
use std::io;

use etcd_client::Error;

use crate::decision::observation::EtcdFault;

/// gRPC status code `CANCELLED`: what the client reports when the connection closed under a request.
const GRPC_CANCELLED: i32 = 1;

/// The most causes that are followed; a real chain has four or five.
const CAUSES_MAX: usize = 16;

/// Classify a failed request. `has_answered` is whether this connection ever carried an answer.
pub(super) fn classify(error: &Error, has_answered: bool) -> EtcdFault {
    let causes = causes(error);
    let io_errors = || causes.iter().filter_map(|cause| cause.downcast_ref::<io::Error>());
    if let Some(fault) = io_errors().find_map(classify_io) {
        return fault;
    }
    // With TLS 1.3 the client finishes its handshake before the server has looked at the client's certificate, and the
    // refusal is a closed connection without a text: seen as a cancelled request or, when our request was still being
    // written, as a broken pipe or a reset.
    let cancelled = matches!(error, Error::GRpcStatus(status) if status.code() as i32 == GRPC_CANCELLED);
    if !has_answered && (cancelled || io_errors().any(is_closed)) {
        return EtcdFault::Tls(
            "etcd closed the connection after the handshake: it refuses our client certificate (expired, of another CA, or not for client use)".to_owned(),
        );
    }
    if let Error::GRpcStatus(status) = error {
        return EtcdFault::Other(with_causes(status.message(), &causes));
    }
    EtcdFault::Other(with_causes(&error.to_string(), &causes))
}

/// Classify a failure to set up the client at all: nothing was sent yet, so it is our own key pair.
pub(super) fn classify_setup(error: &Error) -> EtcdFault {
    let text = with_causes(&error.to_string(), &causes(error));
    if matches!(error, Error::TransportError(_)) {
        EtcdFault::Tls(format!("certificates and key do not make a TLS identity: {text}"))
    } else {
        EtcdFault::Other(text)
    }
}

/// The fault as part of a sentence.
#[must_use]
pub fn sentence(fault: &EtcdFault) -> String {
    match fault {
        EtcdFault::Refused => "etcd refuses connections".to_owned(),
        EtcdFault::TimedOut => "etcd gave no answer within the deadline".to_owned(),
        EtcdFault::Tls(detail) => format!("TLS to etcd failed: {detail}"),
        EtcdFault::Other(detail) => format!("etcd request failed: {detail}"),
    }
}

fn classify_io(error: &io::Error) -> Option<EtcdFault> {
    // A list of io kinds cannot be written out: the enum is non-exhaustive.
    let kind = error.kind();
    if kind == io::ErrorKind::ConnectionRefused {
        Some(EtcdFault::Refused)
    } else if kind == io::ErrorKind::TimedOut {
        Some(EtcdFault::TimedOut)
    } else if kind == io::ErrorKind::InvalidData {
        // rustls wraps each of its errors in this kind.
        Some(EtcdFault::Tls(error.to_string()))
    } else {
        None
    }
}

/// The other end hung up.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&error.kind())
}

fn causes(error: &Error) -> Vec<&(dyn StdError + 'static)> {
    // `etcd_client::Error` does not expose its source, so start below it.
    let first: Option<&(dyn StdError + 'static)> = if let Error::GRpcStatus(status) = error {
        status.source()
    } else if let Error::TransportError(error) = error {
        Some(error)
    } else if let Error::IoError(error) = error {
        Some(error)
    } else {
        None
    };
    std::iter::successors(first, |&cause| cause.source()).take(CAUSES_MAX).collect()
}

fn with_causes(head: &str, causes: &[&(dyn StdError + 'static)]) -> String {
    let mut text = head.to_owned();
    for cause in causes {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
