//! The CRDs under `crds/` are generated from the Rust types.
//!
//! `make crds` writes them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
};

use fleetdex_cli::crd;
use fleetdex_crds::policy::validation::{invalid_override, invalid_propagation};
use serde_json::Value;

const REGENERATE: &str = "regenerate it with `make crds`";

#[test]
fn committed_crds_are_generated_from_the_types() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("crds");
    let mut expected = BTreeSet::new();
    for file in crd::all() {
        let path = folder.join(&file.file);
        let yaml = file.yaml().unwrap();
        if env::var_os("FLEETDEX_WRITE_CRDS").is_some() {
            fs::write(&path, &yaml).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == yaml,
            "{} is not what the types in crates/crds say; {REGENERATE}",
            path.display()
        );
        expected.insert(file.file);
    }
    let present: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        present,
        expected,
        "{} holds a file that no type stands for",
        folder.display()
    );
}

#[test]
fn the_yaml_reads_back_as_the_same_crd() {
    for file in crd::all() {
        let read: serde_json::Value = serde_saphyr::from_str(&file.yaml().unwrap()).unwrap();
        assert_eq!(
            read,
            serde_json::to_value(&file.crd).unwrap(),
            "{}",
            file.file
        );
    }
}

#[test]
fn crd_prints_every_crd() {
    let mut printed = Vec::new();
    crd::print(&crd::all(), &mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    for file in crd::all() {
        assert!(printed.contains(&file.yaml().unwrap()), "{}", file.file);
    }
}

/// The hook of the chart has rights on exactly the CRDs that it applies.
#[test]
fn the_chart_names_every_crd_and_every_group() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let hook = fs::read_to_string(root.join("helm/fleetdex/templates/crds.yaml")).unwrap();
    let named = |ending: &str| -> BTreeSet<String> {
        let names = hook
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- "));
        let names = names.filter(|name| name.ends_with(ending) && !name.contains(' '));
        names.map(str::to_owned).collect()
    };
    let (mut expected, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for file in crd::all() {
        expected.insert(file.crd.metadata.name.clone().unwrap());
        for version in &file.crd.spec.versions {
            groups.insert(format!("{}.{}", version.name, file.crd.spec.group));
        }
    }
    expected.extend(groups);
    assert_eq!(named(".io"), expected);
}

#[derive(serde::Deserialize)]
struct Refusals {
    valid: BTreeMap<String, Value>,
    refused: Vec<Refusal>,
}

#[derive(serde::Deserialize)]
struct Refusal {
    kind: String,
    spec: serde_json::Map<String, Value>,
    error: String,
}

/// What is wrong with the spec of a policy, as it is found without an API server.
fn problems(kind: &str, spec: &Value) -> Vec<String> {
    let found = if kind.ends_with("PropagationPolicy") {
        invalid_propagation(&serde_json::from_value(spec.clone()).unwrap(), None)
    } else {
        invalid_override(&serde_json::from_value(spec.clone()).unwrap(), None)
    };
    found.iter().map(ToString::to_string).collect()
}

/// What the rules of the schemas refuse, and `fleetdex plan` and the controllers refuse as well.
#[test]
fn policies_are_refused_alike_with_and_without_an_api_server() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/distribution-refusals.yaml");
    let Refusals { valid, refused } =
        serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    for (kind, spec) in valid.iter().filter(|(kind, _)| kind.ends_with("Policy")) {
        assert_eq!(problems(kind, spec), [""; 0], "{kind}");
    }
    let mut compared = 0;
    for Refusal { kind, spec, error } in refused {
        // Only the schema knows which fields there are, and which of them have to be there.
        let is_of_schema = ["Required value", "unknown field", "priorityClassSource"]
            .iter()
            .any(|part| error.contains(part));
        if is_of_schema || !kind.ends_with("Policy") {
            continue;
        }
        let mut whole = valid[&kind].clone();
        for (member, value) in spec {
            whole[member] = value;
        }
        assert_ne!(problems(&kind, &whole), [""; 0], "{whole} {error}");
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}
