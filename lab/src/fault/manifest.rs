//! Faults of the manifest directory. Always by a temporary dotfile and rename, as the kubelet parses half a file that it sees.

use super::Target;
use crate::seed::MANIFEST_PATH;

/// Outside the kubelet's directory, on the same mount.
const ASIDE: &str = "/etc/kubernetes/fip-lab.aside.yaml";
/// What `manifest-edit` replaced.
const ORIGINAL: &str = "/etc/kubernetes/fip-lab.original.yaml";

pub(super) async fn remove(target: &Target<'_>) -> anyhow::Result<()> {
    let script = "[ -e \"$1\" ] || { echo \"there is no $1: heal manifest-remove puts back what was moved out\" >&2; exit 1; }; \
                  mv --no-target-directory \"$1\" \"$2\"";
    target.shell(script, &[MANIFEST_PATH, ASIDE]).await?;
    Ok(())
}

/// A manifest that is there stays, whoever put it there.
pub(super) async fn restore(target: &Target<'_>) -> anyhow::Result<()> {
    let script =
        "[ -e \"$2\" ] || { [ -e \"$1\" ] || { echo 'nothing was put aside' >&2; exit 1; }; mv -n \"$1\" \"$2\"; }; rm -f \"$1\"";
    target.shell(script, &[ASIDE, MANIFEST_PATH]).await?;
    Ok(())
}

pub(super) async fn touch(target: &Target<'_>) -> anyhow::Result<()> {
    target.run(&["touch", "--no-create", MANIFEST_PATH]).await?;
    Ok(())
}

pub(super) async fn edit(target: &Target<'_>) -> anyhow::Result<()> {
    let script = "[ -e \"$2\" ] || cp -p \"$1\" \"$2\"; new=\"${1%/*}/.fip-lab-edit\"; cp -p \"$2\" \"$new\"; \
                  sed -i \"s/^metadata:\\$/metadata:\\n  annotations: { fip-lab: '$(date +%s%N)' }/\" \"$new\"; mv \"$new\" \"$1\"";
    target.shell(script, &[MANIFEST_PATH, ORIGINAL]).await?;
    Ok(())
}

pub(super) async fn unedit(target: &Target<'_>) -> anyhow::Result<()> {
    target.shell("[ ! -e \"$2\" ] || mv \"$2\" \"$1\"", &[MANIFEST_PATH, ORIGINAL]).await?;
    Ok(())
}

pub(super) async fn shadow(target: &Target<'_>) -> anyhow::Result<()> {
    let path = shadow_path(target)?;
    let script = "new=\"${1%/*}/.fip-lab-shadow\"; cp -p \"$1\" \"$new\"; mv -n \"$new\" \"$2\"; \
                  [ ! -e \"$new\" ] || { rm -f \"$new\"; echo \"$2 is there already\" >&2; exit 1; }";
    target.shell(script, &[MANIFEST_PATH, &path]).await?;
    Ok(())
}

pub(super) async fn unshadow(target: &Target<'_>) -> anyhow::Result<()> {
    target.run(&["rm", "-f", &shadow_path(target)?]).await?;
    Ok(())
}

pub(super) fn shadow_path(target: &Target<'_>) -> anyhow::Result<String> {
    let name = target.arg("name", "wcp-fip.yaml.bak");
    let (directory, own) = MANIFEST_PATH.rsplit_once('/').unwrap_or(("", MANIFEST_PATH));
    let plain = !name.is_empty() && !name.contains('/') && name != ".." && name != ".";
    anyhow::ensure!(plain && name != own, "name={name}: must be a file name, and not the manifest's own");
    Ok(format!("{directory}/{name}"))
}
