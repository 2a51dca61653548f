//! No files import each other in a circle, neither directly nor through others.
//!
//! Cargo ensures this between crates; this test checks the files of each crate. A file imports
//! another one if it names an item that the other one defines; a `pub use` only re-exports. Tests
//! and fakes may import anything.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{Attribute, ItemMod, ItemUse, UseTree, Visibility, visit::Visit};

/// `model::document` is `["model", "document"]`; the root of a crate is empty.
type Module = Vec<String>;

/// The modules of one crate that have a file of their own.
#[derive(Default)]
struct Crate {
    sources: BTreeMap<Module, Source>,
}

/// Paths of its own crate that a file names.
#[derive(Default)]
struct Source {
    /// Used paths, from the root of the crate.
    used: BTreeSet<Module>,
    /// Re-exported paths, by their new names.
    reexported: BTreeMap<String, Module>,
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = ["crates", "libraries", "tools"]
        .into_iter()
        .flat_map(|wing| fs::read_dir(root.join(wing)).unwrap())
        .map(|entry| entry.unwrap().path().join("src"))
        .collect();
    folders
        .extend(["src", "fakes/src", "simulation/src", "e2e/src"].map(|folder| root.join(folder)));
    let mut files = 0;
    let mut circles = Vec::new();
    for folder in folders {
        let of_crate = Crate::read(&folder);
        files += of_crate.sources.len();
        let name = folder.strip_prefix(root).unwrap().display();
        circles.extend(
            of_crate
                .circles()
                .into_iter()
                .map(|circle| format!("{name}: {circle}")),
        );
    }
    assert!(files > 400, "only {files} files: have they moved?");
    assert!(
        circles.is_empty(),
        "files import each other:\n{}",
        circles.join("\n")
    );
}

#[test]
fn circles_are_found_through_other_files_and_reexports() {
    let found = |files: &[(&str, &str)]| Crate::of(files).circles();
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
        Crate::of(&[("p", parent), ("p::child", child)]).circles()
    };
    let circle = ["p -> p::child, p::child -> p"];
    let own = "mod child; pub use child::{Key, key}; pub const LIFETIME: u8 = 1;";
    assert_eq!(found(own), [""; 0]);
    for using in [
        "fn f(key: &Key) {}",
        "fn f() { Key::default(); }",
        "fn f() -> Vec<Key> { Vec::new() }",
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

impl Crate {
    fn read(folder: &Path) -> Self {
        let mut texts = BTreeMap::new();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(&next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    // Programs in `bin` are separate crates.
                    if !path.ends_with("bin") {
                        folders.push(path);
                    }
                } else if let Some(module) = module_of(path.strip_prefix(folder).unwrap()) {
                    texts.insert(module, fs::read_to_string(&path).unwrap());
                }
            }
        }
        Self::from_texts(texts)
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let modules = files
            .iter()
            .map(|(name, text)| (split(name), (*text).to_owned()));
        Self::from_texts(modules.collect())
    }

    fn from_texts(texts: BTreeMap<Module, String>) -> Self {
        let modules: BTreeSet<Module> = texts.keys().cloned().collect();
        let read = |(module, text): (Module, String)| {
            let mut reader = Reader {
                modules: &modules,
                module: module.clone(),
                inside: 0,
                imported: BTreeMap::new(),
                source: Source::default(),
            };
            let file = syn::parse_file(&text).unwrap();
            // Imports first: paths may begin with imported names.
            for item in &file.items {
                if let syn::Item::Use(item) = item {
                    reader.visit_item_use(item);
                }
            }
            reader.visit_file(&file);
            (module, reader.source)
        };
        Self {
            sources: texts.into_iter().map(read).collect(),
        }
    }

    /// Circles, each as the shortest path from its first file back to it.
    fn circles(&self) -> Vec<String> {
        let edges: BTreeMap<&Module, BTreeSet<&Module>> = self
            .sources
            .iter()
            .map(|(module, source)| {
                let homes = source
                    .used
                    .iter()
                    .filter_map(|path| self.defining_module(path, 0));
                (
                    module,
                    homes
                        .filter(|defining_module| *defining_module != module)
                        .collect(),
                )
            })
            .collect();
        let mut reported = BTreeSet::new();
        let mut circles = Vec::new();
        for module in self.sources.keys() {
            if reported.contains(module) {
                continue;
            }
            if let Some(path) = shortest_circle(module, &edges) {
                let steps = path
                    .windows(2)
                    .map(|step| format!("{} -> {}", name_of(step[0]), name_of(step[1])));
                circles.push(steps.collect::<Vec<_>>().join(", "));
                reported.extend(path);
            }
        }
        circles
    }

    /// The file that defines what a path names.
    fn defining_module(&self, path: &[String], passes: usize) -> Option<&Module> {
        let length = (0..=path.len())
            .rev()
            .find(|length| self.sources.contains_key(&path[..*length]))?;
        let (module, source) = self.sources.get_key_value(&path[..length])?;
        let reexported = path
            .get(length)
            .and_then(|name| source.reexported.get(name))
            .filter(|_| passes < 8);
        match reexported {
            Some(target) => {
                let whole = [target.as_slice(), &path[length + 1..]].concat();
                self.defining_module(&whole, passes + 1)
            }
            None => Some(module),
        }
    }
}

