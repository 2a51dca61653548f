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

Every field of the custom resources that `fleetdex crd` prints, in paths of which `[]` is each item of a list and `{}` each value of a map. [Configuration](configuration.md), \
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

/// A kind that exists in several groups with one schema has one section.
fn page() -> String {
    let mut page = HEAD.to_owned();
    let crds: Vec<CustomResourceDefinition> = crd::all().into_iter().map(|file| file.crd).collect();
    let mut done: Vec<&str> = Vec::new();
    for crd in &crds {
        let kind = crd.spec.names.kind.as_str();
        if done.contains(&kind) {
            continue;
        }
        done.push(kind);
        let groups = crds.iter().filter(|other| other.spec.names.kind == kind);
        add_kind(&mut page, crd, &groups.collect::<Vec<_>>());
    }
    page
}

fn add_kind(
    page: &mut String,
    crd: &CustomResourceDefinition,
    groups: &[&CustomResourceDefinition],
) {
    let names = &crd.spec.names;
    writeln!(page, "\n## {}\n", names.kind).unwrap();
    for version in &crd.spec.versions {
        let served: Vec<String> = groups
            .iter()
            .map(|of| format!("`{}/{}`", of.spec.group, version.name))
            .collect();
        let short = names.short_names.iter().flatten();
        let short: Vec<String> = short.map(|name| format!("`{name}`")).collect();
        let also = if short.is_empty() {
            String::new()
        } else {
            format!(", short name {}", short.join(", "))
        };
        let schema = version
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api_v3_schema.as_ref());
        let schema = serde_json::to_value(schema).unwrap();
        writeln!(
            page,
            "{}; plural `{}`{also}; {}. {}",
            served.join(", "),
            names.plural,
            match crd.spec.scope.as_str() {
                "Cluster" => "not in a namespace",
                _ => "in a namespace",
            },
            meaning(&schema)
        )
        .unwrap();
        page.push_str(
            "\n| field | type | default | validation | meaning |\n|---|---|---|---|---|\n",
        );
        add_fields(page, &schema, "");
    }
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
