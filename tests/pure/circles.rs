//! No files and no folders import each other in a circle, neither directly nor through others.
//!
//! Cargo ensures this between crates; this test checks the files of each crate, and the rooms of
//! each folder of modules. A file imports another one if it names an item that the other one
//! defines; a `pub use` only re-exports. The rooms of a folder are the module's file, and each of
//! its children with all below it. Tests and fakes may import anything.

#![allow(clippy::unwrap_used, reason = "a test")]

mod imports;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use imports::{Crate, Imports};

/// Imports that still make a circle of rooms: the crate, and the import.
///
/// Only remove lines: turn the import around, or move the item.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/clusters", "connect -> source"),
    ("crates/clusters", "fetch -> source"),
    ("crates/clusters", "proxy -> connect"),
    ("crates/clusters", "source -> shared"),
    ("crates/store", "bulk -> opensearch"),
    ("crates/store", "memory -> memory::revisions"),
    ("crates/store", "opensearch::engine -> opensearch::feed"),
    ("crates/store", "opensearch::engine -> opensearch::indices"),
    ("crates/store", "opensearch::engine -> opensearch::read"),
    ("crates/store", "opensearch::engine -> opensearch::sharing"),
    ("crates/store", "opensearch::indices -> opensearch::sharing"),
    (
        "crates/store",
        "opensearch::revisions -> opensearch::sharing",
    ),
];

#[test]
fn no_files_import_each_other_in_a_circle() {
    let files: usize = CRATES.values().map(Crate::files).sum();
    assert!(files > 400, "only {files} files: have they moved?");
    let mut found = Vec::new();
    for (name, of_crate) in &*CRATES {
        let circles = circles(&of_crate.imports());
        found.extend(circles.iter().map(|circle| format!("{name}: {circle}")));
    }
    assert_eq!(found, [""; 0], "files import each other");
}

#[test]
fn no_rooms_import_each_other_in_a_circle() {
    let mut found = Vec::new();
    let mut needless = Vec::new();
    for (name, of_crate) in &*CRATES {
        let exceptions = EXCEPTIONS.iter().filter(|(of, _)| of == name);
        let exceptions: Vec<&str> = exceptions.map(|(_, import)| *import).collect();
        let imports = of_crate.imports();
        let report = RoomReport::new(&rooms(&imports), &exceptions);
        found.extend(
            report
                .circles
                .iter()
                .map(|circle| format!("{name}: {circle}")),
        );
        needless.extend(
            report
                .needless
                .iter()
                .map(|import| format!("{name}: {import}")),
        );
    }
    assert_eq!(found, [""; 0], "rooms import each other");
    assert_eq!(needless, [""; 0], "exceptions to remove");
}

#[test]
fn circles_are_found_through_other_files_and_reexports() {
    let found = |files: &[(&str, &str)]| circles(&Crate::of(files).imports());
    let apart = [
        ("", "pub mod a; pub mod b; pub use a::A;"),
        ("a", "pub struct A;"),
        (
            "b",
            "use crate::A; #[cfg(test)] mod tests { use super::*; }",
        ),
    ];
    assert_eq!(found(&apart), [""; 0]);
    let direct = [
        ("a", "use super::b::B; pub struct A;"),
        ("b", "pub struct B; fn f() -> crate::a::A { todo!() }"),
    ];
    assert_eq!(found(&direct), ["a -> b, b -> a"]);
    let reexported = [
        ("", "pub use a::A; pub use c::C;"),
        ("a", "use crate::b; pub struct A; fn f() { b::f() }"),
        ("b", "use super::{C, a}; pub fn f() {}"),
        ("c", "pub struct C(crate::A);"),
    ];
    assert_eq!(found(&reexported), ["a -> b, b -> c, c -> a"]);
    let parent = [
        ("p", "mod child; use child::Child; pub struct Parent;"),
        ("p::child", "use super::Parent; pub struct Child;"),
    ];
    assert_eq!(found(&parent), ["p -> p::child, p::child -> p"]);
}

#[test]
fn circles_are_found_through_names_that_a_file_reexports_and_uses() {
    let found = |parent: &str| {
        let child = "use super::LIFETIME; pub struct Key; pub fn key() -> Key { Key }";
        circles(&Crate::of(&[("p", parent), ("p::child", child)]).imports())
    };
    let circle = ["p -> p::child, p::child -> p"];
    let own = "mod child; pub use child::{Key, key}; pub const LIFETIME: u8 = 1;";
    assert_eq!(found(own), [""; 0]);
    for using in [
        "fn f(key: &Key) {}",
        "fn f() { Key::default(); }",
        "fn f() -> Vec<Key> { Vec::new() }",
        "fn f() { key(); }",
    ] {
        assert_eq!(found(&format!("{own} {using}")), circle, "{using}");
    }
    for apart in [
        "fn f(key: u8) -> u8 { key }",
        "#[cfg(test)] fn f(key: &Key) {}",
        "mod inner { struct Key; fn f(key: &Key) {} }",
    ] {
        assert_eq!(found(&format!("{own} {apart}")), [""; 0], "{apart}");
    }
}

