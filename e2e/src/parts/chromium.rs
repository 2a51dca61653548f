//! Chromium and its driver: found on this machine, or installed from its packages.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::command::run;

/// Names the browser's program, instead of the first one on the path.
const BROWSER_VARIABLE: &str = "FLEETDEX_CHROMIUM";
/// Names the driver's program, instead of the first one on the path.
const DRIVER_VARIABLE: &str = "FLEETDEX_CHROMEDRIVER";
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const DRIVERS: [&str; 1] = ["chromedriver"];
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];
const NEEDS: &str = "Chromium and ChromeDriver of the same version on the path (Debian: apt-get install chromium chromium-driver), \
                     or named by FLEETDEX_CHROMIUM and FLEETDEX_CHROMEDRIVER";

/// A browser and its driver, which has to be of the same version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chromium {
    /// The browser's program.
    pub browser: PathBuf,
    /// The program that speaks WebDriver and starts the browser.
    pub driver: PathBuf,
}

impl Chromium {
    /// The programs that `FLEETDEX_CHROMIUM` and `FLEETDEX_CHROMEDRIVER` name, or else the first
    /// ones on the path; none if one of the two is missing. A variable that names no file is an
    /// error.
    pub fn find() -> Result<Option<Self>> {
        let (Some(browser), Some(driver)) = (
            program(BROWSER_VARIABLE, &BROWSERS)?,
            program(DRIVER_VARIABLE, &DRIVERS)?,
        ) else {
            return Ok(None);
        };
        Ok(Some(Self { browser, driver }))
    }
}

/// Installs both with apt-get, which needs root on Debian or a system made from it.
pub(super) fn install() -> Result<()> {
    let apt_get = on_path("apt-get");
    let Some(apt_get) = apt_get.filter(|_| nix::unistd::geteuid().is_root()) else {
        bail!("not found; needed: {NEEDS}");
    };
    eprintln!("installing {} with apt-get …", PACKAGES.join(" and "));
    if apt_install(&apt_get).is_ok() {
        return Ok(());
    }
    // A new machine has no lists of packages, and old lists name packages that are gone.
    run(Command::new(&apt_get).arg("update"), NEEDS)?;
    apt_install(&apt_get)
}

fn apt_install(apt_get: &Path) -> Result<()> {
    let mut install = Command::new(apt_get);
    install
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "-y", "--no-install-recommends"])
        .args(PACKAGES);
    run(&mut install, NEEDS).map(drop)
}

fn program(variable: &str, names: &[&str]) -> Result<Option<PathBuf>> {
    let Some(named) = env::var_os(variable).map(PathBuf::from) else {
        return Ok(names.iter().find_map(|name| on_path(name)));
    };
    named
        .is_file()
        .then_some(Some(named.clone()))
        .with_context(|| format!("{variable} names {}, which is no file", named.display()))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("sh").unwrap().is_absolute());
        assert_eq!(on_path("no-such-program"), None);
        assert_eq!(
            program("NO_SUCH_VARIABLE", &["no-such-program", "sh"]).unwrap(),
            on_path("sh")
        );
    }

    #[test]
    fn a_variable_that_names_no_file_is_an_error() {
        // Cargo sets this variable, to a folder.
        let error = program("CARGO_MANIFEST_DIR", &["sh"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("CARGO_MANIFEST_DIR names"), "{error}");
    }
}
