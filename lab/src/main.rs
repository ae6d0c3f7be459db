//! The `fip-lab` binary: parse, dispatch, exit code.

fn main() -> std::process::ExitCode {
    fip_lab::cli::main()
}
