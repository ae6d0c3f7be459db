//! One value of the file: from its text to the policy's field, or a fault that says what is allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::Policy;
use super::fault::{did_you_mean, quoted};
use super::schema::{Form, Key, NEVER, VERSION, Value};
use super::tree::Kind;
use super::units::{self, DurationError};

/// Longest path: PATH_MAX of Linux.
const PATH_MAX: usize = 4096;
/// Longest interface name: IFNAMSIZ less its closing zero.
const INTERFACE_MAX: usize = 15;
/// Longest unit name: UNIT_NAME_MAX of systemd less its closing zero.
const UNIT_MAX: usize = 255;
/// More units than a boot is held up for.
const UNITS_MAX: usize = 8;

/// What is wrong with a value; key and place are the caller's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

fn bad(message: impl Into<String>) -> Bad {
    Bad { message: message.into(), hint: None }
}

impl Bad {
    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Puts the value of `key` into `policy`.
pub(super) fn apply(key: &Key, kind: &Kind, policy: &mut Policy) -> Result<(), Bad> {
    let (text, is_quoted) = match kind {
        Kind::Scalar { text, quoted } => (text.as_str(), *quoted),
        Kind::Null => return Err(bad(format!("has no value (allowed: {})", key.allowed()))),
        Kind::List(_) | Kind::Map(_) => {
            return Err(bad(format!("is {}, not a single value (allowed: {})", kind.noun(), key.allowed())));
        }
    };
    match key.value {
        Value::Version => version(text, is_quoted),
        Value::Address(field) => address(text).map(|address| *field(policy) = address),
        Value::Text(form, field) => form_holds(form, text).map(|()| *field(policy) = text.to_owned()),
        Value::Path(field) => path(text).map(|path| *field(policy) = path),
        Value::Duration(min, max, field) => duration(key, text, min, max).map(|value| *field(policy) = value),
        Value::DurationOrNever(_, _, field) if text == NEVER => {
            *field(policy) = None;
            Ok(())
        }
        Value::DurationOrNever(min, max, field) => duration(key, text, min, max).map(|value| *field(policy) = Some(value)),
        Value::Count(min, max, field) => count(key, text, is_quoted, min, max).map(|value| *field(policy) = value),
        Value::Switch(field) => switch(key, text, is_quoted).map(|value| *field(policy) = value),
        Value::Choice(choice) => match choice.words.iter().position(|word| *word == text) {
            Some(index) => {
                (choice.set)(policy, index);
                Ok(())
            }
            None => Err(Bad {
                message: format!("{} is not known (allowed: {})", quoted(text), key.allowed()),
                hint: did_you_mean(text, choice.words.iter().copied()),
            }),
        },
    }
}

/// `true` and `false` alone: what else some readers of YAML take for one (`yes`, `on`) others take for text.
fn switch(key: &Key, text: &str, is_quoted: bool) -> Result<bool, Bad> {
    match (text, is_quoted) {
        ("true", false) => Ok(true),
        ("false", false) => Ok(false),
        (_, true) => Err(bad(format!("{} is a quoted text, not true or false (allowed: {})", quoted(text), key.allowed()))),
        (_, false) => Err(bad(format!("{} is neither true nor false (allowed: {})", quoted(text), key.allowed()))),
    }
}

fn version(text: &str, is_quoted: bool) -> Result<(), Bad> {
    if text == VERSION.to_string() && !is_quoted {
        Ok(())
    } else if is_quoted {
        Err(bad(format!("{} is a quoted text, not a number (allowed: {VERSION})", quoted(text))))
    } else {
        Err(bad(format!("{} is not a version that this program reads (allowed: {VERSION})", quoted(text))))
    }
}

fn duration(key: &Key, text: &str, min: Duration, max: Duration) -> Result<Duration, Bad> {
    let allowed = format!("allowed: {}", key.allowed());
    let value = units::parse(text).map_err(|error| {
        let fault = bad(format!("{} {error} ({allowed})", quoted(text)));
        match (&error, units::meant(text)) {
            (DurationError::NoUnit, _) if text.chars().all(|c| c.is_ascii_digit()) => {
                fault.hint(format!("write {text}s if seconds are meant, {text}ms for milliseconds"))
            }
            (_, Some(meant)) => fault.hint(format!("did you mean {}?", units::format(meant))),
            (_, None) => fault.hint("durations look like 1500ms, 5s, 2m, 1m30s"),
        }
    })?;
    in_range(key, &quoted(text), &value, (&min, &max), (&units::format(min), &units::format(max)))?;
    Ok(value)
}

fn count(key: &Key, text: &str, is_quoted: bool, min: u32, max: u32) -> Result<u32, Bad> {
    if is_quoted || text.is_empty() || !text.chars().all(|c| c.is_ascii_digit()) || (text.len() > 1 && text.starts_with('0')) {
        let what = if is_quoted { "is a quoted text, not a number" } else { "is not a whole number" };
        return Err(bad(format!("{} {what} (allowed: {})", quoted(text), key.allowed())));
    }
    // Digits only, so a failure is an overflow.
    let value = text.parse::<u32>().unwrap_or(u32::MAX);
    in_range(key, &quoted(text), &value, (&min, &max), (&min.to_string(), &max.to_string()))?;
    Ok(value)
}

fn in_range<T: PartialOrd>(key: &Key, shown: &str, value: &T, bounds: (&T, &T), names: (&str, &str)) -> Result<(), Bad> {
    let (side, why) = if value < bounds.0 {
        (format!("below the minimum of {}", names.0), key.why_not_less)
    } else if value > bounds.1 {
        (format!("above the maximum of {}", names.1), key.why_not_more)
    } else {
        return Ok(());
    };
    let reason = if why.is_empty() { String::new() } else { format!(": {why}") };
    Err(bad(format!("{shown} is {side}{reason} (allowed: {} to {})", names.0, names.1)))
}

/// An address that could be a FIP.
pub(crate) fn address(text: &str) -> Result<Ipv4Addr, Bad> {
    let shown = quoted(text);
    let Ok(address) = text.parse::<Ipv4Addr>() else {
        let fault = bad(format!("{shown} is not an IPv4 address"));
        return Err(match text.split_once('/') {
            Some((plain, _)) if plain.parse::<Ipv4Addr>().is_ok() => {
                fault.hint(format!("the FIP is always a /32: write {plain}"))
            }
            Some(_) | None if text.parse::<IpAddr>().is_ok() => fault.hint("the loop assigns IPv4 addresses only"),
            Some(_) | None => fault.hint("four numbers from 0 to 255 without leading zeros, 192.168.111.200"),
        });
    };
    let first = address.octets()[0];
    let kind = if address.is_loopback() {
        "a loopback address: no client could reach it"
    } else if address.is_unspecified() || first == 0 {
        "no address of a host (0.0.0.0/8)"
    } else if address.is_multicast() {
        "a multicast address"
    } else if address.is_broadcast() {
        "the broadcast address"
    } else if first >= 240 {
        "from a reserved range (240.0.0.0/4)"
    } else if address.is_link_local() {
        "link-local (169.254.0.0/16): it is not routed"
    } else {
        return Ok(address);
    };
    Err(bad(format!("{shown} is {kind} (allowed: an IPv4 unicast address)")))
}

fn path(text: &str) -> Result<PathBuf, Bad> {
    let shown = quoted(text);
    let path = Path::new(text);
    let what = if !path.is_absolute() {
        "is not absolute, and a service has no directory that it would be relative to"
    } else if path.components().any(|part| part == Component::ParentDir) {
        "has `..` in it"
    } else if text.chars().any(char::is_control) {
        "has control characters in it"
    } else if text.len() > PATH_MAX {
        "is longer than 4096 bytes"
    } else if path.file_name().is_none() {
        "is the root directory"
    } else {
        // Collected anew, so that `//` and `/./` cannot make two paths of one.
        return Ok(path.components().collect());
    };
    Err(bad(format!("{shown} {what} (allowed: an absolute path)")))
}

fn form_holds(form: Form, text: &str) -> Result<(), Bad> {
    let label = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let holds = match form {
        Form::Interface => {
            if text == "lo" {
                return Err(bad("`lo` is the loopback interface: no client could reach the FIP on it"));
            }
            let odd = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
            !text.is_empty() && text.len() <= INTERFACE_MAX && !text.contains(odd) && text != "." && text != ".."
        }
        Form::Label => label(text),
        Form::Subdomain => text.len() <= 253 && text.split('.').all(label),
        Form::Unit => unit(text) && text.ends_with(".service"),
        Form::Units => text.split_whitespace().count() <= UNITS_MAX && text.split_whitespace().all(unit),
        Form::Endpoint => return endpoint(text),
    };
    if holds { Ok(()) } else { Err(bad(format!("{} is not {} (allowed: {})", quoted(text), name(form), form.allowed()))) }
}

/// The types of units. Systemd takes a name with another ending for a service's, and then there is no such unit.
const UNIT_TYPES: [&str; 11] =
    ["service", "socket", "target", "mount", "automount", "path", "timer", "device", "swap", "slice", "scope"];

/// A name with a type, as systemd.unit(5) has it. A template is none: nothing of that name is ever active.
fn unit(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '.' | '\\' | '@' | '-');
    let typed = text.rsplit_once('.').is_some_and(|(name, kind)| {
        !name.is_empty() && !name.ends_with('@') && !name.starts_with('@') && UNIT_TYPES.contains(&kind)
    });
    text.len() <= UNIT_MAX && typed && !text.starts_with('-') && text.chars().all(letters)
}

