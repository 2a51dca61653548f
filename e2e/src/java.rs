//! Finds an installed Java for each OpenSearch.

use std::{
    collections::BTreeSet,
    env, fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Result, bail};

/// An installed Java.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Java {
    /// Its folder, `JAVA_HOME`.
    pub home: PathBuf,
    /// Its major version, such as 21.
    pub version: u32,
}

impl Java {
    /// The first Java with one of these versions: that of `OPENSEARCH_JAVA_HOME`, of `JAVA_HOME`,
    /// on the path, in `/usr/lib/jvm`.
    pub fn find(versions: &RangeInclusive<u32>, needed_for: &str) -> Result<Self> {
        let mut seen = Vec::new();
        for program in candidates() {
            let Some(java) = Self::of(&program) else {
                continue;
            };
            if versions.contains(&java.version) {
                return Ok(java);
            }
            seen.push(format!("{} ({})", java.home.display(), java.version));
        }
        let (first, last) = versions.clone().into_inner();
        let found = if seen.is_empty() {
            "none at all".to_owned()
        } else {
            seen.join(", ")
        };
        bail!(
            "{needed_for} needs Java {first} to {last}, found: {found}. Install a JDK 21, which runs every version used here \
             (Debian 13: apt-get install openjdk-21-jdk-headless; elsewhere https://adoptium.net), or set OPENSEARCH_JAVA_HOME"
        )
    }

    /// Runs the program to read its home: on many machines `java` is a wrapper script elsewhere.
    fn of(program: &Path) -> Option<Self> {
        let mut command = Command::new(program);
        command
            .args(["-XshowSettings:properties", "-version"])
            .stdin(Stdio::null());
        let output = command.output().ok()?;
        parse(&String::from_utf8_lossy(&output.stderr))
    }
}

fn candidates() -> Vec<PathBuf> {
    let homes = ["OPENSEARCH_JAVA_HOME", "JAVA_HOME"]
        .into_iter()
        .filter_map(env::var_os)
        .map(PathBuf::from);
    let mut programs: Vec<PathBuf> = homes.map(|home| home.join("bin/java")).collect();
    programs.push(PathBuf::from("java"));
    let installed: BTreeSet<PathBuf> = fs::read_dir("/usr/lib/jvm")
        .map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.path().join("bin/java"))
                .collect()
        })
        .unwrap_or_default();
    programs.extend(installed.into_iter().filter(|program| program.is_file()));
    programs
}

fn parse(settings: &str) -> Option<Java> {
    let property = |name: &str| {
        settings
            .lines()
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(" = "))
    };
    let version = property("java.specification.version")?.parse().ok()?;
    Some(Java {
        home: PathBuf::from(property("java.home")?),
        version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_and_version_are_parsed_from_java_settings() {
        let settings = "Property settings:\n    java.home = /usr/lib/jvm/21\n    java.specification.version = 21\n\nopenjdk";
        assert_eq!(
            parse(settings),
            Some(Java {
                home: "/usr/lib/jvm/21".into(),
                version: 21
            })
        );
    }

    #[test]
    fn java_before_9_is_ignored() {
        assert_eq!(
            parse("    java.home = /x\n    java.specification.version = 1.8\n"),
            None
        );
    }

    #[test]
    fn a_missing_java_is_an_error_that_names_what_to_install() {
        let error = Java::find(&(900..=901), "the moon")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("the moon needs Java 900 to 901") && error.contains("JDK 21"),
            "{error}"
        );
    }
}
