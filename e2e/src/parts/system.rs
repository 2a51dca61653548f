//! Programs of this machine: found on the path, or installed from its packages.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use super::command::run;

/// The first program of this name on the path.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// Installs packages with apt-get, which needs root on Debian or a system made from it; otherwise
/// fails with what is needed.
pub(super) fn install(packages: &[&str], needs: &str) -> Result<()> {
    let apt_get = on_path("apt-get");
    let Some(apt_get) = apt_get.filter(|_| nix::unistd::geteuid().is_root()) else {
        bail!("not found; needed: {needs}");
    };
    eprintln!("installing {} with apt-get …", packages.join(" and "));
    if apt_install(&apt_get, packages, needs).is_ok() {
        return Ok(());
    }
    // A new machine has no lists of packages, and old lists name packages that are gone.
    run(Command::new(&apt_get).arg("update"), needs)?;
    apt_install(&apt_get, packages, needs)
}

fn apt_install(apt_get: &Path, packages: &[&str], needs: &str) -> Result<()> {
    let mut install = Command::new(apt_get);
    install
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages);
    run(&mut install, needs).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("sh").unwrap().is_absolute());
        assert_eq!(on_path("no-such-program"), None);
    }
}
