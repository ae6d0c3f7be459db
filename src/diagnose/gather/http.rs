//! A question over HTTP, as far as etcd needs it: a head, a bounded body.
//!
//! Asked in HTTP/1.0 a server of Go's neither chunks its answer nor keeps the connection, so the end of the answer is the end of the
//! connection; in HTTP/1.1 small answers come with their length. etcd's peer port (seen on 3.4) takes 5 s to close a connection, so an
//! answer without a length is read there only as far as it is needed. Invariant: never more than the head's and the body's bound is kept.

use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The largest head: the answer to [`large`] repeats its path.
const HEAD_MAX: usize = 32 << 10;
/// Most header lines; etcd sends five to ten.
const HEADERS_MAX: usize = 64;
/// Longer than a full segment at the largest usual MTU, 9000: such a request does not fit into small packets only.
pub(super) const LARGE: usize = 10_000;

/// With what TLS and TCP add, a packet of 576 bytes.
const PIECE: usize = 480;
/// Longer than a round trip between the nodes of a cluster.
const PIECES_APART: Duration = Duration::from_millis(2);

/// What was answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The `Date` header, seconds since the Unix epoch.
    pub(super) date: Option<i64>,
    /// Cut at the bound.
    pub(super) body: Vec<u8>,
}

/// A request after which the connection stays open.
pub(super) fn keeping(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: fip-watchdog\r\n\r\n")
}

/// A request after whose answer the server closes.
pub(super) fn closing(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: fip-watchdog\r\n\r\n")
}

/// A request of several full segments with an answer of several full segments: a server of Go's answers a path with a dot in it with
/// the cleaned path, in its head and in its body. What it answers does not matter; [`LARGE`] bytes of the body are enough.
pub(super) fn large(host: &str) -> String {
    closing(host, &format!("/./version/{}", "x".repeat(LARGE)))
}

/// Sends a request in pieces, each of which has left before the next is there, so that no two make one frame. Has no deadline.
pub(super) async fn send_apart<S: AsyncWrite + Unpin>(stream: &mut S, request: &[u8]) -> Result<()> {
    for piece in request.chunks(PIECE) {
        stream.write_all(piece).await?;
        stream.flush().await?;
        tokio::time::sleep(PIECES_APART).await;
    }
    Ok(())
}

/// Sends `request` and reads the answer. Has no deadline.
pub(super) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, request: &[u8], body_max: usize) -> Result<Answer> {
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut bytes = Vec::new();
    let (mut answer, length, head) = loop {
        if let Some(parsed) = parse_head(&bytes)? {
            break parsed;
        }
        if bytes.len() >= HEAD_MAX {
            return Err(Error::new(ErrorKind::InvalidData, "the head of the answer is too long"));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    };
    let wanted = length.unwrap_or(usize::MAX).min(body_max);
    answer.body = bytes.split_off(head.min(bytes.len()));
    while answer.body.len() < wanted {
        if stream.read_buf(&mut answer.body).await? == 0 {
            if length.is_some() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            break;
        }
    }
    answer.body.truncate(wanted);
    Ok(answer)
}

/// The answer without its body, the body's length, and the head's; `None` while the head is not whole.
fn parse_head(bytes: &[u8]) -> Result<Option<(Answer, Option<usize>, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|error| Error::new(ErrorKind::InvalidData, format!("no HTTP answer: {error}")))?;
    let httparse::Status::Complete(head) = parsed else { return Ok(None) };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    };
    if header("transfer-encoding").is_some() {
        return Err(Error::new(ErrorKind::InvalidData, "a transfer encoding that was not asked for"));
    }
    let length = header("content-length").and_then(|length| length.trim().parse().ok());
    let date = header("date").and_then(seconds);
    Ok(Some((Answer { status: response.code.unwrap_or_default(), date, body: Vec::new() }, length, head)))
}

/// The date of RFC 9110, section 5.6.7, is one of RFC 2822 but for the name of its zone.
fn seconds(date: &str) -> Option<i64> {
    static PARSER: jiff::fmt::rfc2822::DateTimeParser = jiff::fmt::rfc2822::DateTimeParser::new();
    PARSER.parse_timestamp(date).ok().map(jiff::Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    async fn answered(text: &str, body_max: usize) -> Result<Answer> {
        let (mut ours, mut theirs) = duplex(64);
        let text = text.to_owned();
        let server = tokio::spawn(async move {
            let mut request = vec![0; closing("h", "/").len()];
            theirs.read_exact(&mut request).await.unwrap();
            // Whoever reads a bounded part closes before all is written.
            theirs.write_all(text.as_bytes()).await.ok();
        });
        let answer = ask(&mut ours, closing("h", "/").as_bytes(), body_max).await;
        drop(ours);
        server.await.unwrap();
        answer
    }

    #[tokio::test]
    async fn status_date_and_body_are_read_with_and_without_a_length() {
        let head = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 30 Nov 2026 01:21:46 GMT\r\n";
        let expected = Answer { status: 200, date: Some(1_796_001_706), body: b"{}".to_vec() };
        assert_eq!(answered(&format!("{head}\r\n{{}}"), 100).await.unwrap(), expected);
        assert_eq!(answered(&format!("{head}content-length: 2\r\n\r\n{{}} and more"), 100).await.unwrap(), expected);
        assert_eq!(answered(&format!("{head}\r\n{{}}{}", "x".repeat(10_000)), 2).await.unwrap(), expected, "bounded");
    }

    #[tokio::test]
    async fn what_is_no_whole_answer_is_an_error() {
        let kind = async |text: &str| answered(text, 100).await.unwrap_err().kind();
        assert_eq!(kind("").await, ErrorKind::UnexpectedEof);
        assert_eq!(kind("HTTP/1.0 200 OK\r\nDate").await, ErrorKind::UnexpectedEof);
        assert_eq!(kind("HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nshort").await, ErrorKind::UnexpectedEof);
        assert_eq!(kind("SSH-2.0-OpenSSH_9.2\r\n\r\n").await, ErrorKind::InvalidData);
        assert_eq!(
            kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n").await,
            ErrorKind::InvalidData
        );
        assert_eq!(kind(&format!("HTTP/1.0 200 OK\r\nX: {}", "y".repeat(HEAD_MAX))).await, ErrorKind::InvalidData);
    }

    #[test]
    fn dates_of_other_forms_are_no_dates() {
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:01 GMT"), Some(1));
        assert_eq!(seconds("yesterday"), None);
    }
}
