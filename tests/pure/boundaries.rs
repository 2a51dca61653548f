//! The pure modules have no side effects: no runtime, client, socket, file or server.
//!
//! Cargo enforces this between crates; this test enforces it for pure modules of crates with I/O.
//! Unit tests inside a module may use anything.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Pure modules: a folder or a file under `crates`, without `.rs`.
const PURE_MODULES: &[&str] = &[
    "crds/src",
    "../libraries/clustercache/src/indexer",
    "clusters/src/discovery",
    "clusters/src/connection_state",
    "clusters/src/source/contexts",
    "clusters/src/source/history",
    "clusters/src/watch/event",
    "clusters/src/watch/machine",
    "core/src",
    "../tools/dashboards/src",
    "interpreter/src",
    "limits/src/fair_semaphore/queue",
    "crds/src/affinity",
    "crds/src/policy",
    "distribution/src",
    "operator/src/cluster_cache/status",
    "operator/src/completeness",
    "operator/src/interpreter_rules",
    "operator/src/lib",
    "operator/src/plan",
    "operator/src/selection",
    "operator/src/registry_status",
    "operator/src/stream_supervisor/retention",
    "query-api/src",
    "replicas/src/assignment",
    "search/src",
    "server/src/api_error",
    "server/src/auth/access_review",
    "server/src/auth/caller",
    "server/src/auth/continue_token/keys",
    "server/src/auth/identity",
    "server/src/http/listen/connection_limiter",
    "server/src/proxying/body",
    "server/src/proxying/protobuf",
    "server/src/render/discovery",
    "server/src/render/group_discovery",
    "server/src/render/representation",
    "server/src/render/table",
    "store/src/bulk",
    "store/src/explain",
    "store/src/opensearch/dsl",
    "store/src/opensearch/indices/index_settings",
    "store/src/opensearch/indices/index_template",
    "sync/src/audit/compare",
    "sync/src/filter",
    "sync/src/pending",
    "sync/src/relist",
];

/// Paths that they may not use. `kube`'s derive is pure, its client and runtime are not.
const FORBIDDEN: [&str; 16] = [
    "tokio",
    "tokio_util",
    "kube::Api",
    "kube::Client",
    "kube::client",
    "kube::runtime",
    "kube::api",
    "opensearch",
    "axum",
    "hyper",
    "hyper_util",
    "reqwest",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
];

#[test]
fn pure_modules_have_no_side_effects() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let mut faults = Vec::new();
    for module in PURE_MODULES {
        let files = files(&sources.join(module));
        assert!(!files.is_empty(), "{module} has no files: has it moved?");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            faults.extend(
                violations(&text)
                    .into_iter()
                    .map(|fault| format!("{}: {fault}", file.display())),
            );
        }
    }
    assert!(
        faults.is_empty(),
        "pure modules reach out:\n{}",
        faults.join("\n")
    );
}

#[test]
fn forbidden_names_are_found_however_they_are_imported() {
    for reaches_out in [
        "use tokio::sync::mpsc;",
        "use std::{fmt, fs, io};",
        "use std::{\n    collections::BTreeMap,\n    net::SocketAddr,\n};",
        "use kube::{Client, CustomResource};",
        "use kube::{CustomResource, runtime::{Controller, watcher}};",
        "fn read() { std::fs::read(\"a\").ok(); }",
        "pub use hyper as h;",
        "use ::opensearch::OpenSearch;",
    ] {
        assert!(!violations(reaches_out).is_empty(), "{reaches_out}");
    }
    for pure in [
        "use kube::{CustomResource, KubeSchema};",
        "use crate::store::opensearch::template::Template;",
        "// tokio::spawn would be wrong here\nuse std::fmt;",
        "//! unlike hyper::Body",
        "use std::{collections::BTreeMap, fmt};",
        "let text = \"tokio::spawn\";",
        "fn pure() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n",
    ] {
        assert_eq!(violations(pure), [""; 0], "{pure}");
    }
}

