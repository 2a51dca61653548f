//! Nothing from outside becomes a tree of values but within a reservation of the memory that it
//! takes: `fleetdex_limits::parsed`.
//!
//! This finds calls of `serde_json` that parse text into a `Value`, and types that are parsed and
//! have one. Both are allowed in the files below, each for its reason.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Files that parse values in another way, and why each may.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "crates/core/src/model/projection.rs",
        "redactions, within `ObjectRoom` on threads that index",
    ),
    (
        "crates/core/src/query.rs",
        "a position in a list, sealed by this server and bounded by the length of a token",
    ),
    (
        "crates/core/src/query/merge.rs",
        "a position in a list, sealed by this server and bounded by the length of a token",
    ),
    (
        "crates/crds/src/binding.rs",
        "a part of bindings, which are parsed elsewhere",
    ),
    (
        "crates/crds/src/binding/status.rs",
        "a part of bindings, which are parsed elsewhere",
    ),
    (
        "crates/crds/src/distribution/source.rs",
        "distributions, from the files of a command",
    ),
    (
        "crates/crds/src/policy/overrides.rs",
        "policies, from files and from the control plane, which bounds its objects",
    ),
    (
        "crates/distribution/src/object_text.rs",
        "what Fleetdex has made, or has parsed before",
    ),
    (
        "crates/distributor/src/reflector.rs",
        "one object at a time, of a page or a line that is reserved; what is kept is counted",
    ),
    (
        "crates/interpreter/src/health/builtin/availability.rs",
        "an annotation, which API servers bound to 256 KiB with all others; its values are strings",
    ),
    (
        "crates/interpreter/src/request.rs",
        "a part of types that are parsed elsewhere",
    ),
    (
        "crates/interpreter/src/webhook/message.rs",
        "answers of webhooks, which have a budget",
    ),
    (
        "crates/query-api/src/answer/explanation.rs",
        "parsed by the page, within the bound of a view, and by commands",
    ),
    (
        "crates/query-api/src/answer/table.rs",
        "parsed by the page, within the bound of a view, and by commands",
    ),
    (
        "crates/rendering/src/hooks.rs",
        "what a renderer prints, of which 32 MiB are read",
    ),
    (
        "crates/rendering/src/kept.rs",
        "a kept rendering, of which what it takes is counted before",
    ),
    (
        "crates/rendering/src/rendered.rs",
        "what a renderer prints, of which 32 MiB are read",
    ),
    ("crates/server/src/auth/shared_secret.rs", "a test server"),
    (
        "crates/server/src/proxying/body.rs",
        "`DeleteOptions` of 8 KiB at most",
    ),
    (
        "crates/server/src/read/merged/member_object.rs",
        "counted by `MergeMemory`, which reserves it",
    ),
    (
        "crates/server/src/read/interpretation/body.rs",
        "parsed by `ReservedJson`",
    ),
    (
        "crates/store/src/opensearch/read/aggregate.rs",
        "keys of groups, in a response of the store within its budget",
    ),
    (
        "crates/store/src/opensearch/connection/client.rs",
        "an error of the store, of which a mebibyte is read",
    ),
    (
        "crates/store/src/opensearch/indices/settings_update.rs",
        "settings of an index, which the store bounds",
    ),
    (
        "crates/store/src/opensearch/indices/surveyed_index.rs",
        "an alias, which this program wrote",
    ),
    ("crates/ui/src/query.rs", "an error of this server"),
    (
        "crates/ui/src/stored_object.rs",
        "an answer of this server, within the bound of a view",
    ),
    (
        "crates/webhooks/src/client/refusal.rs",
        "the refusal of a webhook, of which a few KiB are read",
    ),
];

#[test]
fn json_of_others_is_parsed_within_a_reservation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    for file in sources(root) {
        let text = fs::read_to_string(&file).unwrap();
        if !parsed_values(&text).is_empty() {
            let name = file.strip_prefix(root).unwrap();
            found.insert(name.to_str().unwrap().to_owned());
        }
    }
    let allowed: BTreeSet<String> = EXCEPTIONS
        .iter()
        .map(|(file, _)| (*file).to_owned())
        .collect();
    let new: Vec<&String> = found.difference(&allowed).collect();
    assert!(
        new.is_empty(),
        "these parse a `Value` without a reservation; use `fleetdex_limits::parsed`, or `JsonTree` or `JsonScanner` on the text: {new:#?}"
    );
    let gone: Vec<&String> = allowed.difference(&found).collect();
    assert!(
        gone.is_empty(),
        "these need no exception any more: {gone:#?}"
    );
}

