//! The UID of a static pod: a hash of parsed content, node name and file path.
//! Invariant: the same file on the same node has the same UID for ever, and the same bytes under another name have another.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// 32 hex digits without dashes.
#[must_use]
pub fn of(content: &serde_json::Value, node: &str, path: &Path) -> String {
    // Object keys are sorted in `Value`, so layout and order of the YAML do not count, as with the kubelet's typed pod.
    hex(&[content.to_string().as_bytes(), node.as_bytes(), path.as_os_str().as_bytes()], 16)
}

/// The id of a container: 64 hex digits, another one for each start.
#[must_use]
pub fn of_container(uid: &str, attempt: u32, nonce: &str) -> String {
    hex(&[uid.as_bytes(), &attempt.to_be_bytes(), nonce.as_bytes()], 32)
}

fn hex(parts: &[&[u8]], bytes: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().take(bytes).fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _written = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_content_node_and_path_give_the_same_uid_and_each_of_them_counts() {
        let content = serde_json::json!({"b": 1, "a": 2});
        let uid = of(&content, "n", Path::new("/m/a"));
        assert_eq!(uid.len(), 32);
        assert_eq!(uid, of(&serde_json::json!({"a": 2, "b": 1}), "n", Path::new("/m/a")));
        assert_ne!(uid, of(&serde_json::json!({"a": 2}), "n", Path::new("/m/a")));
        assert_ne!(uid, of(&content, "m", Path::new("/m/a")));
        assert_ne!(uid, of(&content, "n", Path::new("/m/b")));
    }
}
