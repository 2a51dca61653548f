//! Chromium and its driver: found on this machine, or installed from its packages.

use std::{env, path::PathBuf};

use anyhow::{Context, Result};

use super::system::{self, on_path};

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

/// Installs both.
pub(super) fn install() -> Result<()> {
    system::install(&PACKAGES, NEEDS)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_variable_the_first_program_on_the_path_is_taken() {
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
