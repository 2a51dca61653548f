//! The CRDs under `crds/` are generated from the Rust types.
//!
//! `make crds` writes them.

use std::{collections::BTreeSet, env, fs, path::Path};

use fleetdex_cli::crd;

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
    crd::print(&mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    for file in crd::all() {
        assert!(printed.contains(&file.yaml().unwrap()), "{}", file.file);
    }
}
