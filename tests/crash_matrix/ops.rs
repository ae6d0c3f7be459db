//! From strace's lines to what a task did to its directory tree.

use std::path::{Path, PathBuf};

use crate::strace::Call;

/// One change, or one promise that changes are on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Mkdir(PathBuf),
    /// Created empty if there is no such name; with these permission bits.
    Create(PathBuf, u32),
    /// Appended, which is all that the cycle does.
    Append(PathBuf, Vec<u8>),
    Truncate(PathBuf, usize),
    Owner(PathBuf, u32, u32),
    Mode(PathBuf, u32),
    Xattr(PathBuf, String, Vec<u8>),
    Rename(PathBuf, PathBuf),
    Unlink(PathBuf),
    Sync(PathBuf),
}

/// What calls must not be met that change something in a way that the model does not know.
const UNKNOWN: [&str; 13] = [
    "link",
    "rename",
    "mkdir",
    "rmdir",
    "trunc",
    "mknod",
    "copy_file",
    "fallocate",
    "pwrite",
    "writev",
    "chown",
    "chmod",
    "setxattr",
];

/// The operations below `root` in their order, with paths relative to it.
pub fn ops(calls: &[Call], root: &Path) -> Vec<Op> {
    calls.iter().filter_map(|call| op(call, root)).collect()
}

fn op(call: &Call, root: &Path) -> Option<Op> {
    let (arguments, answer) = call.text.rsplit_once(" = ")?;
    if answer.starts_with('-') {
        return None;
    }
    let arguments: Vec<&str> = arguments.trim_end().trim_end_matches(')').split(", ").collect();
    let below = |path: PathBuf| path.strip_prefix(root).ok().map(Path::to_owned);
    let of = |at: usize| below(PathBuf::from(descriptor(arguments[at])));
    let at = |at: usize| below(Path::new(descriptor(arguments[at])).join(string(arguments[at + 1])));
    let number = |at: usize, radix| u32::from_str_radix(arguments[at].trim_start_matches("0o"), radix).unwrap();
    match call.name.as_str() {
        "openat" if arguments[2].contains("O_CREAT") => Some(Op::Create(at(0)?, number(3, 8))),
        "openat" => None,
        "mkdirat" => at(0).map(Op::Mkdir),
        "write" => {
            // Not the runtime's own, to its event descriptor.
            let path = of(0)?;
            let content = bytes(arguments[1]);
            assert_eq!(content.len().to_string(), answer.trim(), "no short write in a recording");
            Some(Op::Append(path, content))
        }
        "ftruncate" => Some(Op::Truncate(of(0)?, arguments[1].parse().unwrap())),
        "fchown" => Some(Op::Owner(of(0)?, number(1, 10), number(2, 10))),
        "fchmod" => Some(Op::Mode(of(0)?, number(1, 8))),
        "fsetxattr" => Some(Op::Xattr(of(0)?, string(arguments[1]).to_owned(), bytes(arguments[2]))),
        "renameat" | "renameat2" => Some(Op::Rename(at(0)?, at(2)?)),
        "unlinkat" => at(0).map(Op::Unlink),
        "fsync" | "fdatasync" => of(0).map(Op::Sync),
        "readlink" | "readlinkat" => None,
        other => {
            assert!(!UNKNOWN.iter().any(|word| other.contains(word)), "the model does not know {other}({})", call.text);
            None
        }
    }
}

/// `9</a/b>`
fn descriptor(argument: &str) -> &str {
    argument.split_once('<').map_or("", |(_, path)| path.trim_end_matches('>'))
}

/// `"a"`
fn string(argument: &str) -> &str {
    argument.trim_matches('"')
}

fn bytes(argument: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = string(argument);
    while let Some(first) = rest.chars().next() {
        let digits = rest.strip_prefix("\\x").and_then(|rest| rest.get(..2));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(u8::try_from(first).unwrap());
                rest = &rest[1..];
            }
        }
    }
    bytes
}
