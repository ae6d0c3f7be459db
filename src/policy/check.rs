//! From the text of a policy to a [`Policy`], or to every fault in it at once.
//!
//! Pure. Starts from the defaults and walks the file once: each value that is good is put in, each one that is not becomes a
//! fault, and the combinations are judged last, over values that are good by themselves.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::decision::verdict::Verdict;

use super::Policy;
use super::combination::{RULES, default_staging_dir};
use super::fault::{FaultLog, PolicyFaults, Pos, did_you_mean};
use super::ladder;
use super::remedies;
use super::schema::{self, KEYS, Value};
use super::tree::{self, Entry, Kind, Node};
use super::value;

/// Largest file: some twenty times the fully commented default.
pub const SIZE_MAX: usize = 64 * 1024;
/// Longer keys are cut in messages; the schema's longest has 24 letters.
const KEY_SHOWN_MAX: usize = 64;

/// Reads a policy.
///
/// # Errors
/// Every fault of the text, in the order of its lines. A syntax error alone hides what comes after it.
pub fn check(text: &str, origin: &Path) -> Result<Policy, PolicyFaults> {
    let mut faults = FaultLog::default();
    if text.len() > SIZE_MAX {
        faults.add(Pos::START, "", format!("{} bytes are too many for a policy (allowed: at most {SIZE_MAX})", text.len()), None);
        return Err(faults.into_faults(origin.to_owned()));
    }
    let Some(root) = tree::parse(text, &mut faults) else {
        return Err(faults.into_faults(origin.to_owned()));
    };
    let mut walk = Walk { faults, policy: Policy::with_defaults(Ipv4Addr::UNSPECIFIED, "eth0"), keys: BTreeMap::new() };
    if walk.root(&root) {
        walk.required();
    }
    if !walk.keys.contains_key("cycle.staging_dir") {
        walk.policy.cycle.staging_dir = default_staging_dir(&walk.policy.watched_loop.manifest);
    }
    walk.combinations();
    if walk.faults.is_empty() { Ok(walk.policy) } else { Err(walk.faults.into_faults(origin.to_owned())) }
}

/// The verdicts that steps can answer.
fn answerable() -> impl Iterator<Item = &'static str> {
    Verdict::ALL.into_iter().filter(|verdict| !remedies::steps_for(*verdict).is_empty()).map(Verdict::name)
}

/// A key or section that the file has.
#[derive(Debug, Clone, Copy)]
struct Seen {
    key: Pos,
    value: Pos,
    good: bool,
}

struct Walk {
    faults: FaultLog,
    policy: Policy,
    /// By path, sections included.
    keys: BTreeMap<String, Seen>,
}

impl Walk {
    /// `false` if there is nothing to look into.
    fn root(&mut self, root: &Node) -> bool {
        match &root.kind {
            Kind::Map(entries) if root.plain("", &mut self.faults) => self.section(entries, ""),
            Kind::Map(_) | Kind::Null => {}
            Kind::Scalar { .. } | Kind::List(_) => {
                self.faults.add(root.pos, "", format!("a policy is a mapping of keys, this is {}", root.kind.noun()), None);
                return false;
            }
        }
        root.odd.is_none()
    }

    fn section(&mut self, entries: &[Entry], section: &str) {
        for entry in entries {
            let Some((path, name)) = self.path_of(entry, section) else { continue };
            if name.contains('.') {
                // Never noted: `fip.address: …` at the top is not the key of that path.
                self.unknown(entry, name, &path, section);
                continue;
            }
            let first = self.keys.get(&path).map(|first| first.key.line);
            if let Some(line) = first {
                let message = format!("is set twice, first in line {line}");
                self.faults.add(entry.key_pos, &path, message, Some("remove one of the two".to_owned()));
            }
            // The second one is judged too: its faults would only show up after the first was removed.
            let good = self.entry(entry, name, &path, section) && first.is_none();
            self.note(&path, entry, good);
        }
    }

    fn entry(&mut self, entry: &Entry, name: &str, path: &str, section: &str) -> bool {
        if let Some(key) = schema::find(path) {
            if !entry.value.plain(path, &mut self.faults) {
                return false;
            }
            let applied = value::apply(key, &entry.value.kind, &mut self.policy);
            applied.map_err(|bad| self.faults.add(entry.value.pos, path, bad.message, bad.hint)).is_ok()
        } else if section.is_empty() && schema::sections().any(|known| known == name) {
            // Noted before its content, which looks for it.
            self.note(path, entry, true);
            self.subsection(entry, name)
        } else if section == "remedies" {
            self.ladder(entry, name, path)
        } else {
            self.unknown(entry, name, path, section)
        }
    }

    fn note(&mut self, path: &str, entry: &Entry, good: bool) {
        let seen = self.keys.entry(path.to_owned()).or_insert(Seen { key: entry.key_pos, value: entry.value.pos, good });
        seen.good &= good;
    }

