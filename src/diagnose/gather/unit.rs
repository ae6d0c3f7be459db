//! What systemd says of a unit, by `systemctl show`: it answers over systemd's private socket, also without D-Bus.

use std::time::Duration;

use crate::runtime::child;

/// How long systemd may take to answer; it does within 20 ms on a quiet node.
const DEADLINE: Duration = Duration::from_millis(1500);

/// An answer has some 30 bytes a property.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// A unit's properties, as far as they were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Properties(String);

impl Properties {
    /// A property; empty if systemd said nothing of it.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
    }

    /// For tests: `A=1\nB=2`.
    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Asks for properties of a unit.
///
/// # Errors
/// systemd did not answer, as a sentence.
pub(super) async fn show(unit: &str, properties: &[&str]) -> Result<Properties, String> {
    let wanted = format!("--property={}", properties.join(","));
    let answer = child::answer("systemctl", ["show", "--no-pager", &wanted, "--", unit], DEADLINE, ANSWER_BYTES_MAX).await?;
    let answer = Properties(String::from_utf8_lossy(&answer).into_owned());
    // Where systemd does not run, some versions of systemctl say nothing and succeed.
    if answer.get("LoadState").is_empty() { Err(format!("systemctl says nothing of {unit}")) } else { Ok(answer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_found_by_its_whole_name() {
        let properties = Properties::of("SubState=running\nState=x\nEnvironment=A=1 State=2\n");
        assert_eq!(
            ["State", "SubState", "Environment", "Sub"].map(|name| properties.get(name)),
            ["x", "running", "A=1 State=2", ""]
        );
    }
}
