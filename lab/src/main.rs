//! The `fip-lab` binary: parse, dispatch, exit code.

fn main() -> anyhow::Result<std::process::ExitCode> {
    let args: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    fip_lab::kubelet::main(&args)
}