fn name(form: Form) -> &'static str {
    match form {
        Form::Interface => "the name of an interface",
        Form::Label | Form::Subdomain => "a Kubernetes name",
        Form::Unit => "the name of a service",
        Form::Units => "a list of units",
        Form::Endpoint => "the URL of an etcd member",
    }
}

fn endpoint(text: &str) -> Result<(), Bad> {
    let fail = |what: &str| bad(format!("{} {what} (allowed: {})", quoted(text), Form::Endpoint.allowed()));
    let Some(authority) = text.strip_prefix("https://") else {
        return Err(match text.strip_prefix("http://") {
            Some(rest) => {
                fail("is not encrypted, and etcd's answer decides who holds the FIP").hint(format!("write https://{rest}"))
            }
            None => fail("does not start with https://"),
        });
    };
    if authority.contains(['/', '?', '#', '@']) {
        return Err(fail("has more in it than host and port"));
    }
    let Some((host, port)) = authority.rsplit_once(':').filter(|(host, _)| !host.ends_with(':')) else {
        return Err(fail("has no port").hint("etcd's client port is 2379"));
    };
    if !port.parse::<u16>().is_ok_and(|number| number > 0 && port.chars().all(|c| c.is_ascii_digit())) {
        return Err(fail("has no valid port").hint("etcd's client port is 2379"));
    }
    let literal = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok_and(|address| !address.is_unspecified()),
        None => host == "localhost" || host.parse::<Ipv4Addr>().is_ok_and(|address| !address.is_unspecified()),
    };
    if literal {
        Ok(())
    } else {
        Err(fail("does not name this node by its address, and a name that must be looked up may be down with the FIP"))
    }
}
