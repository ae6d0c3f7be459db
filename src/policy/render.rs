//! A policy as a file: `policies/default.yaml` with its comments, and the policy's own values.

use super::Policy;
use super::remedies;
use super::schema;

/// The file that ships, every key commented.
pub const TEMPLATE: &str = include_str!("../../policies/default.yaml");

/// The text of a policy; `check` reads it back to an equal one.
#[must_use]
pub fn render(policy: &Policy) -> String {
    let mut section = "";
    let mut text = String::with_capacity(TEMPLATE.len());
    for line in TEMPLATE.lines() {
        let inner = line.trim_start();
        let indent = line.len() - inner.len();
        let value = match inner.split_once(':') {
            Some((name, rest)) if !inner.starts_with('#') => {
                if indent == 0 {
                    section = if rest.is_empty() { name } else { "" };
                }
                spell(policy, section, name).filter(|_| !rest.is_empty()).map(|value| (name, value))
            }
            Some(_) | None => None,
        };
        match value {
            Some((name, value)) => text.push_str(&format!("{:indent$}{name}: {value}", "")),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

fn spell(policy: &Policy, section: &str, name: &str) -> Option<String> {
    if section == "remedies" {
        return remedies::verdict(name).map(|verdict| remedies::spell(policy, verdict));
    }
    let path = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
    let key = schema::find(&path)?;
    let spelt = key.spell(policy);
    Some(match key.value {
        // Names and paths may hold what YAML gives a meaning; its double quotes take what JSON's do.
        schema::Value::Text(..) | schema::Value::Path(_) if !plain(&spelt) => serde_json::Value::from(spelt).to_string(),
        schema::Value::Version
        | schema::Value::Address(_)
        | schema::Value::Text(..)
        | schema::Value::Path(_)
        | schema::Value::Duration(..)
        | schema::Value::DurationOrNever(..)
        | schema::Value::Count(..)
        | schema::Value::Switch(_)
        | schema::Value::Choice(_) => spelt,
    })
}

/// Whether a text is safe in YAML without quotes, judged narrowly.
fn plain(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':');
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    starts && !text.ends_with(':') && text.chars().all(letters) && !text.eq_ignore_ascii_case("null")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use super::super::check::check;
    use super::*;

    #[test]
    fn the_defaults_render_to_the_file_that_ships() {
        let policy = Policy::with_defaults("192.168.111.200".parse().unwrap(), "eth0");
        assert_eq!(render(&policy), TEMPLATE);
    }

    #[test]
    fn what_is_rendered_is_read_back() {
        let mut policy = Policy::with_defaults("192.0.2.10".parse().unwrap(), "null");
        policy.etcd.ca = PathBuf::from("/srv/pki #1/\"ca\": é.crt");
        policy.limits.cooldown = Duration::from_millis(150_500);
        policy.remedies.clear();
        assert_eq!(check(&render(&policy), Path::new("rendered.yaml")), Ok(policy));
    }
}