/// What only `query-api` writes: others use its constants and its questions.
const LANGUAGE: [&str; 3] = ["\"/apis/search.", "\"labelSelector\"", "as=Table"];
/// Those who write it for other APIs: lists of members, and the fields of dependencies.
const OTHER_LANGUAGES: [&str; 2] = [
    "clusters/src/watch/lister_watcher.rs",
    "interpreter/src/dependency.rs",
];

#[test]
fn only_the_query_api_spells_its_root_its_selectors_and_tables() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let mut spelled = Vec::new();
    let mut count = 0;
    for folder in fs::read_dir(&crates).unwrap() {
        for file in files(&folder.unwrap().path().join("src")) {
            let name = file.strip_prefix(&crates).unwrap().to_owned();
            let is_exempt = name.starts_with("query-api")
                || is_for_tests(&name)
                || OTHER_LANGUAGES.iter().any(|other| name == Path::new(other));
            let text = fs::read_to_string(&file).unwrap();
            let production = text.split("\nmod tests {").next().unwrap_or_default();
            count += 1;
            spelled.extend(
                LANGUAGE
                    .into_iter()
                    .filter(|words| !is_exempt && production.contains(words))
                    .map(|words| format!("{}: {words}", name.display())),
            );
        }
    }
    assert!(count > 300, "only {count} files: have they moved?");
    assert!(
        spelled.is_empty(),
        "use fleetdex_query_api:\n{}",
        spelled.join("\n")
    );
}

/// Where the names of the index's fields are defined.
const INDEX_FIELDS: &str = "core/src/model/index_fields.rs";
/// The fields of `search` that selectors name by the same words.
const SELECTABLE: [&str; 2] = ["healthReason", "interpretedBy"];

#[test]
fn the_fields_of_the_index_are_spelled_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = root.join("crates");
    let members = fs::read_to_string(crates.join(INDEX_FIELDS)).unwrap();
    let members = members.split("search_fields! {").nth(1).unwrap();
    let members: Vec<&str> = members
        .lines()
        .filter_map(|line| line.trim().split_once(" = \"")?.1.strip_suffix("\";"))
        .collect();
    assert!(members.len() > 20, "only {members:?}: have they moved?");
    let mut spelled = Vec::new();
    for file in files(&crates).into_iter().chain(files(&root.join("tools"))) {
        let name = file.strip_prefix(root).unwrap().to_owned();
        if name.ends_with(INDEX_FIELDS) || is_for_tests(&name) || !is_source(&name) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let production = text.split("#[cfg(test)]").next().unwrap_or_default();
        spelled.extend(
            index_fields_in(production, &members)
                .into_iter()
                .map(|literal| format!("{}: {literal}", name.display())),
        );
    }
    assert!(
        spelled.is_empty(),
        "use fleetdex_core::model::index_fields:\n{}",
        spelled.join("\n")
    );
}

/// The literals of a source that name fields of the index: paths below `search`, and names that
/// stand for nothing else. An attribute of serde cannot name a constant.
fn index_fields_in(source: &str, members: &[&str]) -> Vec<String> {
    let is_field = |literal: &&str| match literal.strip_prefix("search.") {
        Some(path) => members.iter().any(|member| {
            let rest = path.strip_prefix(member);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
        }),
        None => {
            let is_own = literal.contains(|letter: char| letter.is_ascii_uppercase());
            is_own && members.contains(literal) && !SELECTABLE.contains(literal)
        }
    };
    let lines = source.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.starts_with("//") && !line.starts_with("#["));
    code.flat_map(|line| line.split('"').skip(1).step_by(2).filter(is_field))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_field_of_the_index_is_found_wherever_it_is_spelled() {
    let members = ["resource", "labels", "labelKeys", "interpretedBy"];
    for spelled in [
        "term(\"search.labels\", value)",
        "let field = format!(\"search.labels.{key}\");",
        "json!({ \"labelKeys\": 1 })",
        "query: \"search.resource: pods\"",
    ] {
        assert!(!index_fields_in(spelled, &members).is_empty(), "{spelled}");
    }
    for other in [
        "\"search.karmada.io\"",
        "\"search.resources.limit\"",
        "// \"search.labels\"",
        "#[serde(rename = \"labelKeys\")]",
        "\"labels\"",
        "\"interpretedBy\"",
    ] {
        assert_eq!(index_fields_in(other, &members), [""; 0], "{other}");
    }
}

