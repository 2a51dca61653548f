//! Writes a List as kubectl formats it, in JSON or YAML, object by object.

use std::io::{self, Write};

use fleetdex_core::{terminal::escaped_json, yaml};
use serde::Serialize as _;
use serde_json::{Map, Serializer, Value, json, ser::PrettyFormatter, value::RawValue};

use super::error::OutputError;

const INDENT: &[u8] = b"    ";
/// Indentation of an item in its list.
const ITEM_INDENT: &str = "        ";

/// Writes a List, or its single object.
pub struct ListWriter {
    is_yaml: bool,
    is_single: bool,
    has_begun: bool,
}

impl ListWriter {
    /// Writes YAML, or JSON, indented by four spaces.
    pub fn new(is_yaml: bool, is_single: bool) -> Self {
        Self {
            is_yaml,
            is_single,
            has_begun: false,
        }
    }

    /// Writes the next object.
    pub fn add(&mut self, object: &RawValue, out: &mut dyn Write) -> Result<(), OutputError> {
        let value: Value = serde_json::from_str(object.get()).map_err(OutputError::NoObject)?;
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        match (self.is_yaml, self.is_single) {
            (true, true) => {
                let before = if is_first { "" } else { "---\n" };
                write!(out, "{before}{}", yaml::to_string(&value)?)?;
            }
            (true, false) => {
                let begin = "apiVersion: v1\nitems:\n";
                let before = if is_first { begin } else { "" };
                write!(out, "{before}{}", yaml::to_string(json!([value]))?)?;
            }
            (false, true) => writeln!(out, "{}", pretty(&value)?)?,
            (false, false) => {
                let before = if is_first {
                    "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n"
                } else {
                    ",\n"
                };
                write!(
                    out,
                    "{before}{ITEM_INDENT}{}",
                    pretty(&value)?.replace('\n', &format!("\n{ITEM_INDENT}"))
                )?;
            }
        }
        Ok(())
    }

    /// Writes the end, with these members of the List's metadata beside its empty version.
    pub fn finish(
        self,
        mut metadata: Map<String, Value>,
        out: &mut dyn Write,
    ) -> Result<(), OutputError> {
        if self.is_single {
            return Ok(());
        }
        metadata.insert("resourceVersion".to_owned(), "".into());
        let end = json!({ "kind": "List", "metadata": metadata });
        match (self.is_yaml, self.has_begun) {
            (true, true) => write!(out, "{}", yaml::to_string(&end)?)?,
            (true, false) => {
                let end = yaml::to_string(&end)?;
                write!(out, "apiVersion: v1\nitems: []\n{end}")?;
            }
            // The members of the List that are open end with those of `end`.
            (false, true) => writeln!(out, "\n    ],{}", &pretty(&end)?[1..])?,
            (false, false) => writeln!(
                out,
                "{{\n    \"apiVersion\": \"v1\",\n    \"items\": [],{}",
                &pretty(&end)?[1..]
            )?,
        }
        Ok(())
    }
}

/// In pretty-printed JSON a line break only separates tokens: inside strings it is escaped.
fn pretty(value: &Value) -> Result<String, OutputError> {
    let mut text = Vec::new();
    let mut serializer =
        Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(INDENT));
    value.serialize(&mut serializer).map_err(io::Error::from)?;
    Ok(escaped_json(&String::from_utf8_lossy(&text)).into_owned())
}