#[test]
fn values_are_found_however_they_are_parsed() {
    for parses in [
        "let a = serde_json::from_slice::<Value>(body)?;",
        "let a: Value = serde_json::from_str(text)?;",
        "let mut a: Option<serde_json::Value> = serde_json::from_slice(body).ok();",
        "let all: Vec<Map<String, Value>> =\n    serde_json::from_str(text)?;",
        "let a = Deserializer::from_str(text).into_iter::<Value>();",
        "fn a() -> Result<Value, Error> {\n    serde_json::from_slice(body)\n}",
        "#[derive(Debug, Deserialize)]\nstruct Body {\n    object: Option<Value>,\n}",
    ] {
        assert!(!parsed_values(parses).is_empty(), "{parses}");
    }
    for other in [
        "let a: Head<'_> = serde_json::from_str(text)?;",
        "let a: Box<RawValue> = serde_json::from_str(text)?;",
        "let a: Value = serde_json::to_value(b)?;",
        "#[derive(Serialize)]\nstruct Body {\n    object: Value,\n}",
        "// serde_json::from_slice::<Value>(body)",
        "#[cfg(test)]\nmod tests {\n    let a: Value = serde_json::from_str(text).unwrap();\n}",
    ] {
        assert!(parsed_values(other).is_empty(), "{other}");
    }
}

/// Crates that are not part of the server: commands of a user, who asks for what they read, and a
/// library for other programs.
const COMMANDS: [&str; 6] = [
    "cli",
    "dashboards-commands",
    "distribution-commands",
    "interpreter-sdk",
    "interpreter-workbench",
    "migrate",
];

/// The sources of the server, without files of tests only.
fn sources(root: &Path) -> Vec<PathBuf> {
    let wings = ["crates", "libraries", "tools"].into_iter();
    let crates = wings.flat_map(|wing| fs::read_dir(root.join(wing)).unwrap());
    let crates = crates.map(|entry| entry.unwrap().path());
    let serving = crates.filter(|folder| !COMMANDS.iter().any(|name| folder.ends_with(name)));
    let mut folders: Vec<PathBuf> = serving.map(|folder| folder.join("src")).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_str().unwrap();
            if path.is_dir() && name != "tests" && name != "fake" {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !matches!(name, "tests.rs" | "fake.rs" | "test_server.rs")
            {
                files.push(path);
            }
        }
    }
    files
}

/// The statements and types of a source that parse values.
fn parsed_values(source: &str) -> Vec<String> {
    let production = source.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let lines = production
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//"));
    let code = lines.collect::<Vec<_>>().join(" ");
    let statements = code
        .split([';', '{'])
        .filter(|statement| parses_a_value(statement));
    let functions = code.split("fn ").filter(|function| {
        let (head, body) = function.split_once('{').unwrap_or_default();
        let returned = head.split_once("->").map_or("", |(_, returned)| returned);
        names_value(returned) && parses(body) && !body.contains("let ")
    });
    let types = code.split("#[derive(").skip(1).filter(|item| {
        let (derived, rest) = item.split_once(')').unwrap_or_default();
        let body = rest.split_once('}').map_or("", |(body, _)| body);
        derived.contains("Deserialize") && names_value(body)
    });
    let found = statements.chain(functions).chain(types);
    found.map(str::to_owned).collect()
}

fn parses_a_value(statement: &str) -> bool {
    let declared = statement
        .split_once('=')
        .map_or("", |(declared, _)| declared);
    let turbofish = statement.split("::<").skip(1).any(|rest| {
        let parameters = rest.split('(').next().unwrap_or_default();
        names_value(parameters)
    });
    parses(statement) && (names_value(declared) || turbofish)
}

fn parses(code: &str) -> bool {
    [
        "serde_json::from_slice",
        "serde_json::from_str",
        "serde_json::from_reader",
        "Deserializer::from_",
    ]
    .iter()
    .any(|call| code.contains(call))
}

/// Whether a type has a `Value`, and not a `RawValue` or the like.
fn names_value(code: &str) -> bool {
    code.split(|character: char| !(character.is_alphanumeric() || character == '_'))
        .any(|word| word == "Value")
}
