//! The imports between the files of a crate.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::{Attribute, ItemMod, ItemUse, UseTree, Visibility, visit::Visit};

/// `model::document` is `["model", "document"]`; the root of a crate is empty.
pub(super) type Module = Vec<String>;

/// The modules that each module imports.
pub(super) type Imports<'m> = BTreeMap<&'m [String], BTreeSet<&'m [String]>>;

/// The modules of one crate that have a file of their own.
#[derive(Default)]
pub(super) struct Crate {
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

impl Crate {
    pub(super) fn read(folder: &Path) -> Self {
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

    pub(super) fn of(files: &[(&str, &str)]) -> Self {
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

    pub(super) fn files(&self) -> usize {
        self.sources.len()
    }

    /// The files that each file imports.
    pub(super) fn imports(&self) -> Imports<'_> {
        let imports = self.sources.iter().map(|(module, source)| {
            let homes = source
                .used
                .iter()
                .filter_map(|path| self.defining_module(path, 0));
            let others = homes.filter(|defining_module| *defining_module != module);
            (module.as_slice(), others.map(Vec::as_slice).collect())
        });
        imports.collect()
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
    /// The home of a name that the file re-exports and uses itself. A name in lower case may be a
    /// variable's, so of these only calls count.
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

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func
            && let Some(name) = function.path.get_ident()
            && let Some(target) = self.source.reexported.get(&name.to_string())
            && self.inside == 0
        {
            self.source.used.insert(target.clone());
        }
        syn::visit::visit_expr_call(self, call);
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
