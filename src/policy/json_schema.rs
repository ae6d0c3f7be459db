//! JSON Schema (draft 2020-12) of the policy file, for editors. Made from the same table as the check.
//!
//! Looser than the check: it cannot say what is unsafe in combination.

use std::net::Ipv4Addr;

use serde_json::{Map, Value as Json, json};

use crate::decision::verdict::Verdict;

use super::Policy;
use super::remedies::steps_for;
use super::schema::{Form, Key, VERSION, Value, names_in, sections};

/// The schema.
#[must_use]
pub fn json_schema() -> Json {
    let defaults = Policy::with_defaults(Ipv4Addr::UNSPECIFIED, "eth0");
    let mut top = properties("", &defaults);
    for section in sections().filter(|section| *section != "remedies") {
        let required: &[&str] = if section == "fip" { &["address"] } else { &[] };
        top.insert(section.to_owned(), object(properties(section, &defaults), required));
    }
    top.insert("remedies".to_owned(), remedies(&defaults));
    let mut schema = object(top, &["version", "fip"]);
    if let Some(map) = schema.as_object_mut() {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("title".to_owned(), json!("fip-watchdog policy"));
    }
    schema
}

fn object(properties: Map<String, Json>, required: &[&str]) -> Json {
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

fn properties(section: &str, defaults: &Policy) -> Map<String, Json> {
    let prefix = if section.is_empty() { String::new() } else { format!("{section}.") };
    names_in(section)
        .filter_map(|name| {
            let key = super::schema::find(&format!("{prefix}{name}"))?;
            Some((name.to_owned(), property(key, defaults)))
        })
        .collect()
}

fn property(key: &Key, defaults: &Policy) -> Json {
    let mut property = match key.value {
        Value::Version => json!({ "const": VERSION }),
        Value::Address(_) => json!({ "type": "string", "format": "ipv4" }),
        Value::Text(Form::Interface, _) => json!({ "type": "string", "minLength": 1, "maxLength": 15 }),
        Value::Text(Form::Label, _) => json!({ "type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63 }),
        Value::Text(Form::Subdomain, _) => {
            json!({ "type": "string", "pattern": "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", "maxLength": 253 })
        }
        Value::Text(Form::Unit, _) => {
            json!({ "type": "string", "pattern": "^[A-Za-z0-9:_.@\\\\-]+\\.service$", "maxLength": 255 })
        }
        Value::Text(Form::Units, _) => {
            json!({ "type": "string", "pattern": "^([A-Za-z0-9:_.@\\\\-]+\\.(service|socket|target|mount|automount|path|timer|device|swap|slice|scope)( +|$))*$", "maxLength": 2047 })
        }
        Value::Text(Form::Endpoint, _) => json!({ "type": "string", "pattern": "^https://[^/?#@]+:[0-9]+$" }),
        Value::Path(_) => json!({ "type": "string", "pattern": "^/" }),
        Value::Duration(..) => json!({ "type": "string", "pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$" }),
        Value::DurationOrNever(..) => {
            json!({ "type": "string", "pattern": "^(never|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$" })
        }
        Value::Count(min, max, _) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Value::Switch(_) => json!({ "type": "boolean" }),
        Value::Choice(choice) => json!({ "enum": choice.words }),
    };
    if let Some(map) = property.as_object_mut() {
        map.insert("description".to_owned(), json!(format!("{} Allowed: {}.", key.meaning, key.allowed())));
        let spelt = key.spell(defaults);
        match key.value {
            Value::Version | Value::Address(_) => {}
            Value::Count(..) => drop(map.insert("default".to_owned(), json!(spelt.parse::<u32>().ok()))),
            Value::Switch(_) => drop(map.insert("default".to_owned(), json!(spelt == "true"))),
            Value::Text(..) | Value::Path(_) | Value::Duration(..) | Value::DurationOrNever(..) | Value::Choice(_) => {
                map.insert("default".to_owned(), json!(spelt));
            }
        }
    }
    property
}

fn remedies(defaults: &Policy) -> Json {
    let ladders = Verdict::ALL
        .into_iter()
        .map(|verdict| {
            let names: Vec<_> = steps_for(verdict).iter().map(|step| step.name()).collect();
            let default: Vec<_> = defaults.remedies.get(&verdict).into_iter().flatten().map(|step| step.name()).collect();
            let items = if names.is_empty() { json!(false) } else { json!({ "enum": names }) };
            let ladder = json!({ "type": "array", "uniqueItems": true, "items": items, "default": default });
            (verdict.name().to_owned(), ladder)
        })
        .collect();
    object(ladders, &[])
}

#[cfg(test)]
mod tests {
    use super::super::schema::KEYS;
    use super::*;

    #[test]
    fn every_key_of_the_table_is_in_the_schema() {
        let schema = json_schema();
        for key in KEYS {
            let pointer = format!("/properties/{}", key.path.replace('.', "/properties/"));
            assert!(schema.pointer(&pointer).is_some(), "{pointer}");
        }
        assert_eq!(schema.pointer("/properties/limits/properties/cooldown/default"), Some(&json!("2m")));
        assert_eq!(schema.pointer("/properties/remedies/properties/fip_missing/default"), Some(&json!(["apply_alias"])));
    }
}
