//! Runs the health scripts of a checkout of Argo CD on the objects of their tests, and prints where
//! an answer differs.
//!
//! ```sh
//! cargo run --release -p fleetdex-interpreter --example argocd_scripts -- path/to/argo-cd
//! ```
//!
//! The script of an object is chosen as Argo CD chooses it: by the folder of its group and kind, in
//! which `_` stands for `*`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use fleetdex_interpreter::{
    health::{Assessment, Health},
    script::HealthScript,
    value,
};
use serde::Deserialize;
use serde_json::Value;

/// `health_test.yaml`
#[derive(Deserialize)]
struct TestFile {
    #[serde(default)]
    tests: Vec<TestCase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestCase {
    input_path: String,
    health_status: Expected,
}

#[derive(Deserialize)]
struct Expected {
    status: String,
    #[serde(default)]
    message: String,
}

/// A script with the group and kind of its folder.
struct Folder {
    group: String,
    kind: String,
    script: Result<HealthScript, String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let checkout = std::env::args()
        .nth(1)
        .ok_or("usage: argocd_scripts PATH_OF_ARGO_CD")?;
    let root = Path::new(&checkout).join("resource_customizations");
    let folders = folders(&root)?;
    let (mut equal, mut different) = (0, 0);
    for test_file in files(&root, "health_test.yaml")? {
        let tests: TestFile = serde_saphyr::from_str(&std::fs::read_to_string(&test_file)?)?;
        for case in tests.tests {
            let input = test_file.with_file_name("").join(&case.input_path);
            match compare(&folders, &input, &case.health_status) {
                Ok(()) => equal += 1,
                Err(difference) => {
                    different += 1;
                    println!("{}: {difference}", input.display());
                }
            }
        }
    }
    println!(
        "{} scripts, {equal} cases equal, {different} different",
        folders.len()
    );
    Ok(())
}

fn compare(folders: &[Folder], input: &Path, expected: &Expected) -> Result<(), String> {
    let text = std::fs::read_to_string(input).map_err(|error| error.to_string())?;
    let object: Value = serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
    let folder = folder_of(
        folders,
        value::group(&object),
        value::text(&object, &["kind"]),
    )
    .ok_or("no script")?;
    let script = folder.script.as_ref().map_err(Clone::clone)?;
    let assessed = script.run(&object);
    let wanted = Health::from_word(&expected.status)
        .map(|health| Assessment::new(health, "", &expected.message));
    if assessed == wanted {
        return Ok(());
    }
    Err(format!("expected {wanted:?}, got {assessed:?}"))
}

/// The folder of exactly this name, else the first one with wildcards that matches.
fn folder_of<'f>(folders: &'f [Folder], group: &str, kind: &str) -> Option<&'f Folder> {
    let exact = folders
        .iter()
        .find(|folder| folder.group == group && folder.kind == kind);
    exact.or_else(|| {
        folders
            .iter()
            .find(|folder| matches(&folder.group, group) && matches(&folder.kind, kind))
    })
}

/// Whether a name matches a folder's name with at most one wildcard.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('_') {
        None => pattern == name,
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

fn folders(root: &Path) -> std::io::Result<Vec<Folder>> {
    let mut folders = BTreeMap::new();
    for path in files(root, "health.lua")? {
        let text = std::fs::read_to_string(&path)?;
        let script = HealthScript::compile(&text).map_err(|error| error.to_string());
        if let Err(error) = &script {
            println!("{}: {error}", path.display());
        }
        let folder = path.with_file_name("");
        let mut names = folder
            .strip_prefix(root)
            .unwrap_or(&folder)
            .iter()
            .map(|name| name.to_string_lossy().into_owned());
        let (first, second) = (names.next().unwrap_or_default(), names.next());
        // The core group has no folder.
        let (group, kind) = match second {
            Some(kind) => (first, kind),
            None => (String::new(), first),
        };
        folders.insert(
            folder.clone(),
            Folder {
                group,
                kind,
                script,
            },
        );
    }
    Ok(folders.into_values().collect())
}

/// The files of a name below a folder, sorted.
fn files(root: &Path, name: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().is_some_and(|found| found == name) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
