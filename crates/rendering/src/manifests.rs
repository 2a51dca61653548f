//! What renderers print, as objects.

use std::thread;

use fleetdex_core::{model::quoted, yaml::reader};
use serde_json::Value;

/// The most objects of one rendering.
pub const MAX_OBJECTS: usize = 10_000;
/// The stack of the parser, which calls itself for each level of a document.
const PARSER_STACK_BYTES: usize = 64 << 20;
/// With this helm names the file that a document is from.
const SOURCE_COMMENT: &str = "# Source: ";

/// An object and the file that it is from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourcedObject {
    /// The file within the chart, as helm names it; empty if it does not.
    pub(crate) file: String,
    pub(crate) object: Value,
}

/// Rendered text is not objects.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The text is not YAML.
    #[error("what is rendered{} is not YAML: {reason}", of_file(file))]
    Syntax {
        /// The template.
        file: String,
        /// What the parser says.
        reason: String,
    },
    /// A document is no object of Kubernetes.
    #[error("an object that is rendered{} has no {field}: {object}", of_file(file))]
    Field {
        /// The template.
        file: String,
        /// What is missing.
        field: &'static str,
        /// The beginning of the object.
        object: String,
    },
    /// There are too many objects.
    #[error("more than {MAX_OBJECTS} objects are rendered")]
    Objects,
    /// The system has no thread for the parser.
    #[error("cannot parse what is rendered")]
    Thread(#[source] std::io::Error),
}

fn of_file(file: &str) -> String {
    if file.is_empty() {
        return String::new();
    }
    format!(" from {}", quoted(file))
}

/// Parses one or several documents, as kubectl parses them: lists count as their items, repeated
/// keys as the last of them, `yes` as `true`, and `1e3` as an integer. Blocks.
pub(crate) fn parse(text: &str) -> Result<Vec<SourcedObject>, ManifestError> {
    thread::scope(|scope| {
        let parser = thread::Builder::new().stack_size(PARSER_STACK_BYTES);
        let parser = parser.spawn_scoped(scope, || parse_all(text));
        let parsed = parser.map_err(ManifestError::Thread)?.join();
        parsed.unwrap_or_else(|_| {
            Err(ManifestError::Syntax {
                file: String::new(),
                reason: "the parser failed".to_owned(),
            })
        })
    })
}

fn parse_all(text: &str) -> Result<Vec<SourcedObject>, ManifestError> {
    let mut objects = Vec::new();
    let mut file = "";
    for document in split(text) {
        let source = document
            .lines()
            .find_map(|line| line.strip_prefix(SOURCE_COMMENT));
        file = source.map_or(file, str::trim);
        for value in parse_yaml(document, file)? {
            add(&mut objects, value, file)?;
        }
    }
    Ok(objects)
}

/// The documents between lines of `---`, which is nothing else at the beginning of a line.
fn split(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut position = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            documents.push(&text[start..position]);
            start = position + line.len();
        }
        position += line.len();
    }
    documents.push(&text[start..]);
    documents
}

fn parse_yaml(document: &str, file: &str) -> Result<Vec<Value>, ManifestError> {
    reader::parse(document, MAX_OBJECTS).map_err(|error| ManifestError::Syntax {
        file: file.to_owned(),
        reason: error.without_snippet().to_string(),
    })
}

fn add(
    objects: &mut Vec<SourcedObject>,
    mut value: Value,
    file: &str,
) -> Result<(), ManifestError> {
    if value.is_null() {
        return Ok(());
    }
    let kind = required(&value, "kind", file)?;
    let is_list = kind.ends_with("List");
    if is_list && let Some(Value::Array(items)) = value.get_mut("items").map(Value::take) {
        for item in items {
            add(objects, item, file)?;
        }
        return Ok(());
    }
    required(&value, "apiVersion", file)?;
    required(value.get("metadata").unwrap_or(&Value::Null), "name", file)?;
    if objects.len() == MAX_OBJECTS {
        return Err(ManifestError::Objects);
    }
    reader::make_whole_numbers_integers(&mut value);
    objects.push(SourcedObject {
        file: file.to_owned(),
        object: value,
    });
    Ok(())
}

fn required<'v>(
    value: &'v Value,
    field: &'static str,
    file: &str,
) -> Result<&'v str, ManifestError> {
    let text = value.get(field).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
        .ok_or_else(|| ManifestError::Field {
            file: file.to_owned(),
            field,
            object: quoted(&value.to_string()),
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_objects_of_their_files() {
        let text = "---\n# Source: web/crds/a.yaml\nkind: A\napiVersion: v1\nmetadata: {name: a}\n\
                    ---\nkind: B\napiVersion: v1\nmetadata: {name: b}\ndata:\n  x: |\n    ---\n    y\n\
                    ---\n# nothing\n---\n# Source: web/templates/c.yaml\nkind: CList\napiVersion: v1\n\
                    items:\n- {kind: C, apiVersion: v1, metadata: {name: c}, n: 1e+06, b: yes}\n";
        let found = parse(text).unwrap();
        let files: Vec<&str> = found.iter().map(|one| one.file.as_str()).collect();
        assert_eq!(
            files,
            ["web/crds/a.yaml", "web/crds/a.yaml", "web/templates/c.yaml"]
        );
        assert_eq!(found[1].object["data"]["x"], "---\ny\n");
        assert_eq!(
            found[2].object,
            json!({"kind": "C", "apiVersion": "v1", "metadata": {"name": "c"}, "n": 1_000_000, "b": true})
        );
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_file() {
        for (text, expected) in [
            (
                "# Source: a.yaml\nkind: A\n",
                "an object that is rendered from a.yaml has no apiVersion: {\"kind\":\"A\"}",
            ),
            (
                "kind: A\napiVersion: v1\nmetadata: {generateName: x}\n",
                "an object that is rendered has no name: {\"generateName\":\"x\"}",
            ),
            ("text", "an object that is rendered has no kind: \"text\""),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected);
        }
        let error = parse("# Source: a.yaml\na: [").unwrap_err().to_string();
        assert!(
            error.starts_with("what is rendered from a.yaml is not YAML: "),
            "{error}"
        );
    }

    #[test]
    fn objects_and_their_depth_are_bounded() {
        let many = "---\n{kind: A, apiVersion: v1, metadata: {name: a}}\n".repeat(MAX_OBJECTS);
        assert_eq!(parse(&many).unwrap().len(), MAX_OBJECTS);
        let more = format!("{many}---\n{{kind: A, apiVersion: v1, metadata: {{name: a}}}}\n");
        assert!(matches!(parse(&more), Err(ManifestError::Objects)));
        let deep = format!("kind: {}", "[".repeat(100_000));
        assert!(matches!(parse(&deep), Err(ManifestError::Syntax { .. })));
    }
}
