//! The two namespaces that a container has of its own: processes, and mounts (for a `/proc` that shows those processes).
//! Everything else is the node's, as with a pod on the host network whose image is the node's file system.

use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The next child of the calling thread is PID 1 of a new pid namespace.
///
/// # Errors
/// The caller lacks CAP_SYS_ADMIN.
pub fn new_pids_for_children() -> io::Result<()> {
    unshare(UnshareFlags::NEWPID)
}

/// Give the calling process its own mounts, with a `/proc` of its own pid namespace.
///
/// # Errors
/// The caller lacks CAP_SYS_ADMIN, or `/proc` cannot be mounted.
pub fn own_proc() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
    Ok(())
}

#[expect(unsafe_code, reason = "rustix marks unshare unsafe for CLONE_FILES alone, which is not used here")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the flags are NEWPID or NEWNS; FILES, which can take descriptors away from other threads, is never passed.
    unsafe { unshare_unsafe(flags)? };
    Ok(())
}
