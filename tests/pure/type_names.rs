//! Type names are unique: each struct, enum, trait and type alias of the product has a different
//! name.
//!
//! Tests and types inside functions may use any name.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeMap, fs, path::Path};

use syn::{Attribute, Item};

#[test]
fn every_type_name_is_defined_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src")];
    for wing in ["crates", "libraries", "tools"] {
        for entry in fs::read_dir(root.join(wing)).unwrap() {
            folders.push(entry.unwrap().path().join("src"));
        }
    }
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !is_test(&path) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test(&path)
            {
                let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
                let shown = path.strip_prefix(root).unwrap().display().to_string();
                collect(&file.items, &shown, &mut definitions);
            }
        }
    }
    assert!(
        definitions.len() > 700,
        "only {} types: have they moved?",
        definitions.len()
    );
    let repeated: Vec<String> = definitions
        .iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| format!("{name}: {}", files.join(", ")))
        .collect();
    assert!(
        repeated.is_empty(),
        "type names that are defined more than once:\n{}",
        repeated.join("\n")
    );
}

fn is_test(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_string_lossy();
    name == "tests" || name.ends_with("_tests")
}

fn collect(items: &[Item], file: &str, definitions: &mut BTreeMap<String, Vec<String>>) {
    for item in items {
        let name = match item {
            Item::Struct(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Mod(item) if !item.attrs.iter().any(is_cfg_test) => {
                if let Some((_, items)) = &item.content {
                    collect(items, file, definitions);
                }
                continue;
            }
            _ => continue,
        };
        definitions
            .entry(name.to_string())
            .or_default()
            .push(file.to_owned());
    }
}

fn is_cfg_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Path>()
            .is_ok_and(|condition| condition.is_ident("test"))
}
