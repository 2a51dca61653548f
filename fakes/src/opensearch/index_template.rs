//! Index templates: the settings, mappings and aliases of new indices with matching names.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    alias, glob,
    mapping::Mapping,
    response::Exception,
    settings::{self, Changes},
};

/// An index template.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub patterns: Vec<String>,
    pub priority: u64,
    pub settings: Changes,
    pub mappings: Value,
    pub aliases: BTreeMap<String, Value>,
}

const MEMBERS: [&str; 6] = [
    "index_patterns",
    "priority",
    "template",
    "version",
    "_meta",
    "composed_of",
];

impl Template {
    /// Parses the body of a request.
    pub fn read(body: &Map<String, Value>) -> Result<Self, Exception> {
        if let Some(unknown) = body.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
            return Err(Exception::new(
                400,
                "x_content_parse_exception",
                format!("[index_template] unknown field [{unknown}]"),
            ));
        }
        let patterns = match body.get("index_patterns") {
            Some(Value::Array(patterns)) => patterns
                .iter()
                .filter_map(Value::as_str)
                .map(ToOwned::to_owned)
                .collect(),
            Some(Value::String(pattern)) => vec![pattern.clone()],
            _ => return Err(Exception::illegal_argument("Required [index_patterns]")),
        };
        let template = body.get("template").cloned().unwrap_or_default();
        let mappings = template
            .get("mappings")
            .cloned()
            .unwrap_or_else(|| Value::Object(Map::new()));
        Mapping::new(&mappings)?;
        Ok(Self {
            patterns,
            priority: body.get("priority").and_then(Value::as_u64).unwrap_or(0),
            settings: template
                .get("settings")
                .map(settings::read)
                .transpose()?
                .unwrap_or_default(),
            mappings,
            aliases: alias::read_configurations(template.get("aliases"))?,
        })
    }

    /// Whether an index name can match both templates.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.patterns.iter().any(|left| {
            other
                .patterns
                .iter()
                .any(|right| glob::overlap(left, right))
        })
    }
}