fn name_of(module: &Module) -> String {
    if module.is_empty() {
        "the root".to_owned()
    } else {
        module.join("::")
    }
}

/// The shortest path from a file back to itself.
fn shortest_circle<'m>(
    from: &'m Module,
    edges: &BTreeMap<&'m Module, BTreeSet<&'m Module>>,
) -> Option<Vec<&'m Module>> {
    let mut paths = vec![vec![from]];
    let mut seen = BTreeSet::new();
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            for next in &edges[path[path.len() - 1]] {
                let mut path = path.clone();
                path.push(*next);
                if *next == from {
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

/// Collects the paths that a file names.
struct Reader<'m> {
    modules: &'m BTreeSet<Module>,
    /// The current module: the file's module, and modules within the file.
    module: Module,
    /// Depth of modules within the file.
    inside: usize,
    /// Imported modules, by their local names.
    imported: BTreeMap<String, Module>,
    source: Source,
}

impl Reader<'_> {
    /// A path from the root of the crate; `None` for one of another crate.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let mut base = self.module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    base.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                if let Some(imported) = self.imported.get(first) {
                    return Some([imported.as_slice(), &path[1..]].concat());
                }
                let child = [self.module.as_slice(), &[first.to_owned()]].concat();
                self.modules.get(&child)?;
            }
        }
        Some([base.as_slice(), rest].concat())
    }
}

impl Reader<'_> {
    /// The home of a name that the file re-exports and uses itself. Types and constants only: a name
    /// in lower case may be a variable's.
    fn reexported(&self, path: &[String]) -> Option<Module> {
        let name = path.first()?;
        let is_in_scope = self.inside == 0 && name.starts_with(char::is_uppercase);
        let target = self.source.reexported.get(name).filter(|_| is_in_scope)?;
        Some([target.as_slice(), &path[1..]].concat())
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if !attributes_of(item).iter().any(is_for_tests) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !item.attrs.iter().any(is_for_tests) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if item.content.is_some() {
            self.module.push(item.ident.to_string());
            self.inside += 1;
            syn::visit::visit_item_mod(self, item);
            self.inside -= 1;
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if item.attrs.iter().any(is_for_tests) {
            return;
        }
        let is_passed_on = self.inside == 0 && !matches!(item.vis, Visibility::Inherited);
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        for (path, name) in leaves {
            let Some(target) = self.absolute(&path) else {
                continue;
            };
            if is_passed_on {
                self.source.reexported.insert(name, target);
            } else if name != "*" && self.modules.contains(&target) {
                // Only the paths below it count.
                self.imported.insert(name, target);
            } else {
                self.source.used.insert(target);
            }
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if path.leading_colon.is_none() {
            match self.reexported(&parts) {
                Some(target) => self.source.used.extend([target]),
                None if parts.len() > 1 => self.source.used.extend(self.absolute(&parts)),
                None => {}
            }
        }
        syn::visit::visit_path(self, path);
    }
}

/// The paths of a `use`, each with its local name.
fn flatten(tree: &UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, String)>) {
    let whole = |prefix: &[String], name: String| -> Vec<String> {
        if name == "self" && !prefix.is_empty() {
            prefix.to_vec()
        } else {
            [prefix, &[name]].concat()
        }
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, leaves);
            prefix.pop();
        }
        UseTree::Name(name) => {
            let path = whole(prefix, name.ident.to_string());
            let last = path.last().cloned().unwrap_or_default();
            leaves.push((path, last));
        }
        UseTree::Rename(rename) => {
            let path = whole(prefix, rename.ident.to_string());
            leaves.push((path, rename.rename.to_string()));
        }
        UseTree::Glob(_) => leaves.push((prefix.clone(), "*".to_owned())),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, leaves);
            }
        }
    }
}

/// The module of a file, by its path below `src`; `None` for other files and for tests.
fn module_of(file: &Path) -> Option<Module> {
    let mut module: Module = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let last = module.last()?.clone();
    let is_for_tests =
        last.ends_with("tests") || last == "fake" || module.iter().any(|part| part == "tests");
    if file.extension()? != "rs" || is_for_tests {
        return None;
    }
    let is_root = module.len() == 1 && (last == "lib" || last == "main");
    if is_root && last == "main" {
        return None;
    }
    if is_root || last == "mod" {
        module.pop();
    }
    Some(module)
}

fn split(name: &str) -> Module {
    name.split("::")
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// `#[cfg(test)]`, and code for the tests of other crates.
fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.meta.require_list().is_ok_and(|list| {
            let text = list.tokens.to_string();
            text == "test" || text.contains("\"testing\"")
        })
}

fn attributes_of(item: &syn::Item) -> &[Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
