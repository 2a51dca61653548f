//! Composable index templates.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    answer::{Answer, Refusal},
    call::Call,
    cluster::Cluster,
    glob,
    mapping::Mapping,
    settings::{self, Changes},
};

/// What new indices get whose names match.
#[derive(Clone, Debug)]
pub(super) struct Template {
    patterns: Vec<String>,
    priority: u64,
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
    fn read(body: &Map<String, Value>) -> Result<Self, Refusal> {
        if let Some(unknown) = body.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
            return Err(Refusal::new(
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
            _ => return Err(Refusal::illegal_argument("Required [index_patterns]")),
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
            aliases: super::aliases::read_configurations(template.get("aliases"))?,
        })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.patterns.iter().any(|left| {
            other
                .patterns
                .iter()
                .any(|right| glob::overlap(left, right))
        })
    }
}

/// `PUT /_index_template/<name>`
pub(super) fn put(cluster: &mut Cluster, call: &Call, name: &str) -> Result<Answer, Refusal> {
    call.allow(&["create", "cause"])?;
    let template = Template::read(&call.members()?)?;
    let clash = cluster.templates.iter().find(|(other_name, other)| {
        other_name.as_str() != name
            && other.priority == template.priority
            && other.overlaps(&template)
    });
    if let Some((other_name, other)) = clash {
        return Err(Refusal::illegal_argument(format!(
            "index template [{name}] has index patterns [{}] matching patterns from existing templates [{other_name}] with \
             patterns ({other_name} => [{}]) that have the same priority [{}], multiple index templates may not match during index \
             creation, please use a different priority",
            template.patterns.join(", "),
            other.patterns.join(", "),
            template.priority
        )));
    }
    cluster.templates.insert(name.to_owned(), template);
    Ok(Answer::acknowledged())
}

/// `DELETE /_index_template/<name>`
pub(super) fn delete(cluster: &mut Cluster, call: &Call, name: &str) -> Result<Answer, Refusal> {
    call.allow(&[])?;
    match cluster.templates.remove(name) {
        Some(_) => Ok(Answer::acknowledged()),
        None => Err(Refusal::new(
            404,
            "index_template_missing_exception",
            format!("index_template [{name}] missing"),
        )),
    }
}

/// The template of a new index: of those that match the one with the highest priority, and no part of any other.
pub(super) fn matching<'c>(cluster: &'c Cluster, index: &str) -> Option<&'c Template> {
    let is_matching = |template: &&Template| {
        template
            .patterns
            .iter()
            .any(|pattern| glob::matches(pattern, index))
    };
    cluster
        .templates
        .values()
        .filter(is_matching)
        .max_by_key(|template| template.priority)
}