/// Whether a file is part of what is built, and not a test, a benchmark or an example.
fn is_source(file: &Path) -> bool {
    file.iter().any(|name| name == "src")
}

/// Fakes, and folders of tests.
fn is_for_tests(file: &Path) -> bool {
    let mut names = file.iter().filter_map(|name| name.to_str());
    names.any(|name| matches!(name, "tests" | "fake" | "fake.rs"))
}

/// The module's files: itself, and all below its folder. Files that hold only tests are left out.
fn files(module: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let file = module.with_extension("rs");
    if file.is_file() {
        found.push(file);
    }
    let mut folders = vec![module.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs")
            {
                found.push(path);
            }
        }
    }
    found
}

/// The forbidden paths that the production part of a source names.
fn violations(source: &str) -> Vec<&'static str> {
    let code = code_of(source);
    let mut paths = Vec::new();
    for statement in code.split(';') {
        match statement
            .trim_start()
            .strip_prefix("pub ")
            .unwrap_or(statement.trim_start())
            .strip_prefix("use ")
        {
            Some(tree) => expand("", tree.trim_start_matches("::"), &mut paths),
            None => paths.extend(inline_paths(statement)),
        }
    }
    FORBIDDEN
        .into_iter()
        .filter(|forbidden| paths.iter().any(|path| is_under(path, forbidden)))
        .collect()
}

fn is_under(path: &str, forbidden: &str) -> bool {
    path.strip_prefix(forbidden)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The source up to its tests, without comments and string contents. Every block and attribute ends
/// a statement.
fn code_of(source: &str) -> String {
    let production = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut code = String::new();
    for line in production.lines() {
        let line = line.trim();
        if line.starts_with("//") {
            continue;
        }
        for (index, part) in line.split('"').enumerate() {
            if index % 2 == 0 {
                code.push_str(part);
            }
        }
        code.push(
            if line.ends_with(['}', ']', '{']) && !code.ends_with(',') && !in_use(&code) {
                ';'
            } else {
                ' '
            },
        );
    }
    code
}

/// Whether the code so far ends inside a `use`.
fn in_use(code: &str) -> bool {
    let statement = code.rsplit(';').next().unwrap_or_default().trim_start();
    statement
        .strip_prefix("pub ")
        .unwrap_or(statement)
        .starts_with("use ")
}

/// Every path of a `use` tree: `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split_whitespace().next().unwrap_or_default();
        paths.push(format!("{prefix}{path}"));
        return;
    };
    let inner_prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = tree[open + 1..].trim_end().trim_end_matches('}');
    let (mut depth, mut start) = (0_i32, 0);
    for (position, character) in inner.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&inner_prefix, &inner[start..position], paths);
                start = position + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        expand(&inner_prefix, &balanced(&inner[start..]), paths);
    }
}

/// Restores closing braces that `trim_end_matches` removed in excess.
fn balanced(tree: &str) -> String {
    let open = tree.matches('{').count();
    let closed = tree.matches('}').count();
    format!("{tree}{}", "}".repeat(open.saturating_sub(closed)))
}

/// Paths with `::` in other code, such as `std::fs::read`.
fn inline_paths(code: &str) -> Vec<String> {
    code.split(|character: char| {
        !(character.is_alphanumeric() || character == '_' || character == ':')
    })
    .filter(|word| word.contains("::"))
    .map(|word| word.trim_start_matches("::").to_owned())
    .collect()
}
