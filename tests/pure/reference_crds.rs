//! docs/reference-crds.md is generated from the schemas of the custom resources.
//!
//! `make reference` writes it.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{env, fmt::Write as _, fs, path::Path};

use fleetdex_cli::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

const HEAD: &str = "# Custom resources

<!-- Generated from the schemas of the custom resources: `make reference` writes this page. -->

Every field of the custom resources that `fleetdex crd --distribute` prints, in paths of which `[]` is each item of a list and `{}` each value of a map. [Configuration](configuration.md), \
[ClusterCache](clustercache.md) and [operating](operating.md) explain them with examples; `kubectl explain` shows the same texts.
";

#[test]
fn the_page_of_custom_resources_is_generated_from_their_schemas() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference-crds.md");
    let expected = page();
    if env::var_os("FLEETDEX_WRITE_REFERENCE").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == expected,
        "{} is not what the schemas say; regenerate it with `make reference`",
        path.display()
    );
}

/// Kinds with one schema have one section: those that exist in several groups, and those that exist
/// with a namespace and without.
fn page() -> String {
    let mut page = HEAD.to_owned();
    let crds: Vec<CustomResourceDefinition> = crd::all().into_iter().map(|file| file.crd).collect();
    let mut sections: Vec<(Value, Vec<&CustomResourceDefinition>)> = Vec::new();
    for crd in &crds {
        let fields = schema_of(crd)["properties"].clone();
        match sections.iter_mut().find(|(known, _)| *known == fields) {
            Some((_, kinds)) => kinds.push(crd),
            None => sections.push((fields, vec![crd])),
        }
    }
    for (_, kinds) in sections {
        add_section(&mut page, &kinds);
    }
    page
}

/// The schema of its only version.
fn schema_of(crd: &CustomResourceDefinition) -> Value {
    let kind = &crd.spec.names.kind;
    assert_eq!(crd.spec.versions.len(), 1, "{kind} has several versions");
    let version = &crd.spec.versions[0];
    let schema = version.schema.as_ref().unwrap();
    serde_json::to_value(&schema.open_api_v3_schema).unwrap()
}

fn add_section(page: &mut String, crds: &[&CustomResourceDefinition]) {
    let mut kinds: Vec<&str> = crds.iter().map(|of| of.spec.names.kind.as_str()).collect();
    kinds.dedup();
    writeln!(page, "\n## {}\n", kinds.join(", ")).unwrap();
    let paragraphs: Vec<String> = kinds.iter().map(|kind| introduction(kind, crds)).collect();
    page.push_str(&paragraphs.join("\n"));
    page.push_str("\n| field | type | default | validation | meaning |\n|---|---|---|---|---|\n");
    add_fields(page, &schema_of(crds[0]), "");
}

/// Where a kind is served, and by which names.
fn introduction(kind: &str, crds: &[&CustomResourceDefinition]) -> String {
    let groups: Vec<&CustomResourceDefinition> = crds
        .iter()
        .copied()
        .filter(|of| of.spec.names.kind == kind)
        .collect();
    let served: Vec<String> = groups
        .iter()
        .map(|of| format!("`{}/{}`", of.spec.group, of.spec.versions[0].name))
        .collect();
    let spec = &groups[0].spec;
    let short = spec.names.short_names.iter().flatten();
    let short: Vec<String> = short.map(|name| format!("`{name}`")).collect();
    let also = if short.is_empty() {
        String::new()
    } else {
        format!(", short name {}", short.join(", "))
    };
    format!(
        "{}; plural `{}`{also}; {}. {}\n",
        served.join(", "),
        spec.names.plural,
        match spec.scope.as_str() {
            "Cluster" => "not in a namespace",
            _ => "in a namespace",
        },
        meaning(&schema_of(groups[0]))
    )
}

/// Rows of the properties of an object, each followed by its own.
fn add_fields(page: &mut String, object: &Value, parent: &str) {
    let required: Vec<&str> = object["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    for (name, schema) in object["properties"].as_object().into_iter().flatten() {
        let is_root = parent.is_empty();
        if is_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let path = if is_root {
            name.clone()
        } else {
            format!("{parent}.{name}")
        };
        writeln!(
            page,
            "| `{path}` | {} | {} | {} | {} |",
            type_of(schema),
            default_of(schema),
            validation(schema, required.contains(&name.as_str())),
            meaning(schema)
        )
        .unwrap();
        add_children(page, schema, &path);
    }
}

fn add_children(page: &mut String, schema: &Value, path: &str) {
    add_fields(page, schema, path);
    if schema["items"].is_object() {
        add_children(page, &schema["items"], &format!("{path}[]"));
    }
    if schema["additionalProperties"].is_object() {
        add_children(
            page,
            &schema["additionalProperties"],
            &format!("{path}{{}}"),
        );
    }
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    match schema["type"].as_str().unwrap_or("any") {
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&schema["additionalProperties"]))
        }
        name => match schema["format"].as_str() {
            Some("date-time") => "time".to_owned(),
            _ => name.to_owned(),
        },
    }
}

fn default_of(schema: &Value) -> String {
    match &schema["default"] {
        Value::Null => String::new(),
        value => format!("`{value}`"),
    }
}

/// What a value must be like, of the field itself and of the items of a list.
fn validation(schema: &Value, is_required: bool) -> String {
    let mut rules = Vec::new();
    if is_required {
        rules.push("required".to_owned());
    }
    rules.extend(limits(schema, ""));
    rules.extend(limits(&schema["items"], "each "));
    rules.extend(limits(&schema["additionalProperties"], "each "));
    rules.join("; ")
}

fn limits(schema: &Value, of: &str) -> Vec<String> {
    let bound = |name: &str, text: &str| {
        // Limits are numbers of JSON, such as 64.0.
        let value = schema[name].as_f64()?;
        Some(format!("{of}{text} {value}"))
    };
    let mut rules: Vec<String> = [
        bound("minimum", "at least"),
        bound("maximum", "at most"),
        bound("minLength", "length at least"),
        bound("maxLength", "length at most"),
        bound("minItems", "items at least"),
        bound("maxItems", "items at most"),
        bound("maxProperties", "entries at most"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values
            .iter()
            .filter_map(Value::as_str)
            .map(|value| format!("`{value}`"))
            .collect();
        rules.push(format!("{of}one of {}", values.join(", ")));
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        rules.push(format!("{of}pattern `{}`", pattern.replace('|', "\\|")));
    }
    let custom = schema["x-kubernetes-validations"].as_array().into_iter();
    rules.extend(
        custom
            .flatten()
            .filter_map(|rule| rule["message"].as_str())
            .map(escaped),
    );
    rules
}

fn meaning(schema: &Value) -> String {
    escaped(schema["description"].as_str().unwrap_or_default())
}

/// A text as one line of Markdown that shows each character, with code in backticks.
fn escaped(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut escaped = String::new();
    let mut is_code = false;
    for character in line.chars() {
        match character {
            '`' => is_code = !is_code,
            '|' => escaped.push('\\'),
            '<' | '*' | '[' if !is_code => escaped.push('\\'),
            _ => {}
        }
        escaped.push(character);
    }
    escaped
}
