//! Every file system call of the manifest cycle and of its journal, and nothing else.
//!
//! Invariant I2 rests on the order of these calls, so there is one place where a test can stop the
//! world before each of them ([`FaultHook`]). Calls are relative to a directory's descriptor and never
//! follow a link in the last component; the directory itself is opened by path again for each phase,
//! because the manifest directory may have been replaced meanwhile. All of it blocks (a frozen disk
//! hangs in `fsync`): call it from a blocking task. Each call is whole or not done; none is cancelled.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, RenameFlags, Stat, XattrFlags};
use rustix::io::Errno;

/// Most bytes of names and of one value of extended attributes (the kernel's own limits).
const XATTR_MAX: usize = 64 * 1024;

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[error("cannot {call} {}", path.display())]
pub struct FsError {
    /// What was tried, as a verb.
    pub call: &'static str,
    /// On what.
    pub path: PathBuf,
    /// The kernel's answer.
    #[source]
    pub source: std::io::Error,
}

impl FsError {
    /// Whether the kernel answered with this error number.
    #[must_use]
    pub fn is(&self, errno: Errno) -> bool {
        self.source.raw_os_error() == Some(errno.raw_os_error())
    }
}

/// How a test makes a call fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The error number in the call's place.
    pub errno: Errno,
    /// Whether a write does half of its work first, as on a disk that fills up.
    pub half_done: bool,
}

/// Told of every call before it is made. For tests: the fault is returned in the call's place.
pub trait FaultHook: Send + Sync {
    /// May the call `call` on `path` be made?
    ///
    /// # Errors
    /// How it fails.
    fn before(&self, call: &'static str, path: &Path) -> Result<(), Fault>;
}

/// The file system as the cycle uses it.
#[derive(Clone, Default)]
pub struct Fs {
    hook: Option<Arc<dyn FaultHook>>,
}

/// An open directory, with the path it was opened by.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

/// An open regular file or what passes for one, with its path.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    /// The path that the directory was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

type Result<T, E = FsError> = std::result::Result<T, E>;

impl Fs {
    /// A file system whose calls `hook` may fail.
    #[must_use]
    pub fn with_hook(hook: Arc<dyn FaultHook>) -> Self {
        Self { hook: Some(hook) }
    }

    /// Makes a call that has no method of its own here (a look at another file), so that it too can be failed.
    pub(crate) fn call<T>(&self, call: &'static str, path: &Path, act: impl FnOnce() -> std::io::Result<T>) -> Result<T> {
        let allowed = self.hook.as_ref().map_or(Ok(()), |hook| hook.before(call, path));
        allowed.map_err(|fault| fault.errno.into()).and_then(|()| act()).map_err(|source| FsError {
            call,
            path: path.to_owned(),
            source,
        })
    }

    /// Opens a directory.
    pub(crate) fn open_dir(&self, path: &Path) -> Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = self.call("open directory", path, || Ok(fs::openat(CWD, path, flags, Mode::empty())?))?;
        Ok(Dir { fd, path: path.to_owned() })
    }

