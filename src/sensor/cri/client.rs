//! One call over the socket of a container runtime.
//!
//! Invariant: bounded by whoever awaits it, and by [`ANSWER_BYTES_MAX`]. Nothing is asked that changes anything. Cancel-safe.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

/// A node has some hundred containers of a kilobyte each; asked are those of etcd.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Causes of an error that are followed.
const CAUSES_MAX: usize = 8;

/// Versions of the service, newest first: containerd speaks the second from 1.6 on, and the first until 1.7.
const VERSIONS: [&str; 2] = ["v1", "v1alpha2"];

/// A connection to a runtime, and the version of the interface that it speaks.
pub(super) struct Runtime {
    grpc: Grpc<Channel>,
    version: usize,
}

impl Runtime {
    /// Connects.
    ///
    /// # Errors
    /// As a sentence.
    pub(super) async fn connect(socket: &Path) -> Result<Self, String> {
        let path: PathBuf = socket.to_owned();
        let connector = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        // The host is of no use to a socket, but gRPC servers refuse a path in its place.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector(connector).await;
        let channel = channel.map_err(|error| format!("{} cannot be reached: {}", socket.display(), last_cause(&error)))?;
        Ok(Self { grpc: Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX), version: 0 })
    }

    /// Calls a method, in an older version if this one is not spoken.
    ///
    /// # Errors
    /// As a sentence.
    pub(super) async fn call<Q, A>(&mut self, method: &str, question: Q) -> Result<A, String>
    where
        Q: Message + Clone + Default + 'static,
        A: Message + Default + 'static,
    {
        loop {
            match self.call_once(method, question.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(status) if status.code() == Code::Unimplemented && self.version + 1 < VERSIONS.len() => self.version += 1,
                Err(status) => {
                    return Err(format!("the container runtime answers {method} with {}: {}", status.code(), status.message()));
                }
            }
        }
    }

    async fn call_once<Q, A>(&mut self, method: &str, question: Q) -> Result<A, Status>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let version = VERSIONS.get(self.version).copied().unwrap_or_default();
        let path = PathAndQuery::try_from(format!("/runtime.{version}.RuntimeService/{method}"));
        let path = path.map_err(|error| Status::internal(error.to_string()))?;
        self.grpc.ready().await.map_err(|error| Status::unavailable(last_cause(&error)))?;
        let answer = self.grpc.unary(Request::new(question), path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }
}

/// What is at the end of a chain of errors: tonic's own say little.
fn last_cause(error: &tonic::transport::Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source()).take(CAUSES_MAX);
    causes.last().map_or_else(|| error.to_string(), ToString::to_string)
}
