//! Measures how often the generic rule agrees with the authors of Argo CD's health tests.
//!
//! ```sh
//! cargo run --release -p fleetdex-interpreter --example agreement -- ../argo-cd/resource_customizations
//! ```
//!
//! The folder is laid out as in Argo CD: `<group>/<Kind>/health_test.yaml` lists cases, each with
//! the health it expects and the file of the object. Prints the agreement for each expected word,
//! and the cases that disagree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fleetdex_interpreter::health::{KnownStatus, generic};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct HealthTest {
    #[serde(default)]
    tests: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    health_status: Expected,
    #[serde(alias = "inputpath")]
    input_path: String,
}

#[derive(Deserialize)]
struct Expected {
    status: String,
}

/// Cases that agree, of all.
#[derive(Default)]
struct Tally {
    agreeing: usize,
    cases: usize,
}

impl Tally {
    fn count(&mut self, agrees: bool) {
        self.agreeing += usize::from(agrees);
        self.cases += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    fn print(&self, name: &str) {
        let share = 100.0 * self.agreeing as f64 / self.cases.max(1) as f64;
        println!(
            "{name:<12} {:>5} of {:>5} {share:>6.1} %",
            self.agreeing, self.cases
        );
    }
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: agreement FOLDER (Argo CD's resource_customizations)");
        return ExitCode::FAILURE;
    };
    match measure(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(folder: &Path) -> Result<(), Failure> {
    let mut words: BTreeMap<String, Tally> = BTreeMap::new();
    let mut total = Tally::default();
    let lists = lists_below(folder)?;
    for list in &lists {
        let Some(test) = read::<HealthTest>(list) else {
            continue;
        };
        for case in test.tests {
            let path = list.with_file_name(&case.input_path);
            let Some(object) = read::<Value>(&path) else {
                continue;
            };
            let health = generic::assess(&(&object).into(), KnownStatus::Unknown).health;
            let expected = case.health_status.status;
            let agrees = health.as_str() == expected;
            if !agrees {
                println!("{}: {expected} expected, not {health}", path.display());
            }
            words.entry(expected).or_default().count(agrees);
            total.count(agrees);
        }
    }
    for (word, tally) in &words {
        tally.print(word);
    }
    total.print("all");
    println!("{} kinds", lists.len());
    Ok(())
}

/// The files with lists of cases, in alphabetical order.
fn lists_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .file_name()
                .is_some_and(|name| name == "health_test.yaml")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// What a file of YAML holds; `None`, with a line on standard error, if it cannot be read.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let content: Result<T, Failure> = std::fs::read_to_string(path)
        .map_err(Failure::from)
        .and_then(|text| Ok(serde_saphyr::from_str(&text)?));
    match content {
        Ok(content) => Some(content),
        Err(failure) => {
            eprintln!("{}: {failure}, left out", path.display());
            None
        }
    }
}