    fn path_of<'e>(&mut self, entry: &'e Entry, section: &str) -> Option<(String, &'e str)> {
        let Some(name) = entry.key.as_deref() else {
            self.faults.add(entry.key_pos, section, "a key must be a plain word", None);
            return None;
        };
        let shown: String = name.chars().take(KEY_SHOWN_MAX).flat_map(char::escape_debug).collect();
        let path = if section.is_empty() { shown } else { format!("{section}.{shown}") };
        Some((path, name))
    }

    fn subsection(&mut self, entry: &Entry, name: &str) -> bool {
        if !entry.value.plain(name, &mut self.faults) {
            return false;
        }
        match &entry.value.kind {
            Kind::Map(entries) => self.section(entries, name),
            Kind::Null => {}
            Kind::Scalar { .. } | Kind::List(_) => {
                let keys: Vec<_> = if name == "remedies" { answerable().collect() } else { schema::names_in(name).collect() };
                let message = format!("is {}, not a mapping (allowed keys: {})", entry.value.kind.noun(), keys.join(", "));
                self.faults.add(entry.value.pos, name, message, None);
                return false;
            }
        }
        true
    }

    fn unknown(&mut self, entry: &Entry, name: &str, path: &str, section: &str) -> bool {
        let top = section.is_empty();
        let candidates: Vec<_> = schema::names_in(section).chain(schema::sections().filter(|_| top)).collect();
        let elsewhere = || {
            let mut homes = KEYS.iter().map(|key| key.path).filter(|path| path.rsplit('.').next() == Some(name) || *path == name);
            homes.next().map(|home| match home.split_once('.') {
                Some((of, key)) => format!("did you mean `{key}` in section `{of}`?"),
                None => format!("did you mean `{home}` at the top?"),
            })
        };
        let hint = match name {
            "<<" => Some("merge keys are not known: write the values themselves".to_owned()),
            _ if top && schema::find(name).is_some() => {
                name.split_once('.').map(|(of, key)| format!("write it as a section: `{of}: {{ {key}: … }}`"))
            }
            _ => elsewhere().or_else(|| did_you_mean(name, candidates.iter().copied())),
        };
        let place = if top { "at the top".to_owned() } else { format!("in section `{section}`") };
        self.faults.add(entry.key_pos, path, format!("is not a key {place} (allowed: {})", candidates.join(", ")), hint);
        false
    }

    fn ladder(&mut self, entry: &Entry, name: &str, path: &str) -> bool {
        let Some(verdict) = remedies::verdict(name) else {
            let message = format!("is not a verdict (allowed: {})", answerable().collect::<Vec<_>>().join(", "));
            self.faults.add(entry.key_pos, path, message, did_you_mean(name, Verdict::ALL.map(Verdict::name)));
            return false;
        };
        let Some(ladder) = ladder::read(&entry.value, verdict, path, &mut self.faults) else { return false };
        self.policy.remedies.remove(&verdict);
        if !ladder.is_empty() {
            self.policy.remedies.insert(verdict, ladder);
        }
        true
    }

    /// Keys without a default.
    fn required(&mut self) {
        for key in KEYS.iter().filter(|key| matches!(key.value, Value::Version | Value::Address(_))) {
            let section = key.path.split_once('.').map(|(section, _)| section);
            let home = section.and_then(|section| self.keys.get(section));
            if self.keys.contains_key(key.path) || home.is_some_and(|home| !home.good) {
                continue;
            }
            let hint = match section {
                Some(_) => "there is no default for it: `fip-watchdog init` finds it on the node".to_owned(),
                None => format!("write `version: {}`", schema::VERSION),
            };
            self.faults.add(home.map_or(Pos::START, |home| home.key), key.path, "is missing", Some(hint));
        }
    }

    fn combinations(&mut self) {
        for rule in RULES {
            let bad = |path: &&str| {
                let of = path.split_once('.').map(|(section, _)| section);
                [Some(*path), of].into_iter().flatten().any(|path| self.keys.get(path).is_some_and(|seen| !seen.good))
            };
            if rule.keys.iter().any(bad) {
                continue;
            }
            let Some(message) = (rule.violation)(&self.policy) else { continue };
            let pos = rule.keys.iter().find_map(|path| self.keys.get(*path)).map_or(Pos::START, |seen| seen.value);
            let path = rule.keys.first().copied().unwrap_or_default();
            let unset: Vec<_> =
                rule.keys.iter().filter(|path| !self.keys.contains_key(**path)).filter_map(|path| schema::find(path)).collect();
            let hint = unset
                .iter()
                .map(|key| format!("{} is not set, so it is {}", key.path, key.spell(&self.policy)))
                .collect::<Vec<_>>();
            self.faults.add(pos, path, message, (!hint.is_empty()).then(|| hint.join(", ")));
        }
    }
}
