//! Faults of the kubelet stand-in: modes that it reads from `/run/fip-lab/kubelet.mode`, one word a line.

use anyhow::Context as _;

use super::Target;

const UNIT: &str = "kubelet.service";
/// What the stand-in knows; it ignores other words, and a fault that does nothing helps nobody.
const MODES: [&str; 6] = ["sources-not-ready", "watch-dead", "unkillable", "log-reader-dead", "evict", "termination-stuck"];

pub(super) fn set_modes(target: &Target<'_>) -> anyhow::Result<()> {
    write(target, &parse(target.arg("mode", ""))?)
}

pub(super) fn clear_modes(target: &Target<'_>) -> anyhow::Result<()> {
    write(target, "")
}

fn parse(text: &str) -> anyhow::Result<String> {
    let mut lines = String::new();
    for word in text.split(',').map(str::trim) {
        anyhow::ensure!(MODES.contains(&word), "mode={word}: must be some of {}", MODES.join(", "));
        lines.push_str(word);
        lines.push('\n');
    }
    Ok(lines)
}

/// As a whole: the stand-in reads the file when a rename tells it to.
fn write(target: &Target<'_>, lines: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let directory = target.lab.shared(target.node);
    let write = || -> anyhow::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".mode-").tempfile_in(&directory)?;
        file.write_all(lines.as_bytes())?;
        file.persist(directory.join("kubelet.mode"))?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}/kubelet.mode", directory.display()))
}

pub(super) async fn stop(target: &Target<'_>) -> anyhow::Result<()> {
    target.run(&["systemctl", "stop", UNIT]).await?;
    Ok(())
}

pub(super) async fn start(target: &Target<'_>) -> anyhow::Result<()> {
    target.run(&["systemctl", "start", UNIT]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_one_a_line_and_unknown_ones_are_refused() {
        assert_eq!(parse("watch-dead, unkillable").unwrap(), "watch-dead\nunkillable\n");
        assert!(parse("watch-ded").is_err());
        assert!(parse("").is_err());
    }
}
