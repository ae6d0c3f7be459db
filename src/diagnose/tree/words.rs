//! How things are said: bounded, without control characters, the same everywhere.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use crate::audit::text::{clip, span};
use crate::diagnose::evidence::Connect;

/// Longest name of a member, in bytes: a Supervisor's node has 32 characters.
pub(super) const NAME_BYTES_MAX: usize = 48;

/// Longest text that came from another program, inside a sentence, in bytes.
pub(super) const QUOTE_BYTES_MAX: usize = 160;

/// Most items of a list in a sentence.
const ITEMS_MAX: usize = 4;

/// `a`, `a and b`, `a, b and c`; a long list says how much was left out.
pub(super) fn list(items: &[String]) -> String {
    let (shown, rest) = items.split_at(items.len().min(ITEMS_MAX));
    let mut words = shown.to_vec();
    if !rest.is_empty() {
        words.push(format!("{} more", rest.len()));
    }
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    }
}

/// How often: `once`, `3 times`.
pub(super) fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// A text of another program.
pub(super) fn quote(text: &str) -> String {
    clip(text, QUOTE_BYTES_MAX)
}

/// A member's name, or what stands for it.
pub(super) fn name(name: &str, address: Option<IpAddr>) -> String {
    let name = clip(name.trim(), NAME_BYTES_MAX);
    match (name.is_empty(), address) {
        (false, _) => name,
        (true, Some(address)) => address.to_string(),
        (true, None) => "a member without a name".to_owned(),
    }
}

/// Name and address.
pub(super) fn who(given: &str, address: Option<IpAddr>) -> String {
    let shown = name(given, address);
    match address {
        Some(address) if shown != address.to_string() => format!("{shown} ({address})"),
        Some(_) | None => shown,
    }
}

/// How a failed connect shows, after a comma.
pub(super) fn shows(connect: &Connect) -> String {
    match connect {
        Connect::Open => "it opens".to_owned(),
        Connect::Refused => "refused at once".to_owned(),
        Connect::TimedOut => "SYNs time out".to_owned(),
        Connect::Rejected => "a filter on the way rejects at once".to_owned(),
        Connect::NoHost => "nobody answers ARP for the address".to_owned(),
        Connect::NoRoute => "there is no route".to_owned(),
        Connect::Other(text) => quote(text),
    }
}

/// A span of milliseconds.
pub(super) fn ms(milliseconds: u64) -> String {
    span(Duration::from_millis(milliseconds))
}

/// An address and a port, as a command takes them.
pub(super) fn socket(address: IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    }
}

/// A path as a word of a shell's command line: whoever copies the command runs nothing else.
pub(super) fn shell_word(path: &Path) -> String {
    let text = clip(&path.display().to_string(), 200);
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// `1 member`, `3 members`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
