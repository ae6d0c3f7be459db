//! What an edit of the policy changed, for the audit.

use crate::decision::verdict::Verdict;

use super::Policy;
use super::remedies;
use super::schema::KEYS;

/// One line for each key whose value differs: `limits.cooldown: 2m -> 3m`, in the order of the file.
#[must_use]
pub fn diff(old: &Policy, new: &Policy) -> Vec<String> {
    let keys = KEYS.iter().map(|key| (key.path.to_owned(), key.spell(old), key.spell(new)));
    let ladders = Verdict::ALL
        .into_iter()
        .map(|verdict| (format!("remedies.{}", verdict.name()), remedies::spell(old, verdict), remedies::spell(new, verdict)));
    keys.chain(ladders).filter(|(_, old, new)| old != new).map(|(path, old, new)| format!("{path}: {old} -> {new}")).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_changed_key_is_one_line_and_an_unchanged_policy_is_none() {
        let old = Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 10), "eth0");
        let mut new = old.clone();
        assert!(diff(&old, &new).is_empty());
        new.limits.cooldown = Duration::from_secs(180);
        new.mode = super::super::Mode::Observe;
        new.remedies.remove(&Verdict::FipOrphaned);
        assert_eq!(
            diff(&old, &new),
            [
                "mode: enforce -> observe",
                "limits.cooldown: 2m -> 3m",
                "remedies.fip_orphaned: [release_alias, cycle_manifest] -> []"
            ]
        );
    }
}
