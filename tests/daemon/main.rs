//! The daemon as a process: started, starved, fed with rubbish, signalled and killed, without a lab.
//!
//! Each test has its own directories, and where an interface matters its own network namespace, which is the
//! daemon's alone and ends with it. Runs as root. Processes are ended by the pid that was started.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod bench;
mod command_line;
mod diagnoses;
mod etcd_stand_ins;
mod notify_socket;
mod pauses;
mod policy_edits;
mod recovery;
mod senses;
mod signals;
mod socket;
mod starts;