    /// Opens a directory that is not reached by a link in its last component.
    pub(crate) fn open_own_dir(&self, path: &Path) -> Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.call("open directory", path, || Ok(fs::openat(CWD, path, flags, Mode::empty())?))?;
        Ok(Dir { fd, path: path.to_owned() })
    }

    /// Makes a directory of mode 0700; one that exists is success. Its name is on disk then, also if it was
    /// made by an earlier life that died before it came to that.
    pub(crate) fn make_dir(&self, path: &Path) -> Result<()> {
        self.call("make directory", path, || match fs::mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        })?;
        match path.parent() {
            Some(parent) => self.sync_dir(&self.open_dir(parent)?),
            None => Ok(()),
        }
    }

    /// Opens a file for reading: no link is followed, and a FIFO does not block.
    pub(crate) fn open_file(&self, dir: &Dir, name: &OsStr) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        self.open("open", dir, name, flags)
    }

    /// Creates a file of mode 0600 for writing; one that exists is an error.
    pub(crate) fn create_new(&self, dir: &Dir, name: &OsStr) -> Result<File> {
        self.open("create", dir, name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC)
    }

    /// Opens a file for appending, created with mode 0600 if there is none.
    pub(crate) fn open_append(&self, dir: &Dir, name: &OsStr) -> Result<File> {
        self.open("open", dir, name, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC)
    }

    fn open(&self, call: &'static str, dir: &Dir, name: &OsStr, flags: OFlags) -> Result<File> {
        let path = dir.path.join(name);
        let fd = self.call(call, &path, || Ok(fs::openat(&dir.fd, name, flags, Mode::RUSR | Mode::WUSR)?))?;
        Ok(File { fd, path })
    }

    /// Status of an open file.
    pub(crate) fn stat(&self, file: &File) -> Result<Stat> {
        self.call("stat", &file.path, || Ok(fs::fstat(&file.fd)?))
    }

    /// Status of a directory.
    pub(crate) fn stat_dir(&self, dir: &Dir) -> Result<Stat> {
        self.call("stat", &dir.path, || Ok(fs::fstat(&dir.fd)?))
    }

    /// Status of a name without following a link; `None` if there is no such name.
    pub(crate) fn look_up(&self, dir: &Dir, name: &OsStr) -> Result<Option<Stat>> {
        self.call("stat", &dir.path.join(name), || match fs::statat(&dir.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        })
    }

    /// The whole content; `E2BIG` beyond `limit` bytes.
    pub(crate) fn read(&self, file: &File, limit: usize) -> Result<Vec<u8>> {
        self.call("read", &file.path, || {
            let mut content = Vec::new();
            let reader = std::fs::File::from(file.fd.try_clone()?);
            reader.take(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut content)?;
            if content.len() > limit { Err(Errno::TOOBIG.into()) } else { Ok(content) }
        })
    }

    /// The extended attributes by name. ACLs and SELinux labels are among them.
    pub(crate) fn xattrs(&self, file: &File) -> Result<BTreeMap<String, Vec<u8>>> {
        self.call("read attributes of", &file.path, || {
            let mut list = vec![0_u8; XATTR_MAX];
            let len = match fs::flistxattr(&file.fd, list.as_mut_slice()) {
                Ok(len) => len,
                Err(Errno::OPNOTSUPP) => 0,
                Err(errno) => return Err(errno.into()),
            };
            let mut attributes = BTreeMap::new();
            for name in list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
                let mut value = vec![0_u8; XATTR_MAX];
                let len = fs::fgetxattr(&file.fd, name, value.as_mut_slice())?;
                value.truncate(len);
                let name = String::from_utf8(name.to_vec()).map_err(|_| std::io::Error::from(Errno::ILSEQ))?;
                attributes.insert(name, value);
            }
            Ok(attributes)
        })
    }

    /// Writes all of `content`. On an error half of it may have been written.
    pub(crate) fn write(&self, file: &File, content: &[u8]) -> Result<()> {
        let put = |mut rest: &[u8]| -> std::io::Result<()> {
            while !rest.is_empty() {
                match rustix::io::write(&file.fd, rest) {
                    Ok(0) => return Err(Errno::IO.into()),
                    Ok(done) => rest = &rest[done..],
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            Ok(())
        };
        let injected = self.hook.as_ref().and_then(|hook| hook.before("write", &file.path).err());
        let written = match injected {
            None => put(content),
            Some(Fault { errno, half_done: true }) => put(&content[..content.len() / 2]).and_then(|()| Err(errno.into())),
            Some(Fault { errno, half_done: false }) => Err(errno.into()),
        };
        written.map_err(|source| FsError { call: "write", path: file.path.clone(), source })
    }

    /// Cuts a file to `len` bytes.
    pub(crate) fn truncate(&self, file: &File, len: u64) -> Result<()> {
        self.call("truncate", &file.path, || Ok(fs::ftruncate(&file.fd, len)?))
    }

    /// Sets the owner.
    pub(crate) fn set_owner(&self, file: &File, uid: u32, gid: u32) -> Result<()> {
        let (uid, gid) = (fs::Uid::from_raw(uid), fs::Gid::from_raw(gid));
        self.call("set the owner of", &file.path, || Ok(fs::fchown(&file.fd, Some(uid), Some(gid))?))
    }

    /// Sets the permission bits.
    pub(crate) fn set_mode(&self, file: &File, mode: u32) -> Result<()> {
        self.call("set the mode of", &file.path, || Ok(fs::fchmod(&file.fd, Mode::from_raw_mode(mode))?))
    }

    /// Sets one extended attribute.
    pub(crate) fn set_xattr(&self, file: &File, name: &str, value: &[u8]) -> Result<()> {
        self.call("set an attribute of", &file.path, || Ok(fs::fsetxattr(&file.fd, name, value, XattrFlags::empty())?))
    }

    /// Content and metadata of a file reach the disk.
    pub(crate) fn sync(&self, file: &File) -> Result<()> {
        self.call("sync", &file.path, || Ok(fs::fsync(&file.fd)?))
    }

    /// The names of a directory reach the disk.
    pub(crate) fn sync_dir(&self, dir: &Dir) -> Result<()> {
        self.call("sync directory", &dir.path, || Ok(fs::fsync(&dir.fd)?))
    }

    /// Renames, never over something that exists.
    pub(crate) fn rename_new(&self, from: (&Dir, &OsStr), to: (&Dir, &OsStr)) -> Result<()> {
        self.call("move a file to", &to.0.path.join(to.1), || {
            Ok(fs::renameat_with(&from.0.fd, from.1, &to.0.fd, to.1, RenameFlags::NOREPLACE)?)
        })
    }

    /// Renames within a directory of ours, over what is there.
    pub(crate) fn rename_over(&self, dir: &Dir, from: &OsStr, to: &OsStr) -> Result<()> {
        self.call("replace", &dir.path.join(to), || Ok(fs::renameat(&dir.fd, from, &dir.fd, to)?))
    }

    /// Puts a file of ours with this content under the name `to`, by way of the name `aside`: what is found under `to` is whole.
    /// A leftover under `aside` is removed first, whatever it is but a directory.
    pub(crate) fn replace_whole(&self, dir: &Dir, (aside, to): (&OsStr, &OsStr), content: &[u8]) -> Result<()> {
        self.unlink(dir, aside)?;
        let file = self.create_new(dir, aside)?;
        let written = self.write(&file, content).and_then(|()| self.sync(&file)).and_then(|()| self.rename_over(dir, aside, to));
        if let Err(error) = written {
            // On a full disk half a file takes room that somebody may need.
            self.unlink(dir, aside).ok();
            return Err(error);
        }
        self.sync_dir(dir)
    }

    /// Removes a name; one that is absent is success.
    pub(crate) fn unlink(&self, dir: &Dir, name: &OsStr) -> Result<()> {
        self.call("remove", &dir.path.join(name), || match fs::unlinkat(&dir.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        })
    }

    /// Free bytes for root on the directory's file system.
    pub(crate) fn free_bytes(&self, dir: &Dir) -> Result<u64> {
        self.call("ask for free space of", &dir.path, || {
            let stat = fs::fstatvfs(&dir.fd)?;
            Ok(stat.f_bfree.saturating_mul(stat.f_frsize))
        })
    }

    /// Which mount the directory is on. Two bind mounts of one file system share `st_dev`, and rename
    /// between them fails with `EXDEV` all the same; `fdinfo` has told them apart since Linux 3.15.
    pub(crate) fn mount_id(&self, dir: &Dir) -> Result<u64> {
        self.call("ask for the mount of", &dir.path, || {
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.fd.as_fd().as_raw_fd()))?;
            let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
            id.ok_or_else(|| std::io::Error::from(Errno::NODATA))
        })
    }
}
