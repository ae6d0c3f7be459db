//! What a kubelet stand-in must do: one test or more for each of the nineteen numbered rules, on the real binary.
//!
//! Needs root (cgroups, namespaces). Times are scaled down with `--time-scale`; each test that depends on it says so.

mod bench;
mod logs;
mod manifests;
mod modes;
mod removal;
mod restart;
mod the_loop;