#[test]
fn circles_of_rooms_are_found_and_exceptions_that_none_needs() {
    let report = |files: &[(&str, &str)], exceptions: &[&str]| {
        let of_crate = Crate::of(files);
        RoomReport::new(&rooms(&of_crate.imports()), exceptions)
    };
    let apart = [
        ("a", "mod x; mod y; pub use x::X;"),
        ("a::x", "pub struct X;"),
        ("a::y", "use crate::b::B; use super::X;"),
        ("b", "pub struct B;"),
    ];
    assert_eq!(report(&apart, &[]), RoomReport::default());
    let folders = [
        ("a::x", "pub struct X;"),
        ("a::y", "use crate::b::B;"),
        ("b", "mod z; pub struct B;"),
        ("b::z", "fn f(x: crate::a::x::X) {}"),
    ];
    assert_eq!(report(&folders, &[]).circles, ["a -> b, b -> a"]);
    assert_eq!(report(&folders, &["b -> a"]), RoomReport::default());
    let unneeded = report(&folders, &["b -> a", "a -> b", "b -> c"]);
    assert_eq!(unneeded.needless, ["b -> a", "a -> b", "b -> c"]);
    let parent = [
        ("p", "mod a; pub struct P; fn f(a: a::A) {}"),
        ("p::a", "mod deep; pub struct A;"),
        ("p::a::deep", "fn f(p: crate::p::P) {}"),
    ];
    assert_eq!(report(&parent, &[]).circles, ["p -> p::a, p::a -> p"]);
}

/// The crates of the workspace, by their folders.
static CRATES: LazyLock<BTreeMap<String, Crate>> = LazyLock::new(crates);

fn crates() -> BTreeMap<String, Crate> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = ["crates", "libraries", "tools"]
        .into_iter()
        .flat_map(|wing| fs::read_dir(root.join(wing)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.extend(["", "fakes", "simulation", "e2e"].map(|folder| root.join(folder)));
    let read = |folder: PathBuf| {
        let name = folder.strip_prefix(root).unwrap().display().to_string();
        (name, Crate::read(&folder.join("src")))
    };
    folders.into_iter().map(read).collect()
}

/// Imports between the rooms of each folder.
fn rooms<'m>(imports: &Imports<'m>) -> BTreeMap<&'m [String], Imports<'m>> {
    let mut folders: BTreeMap<&[String], Imports> = BTreeMap::new();
    for (from, targets) in imports {
        for to in targets {
            let same = from.iter().zip(*to).take_while(|(a, b)| a == b).count();
            let room = |module: &'m [String]| &module[..module.len().min(same + 1)];
            let folder = folders.entry(&from[..same]).or_default();
            folder.entry(room(to)).or_default();
            folder.entry(room(from)).or_default().insert(room(to));
        }
    }
    folders
}

/// What is wrong between the rooms of a crate.
#[derive(Debug, Default, PartialEq)]
struct RoomReport {
    circles: Vec<String>,
    /// Exceptions without which no circle would be.
    needless: Vec<String>,
}

impl RoomReport {
    fn new(folders: &BTreeMap<&[String], Imports>, exceptions: &[&str]) -> Self {
        let mut report = Self::default();
        let mut unused = exceptions.to_vec();
        for imports in folders.values() {
            let mut remaining = imports.clone();
            let mut excepted = Vec::new();
            for (from, targets) in &mut remaining {
                excepted.extend(
                    targets
                        .extract_if(.., |to| exceptions.contains(&step(from, to).as_str()))
                        .map(|to| (*from, to)),
                );
            }
            report.circles.extend(circles(&remaining));
            for (from, to) in excepted {
                if shortest_path(to, from, &remaining).is_some() {
                    unused.retain(|import| *import != step(from, to));
                }
            }
        }
        report.needless = unused.into_iter().map(str::to_owned).collect();
        report
    }
}

/// Circles, each as the shortest path from its first module back to it.
fn circles(imports: &Imports) -> Vec<String> {
    let mut reported = BTreeSet::new();
    let mut circles = Vec::new();
    for module in imports.keys() {
        if reported.contains(module) {
            continue;
        }
        if let Some(path) = shortest_path(module, module, imports) {
            let steps = path.windows(2).map(|pair| step(pair[0], pair[1]));
            circles.push(steps.collect::<Vec<_>>().join(", "));
            reported.extend(path);
        }
    }
    circles
}

fn step(from: &[String], to: &[String]) -> String {
    format!("{} -> {}", name_of(from), name_of(to))
}

fn name_of(module: &[String]) -> String {
    if module.is_empty() {
        "the root".to_owned()
    } else {
        module.join("::")
    }
}

/// The shortest path of imports from one module to another one, or back to itself.
fn shortest_path<'m>(
    from: &'m [String],
    to: &[String],
    imports: &Imports<'m>,
) -> Option<Vec<&'m [String]>> {
    let mut paths = vec![vec![from]];
    let mut seen = BTreeSet::new();
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            for next in &imports[path[path.len() - 1]] {
                let mut path = path.clone();
                path.push(*next);
                if *next == to {
                    return Some(path);
                }
                if seen.insert(*next) {
                    longer.push(path);
                }
            }
        }
        paths = longer;
    }
    None
}
