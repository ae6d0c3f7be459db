//! Faults of the machine as a whole: paused, out of disk.

use std::time::Duration;

use anyhow::Context as _;

use super::Target;

/// Longest pause in one call; a longer one is a freeze and a heal.
const PAUSE_SECONDS_MAX: f64 = 600.0;
/// Filling a file system in memory takes that memory from the host.
const FILL_MIB_MAX: u64 = 512;
/// A file that the kubelet does not look at.
const FILLER: &str = ".fip-lab-filler";
/// The source by which a mount of ours is known.
pub(super) const TINY: &str = "fip-lab-tiny";

pub(super) async fn freeze(target: &Target<'_>) -> anyhow::Result<()> {
    let seconds = target.args.get("seconds").map(|text| parse_pause(text)).transpose()?;
    target.lab.freeze(target.node, true)?;
    if let Some(pause) = seconds {
        // Nobody would thaw it after this process.
        let cut = tokio::select! {
            () = tokio::time::sleep(pause) => false,
            raised = crate::cli::interrupted() => raised.is_ok(),
        };
        target.lab.freeze(target.node, false)?;
        anyhow::ensure!(!cut, "interrupted before the pause was over; the node goes on");
    }
    Ok(())
}

fn parse_pause(text: &str) -> anyhow::Result<Duration> {
    let seconds: f64 = text.parse().with_context(|| format!("seconds={text}: is not a number"))?;
    anyhow::ensure!((0.0..=PAUSE_SECONDS_MAX).contains(&seconds), "seconds={text}: must be between 0 and {PAUSE_SECONDS_MAX}");
    Ok(Duration::from_secs_f64(seconds))
}

pub(super) fn thaw(target: &Target<'_>) -> anyhow::Result<()> {
    target.lab.freeze(target.node, false)
}

pub(super) async fn fill_disk(target: &Target<'_>) -> anyhow::Result<()> {
    let path = disk_path(target)?;
    target.shell("[ -d \"$1\" ] || { echo \"path=$1: is no directory of the node\" >&2; exit 1; }", &[path]).await?;
    let how = target.choice("how", &["fill", "mount", "copy"])?;
    if how == "copy" {
        // Made aside and moved, so that nothing is missing for a moment.
        let script = "mkdir -p /run/fip-lab-tiny; mount -t tmpfs -o size=1m,mode=0755 \"$2\" /run/fip-lab-tiny; \
                      cp -a \"$1\"/. /run/fip-lab-tiny/; head -c 2M /dev/zero >/run/fip-lab-tiny/\"$3\" 2>/dev/null || :; \
                      mount --bind /run/fip-lab-tiny \"$1\"; umount /run/fip-lab-tiny";
        target.shell(script, &[path, TINY, FILLER]).await?;
        return Ok(());
    }
    if how == "mount" {
        let script = "mkdir -p \"$1\"; mount -t tmpfs -o size=16k,mode=0755 \"$2\" \"$1\"; head -c 1M /dev/zero >\"$1/$3\" 2>/dev/null || :";
        target.shell(script, &[path, TINY, FILLER]).await?;
        return Ok(());
    }
    let free: u64 =
        target.shell("df --output=avail -B1M \"$1\" | tail -n 1", &[path]).await?.trim().parse().context("df gave no number")?;
    anyhow::ensure!(
        free <= FILL_MIB_MAX,
        "the file system of {path} has {free} MiB free, more than {FILL_MIB_MAX}: use how=mount"
    );
    // `head` ends with "no space left", which is the purpose. Left-over bytes go one by one.
    let script = "top=$(findmnt -n -o TARGET -T \"$1\"); exec 2>/dev/null; head -c 1G /dev/zero >>\"$top/$2\" || :; \
                  for i in 1 2 3 4 5 6 7 8; do head -c 512 /dev/zero >>\"$top/$2\" || :; done";
    target.shell(script, &[path, FILLER]).await?;
    Ok(())
}

pub(super) async fn free_disk(target: &Target<'_>) -> anyhow::Result<()> {
    let path = disk_path(target)?;
    // It may have been mounted several times over itself.
    let script = "tiny() { [ \"$(findmnt -n -o SOURCE --mountpoint \"$1\" | tail -n 1)\" = \"$2\" ]; }; \
                  if tiny \"$@\"; then while tiny \"$@\"; do umount \"$1\"; done; \
                  else rm -f \"$(findmnt -n -o TARGET -T \"$1\")/$3\"; fi";
    target.shell(script, &[path, TINY, FILLER]).await?;
    Ok(())
}

pub(super) fn disk_path<'a>(target: &'a Target<'_>) -> anyhow::Result<&'a str> {
    let path = target.arg("path", "/etc/kubernetes");
    anyhow::ensure!(path.starts_with('/'), "path={path}: must be absolute");
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_bounded() {
        assert_eq!(parse_pause("1.5").unwrap(), Duration::from_millis(1500));
        for bad in ["-1", "nan", "inf", "601", "x"] {
            assert!(parse_pause(bad).is_err(), "{bad}");
        }
    }
}
