//! The lines of a `_bulk` request.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{call::Call, json::token, response::Exception, version::Versioning};

const MAX_ID_BYTES: usize = 512;

/// The action of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Index,
    Create,
    Delete,
}

/// One item of a bulk request.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub action: Action,
    pub index: String,
    /// `None`: the index generates one.
    pub id: Option<String>,
    /// `None`: that of the alias, if it has one.
    pub routing: Option<String>,
    pub versioning: Versioning,
    pub require_alias: bool,
    /// Empty for deletes.
    pub source: Bytes,
}

impl Action {
    /// The name in requests and responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Create => "create",
            Self::Delete => "delete",
        }
    }
}

/// Parses a request. A malformed action line or an item that is never valid rejects the whole
/// request.
pub(super) fn read(call: &Call, default_index: Option<&str>) -> Result<Vec<Item>, Exception> {
    let body = &call.body;
    if body.is_empty() {
        return Err(Exception::new(
            400,
            "parse_exception",
            "request body is required",
        ));
    }
    let require_alias = call.parameters.flag("require_alias", false)?;
    let mut lines = Lines {
        body,
        at: 0,
        number: 0,
    };
    let mut items = Vec::new();
    let mut problems = Vec::new();
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        let (action, members) = read_action(&line, lines.number)?;
        let mut item = Item {
            action,
            index: default_index.unwrap_or_default().to_owned(),
            id: None,
            routing: None,
            versioning: Versioning::Internal,
            require_alias,
            source: Bytes::new(),
        };
        let version = read_members(&mut item, &members, lines.number)?;
        if action != Action::Delete {
            // OpenSearch ignores a last action without a document.
            let Some(source) = lines.next()? else { break };
            item.source = source;
        }
        problems.extend(problem(&mut item, &version));
        items.push(item);
    }
    if items.is_empty() {
        problems.push("no requests added".to_owned());
    }
    if problems.is_empty() {
        Ok(items)
    } else {
        Err(Exception::invalid(&problems))
    }
}

struct Lines<'b> {
    body: &'b Bytes,
    at: usize,
    number: usize,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<Bytes>, Exception> {
        if self.at == self.body.len() {
            return Ok(None);
        }
        let Some(length) = self.body[self.at..].iter().position(|byte| *byte == b'\n') else {
            return Err(Exception::illegal_argument(
                "The bulk request must be terminated by a newline [\\n]",
            ));
        };
        let line = self.body.slice(self.at..self.at + length);
        self.at += length + 1;
        self.number += 1;
        Ok(Some(line))
    }
}

fn read_action(line: &[u8], number: usize) -> Result<(Action, Map<String, Value>), Exception> {
    let malformed = |what: String| {
        Exception::illegal_argument(format!("Malformed action/metadata line [{number}], {what}"))
    };
    let parsed: Value = serde_json::from_slice(line).map_err(|error| Exception::syntax(&error))?;
    let Value::Object(members) = &parsed else {
        return Err(malformed(format!(
            "expected START_OBJECT but found [{}]",
            token(&parsed)
        )));
    };
    let Some((name, details)) = members.iter().next() else {
        return Err(malformed(
            "expected FIELD_NAME but found [END_OBJECT]".to_owned(),
        ));
    };
    let action = match name.as_str() {
        "index" => Action::Index,
        "create" => Action::Create,
        "delete" => Action::Delete,
        "update" => return Err(malformed("this fake does not support update".to_owned())),
        other => {
            return Err(malformed(format!(
                "expected one of [create, delete, index, update] but found [{other}]"
            )));
        }
    };
    match details {
        Value::Object(details) => Ok((action, details.clone())),
        other => Err(malformed(format!(
            "expected START_OBJECT or END_OBJECT but found [{}]",
            token(other)
        ))),
    }
}

/// The version parameters of an item.
#[derive(Default)]
struct Version {
    given: Option<i64>,
    kind: Option<String>,
    sequence: Option<u64>,
    term: u64,
}

fn read_members(
    item: &mut Item,
    members: &Map<String, Value>,
    number: usize,
) -> Result<Version, Exception> {
    let mut version = Version::default();
    for (key, value) in members {
        let text = || {
            value
                .as_str()
                .map_or_else(|| value.to_string(), ToOwned::to_owned)
        };
        match key.as_str() {
            "_index" => item.index = text(),
            "_id" => item.id = Some(text()),
            "routing" => item.routing = Some(text()),
            "version" => version.given = Some(read_version(value)?),
            "version_type" => match text().as_str() {
                "internal" | "external" | "external_gt" | "external_gte" => {
                    version.kind = Some(text());
                }
                other => {
                    return Err(Exception::illegal_argument(format!(
                        "No version type match [{other}]"
                    )));
                }
            },
            "if_seq_no" => version.sequence = Some(read_sequence(value)?),
            "if_primary_term" => version.term = value.as_u64().unwrap_or_default(),
            // Deletes ignore it: one of a missing alias is rejected or creates an index of that
            // name.
            "require_alias" => item.require_alias = value.as_bool().unwrap_or(false),
            other => {
                let reason = format!(
                    "Action/metadata line [{number}] contains an unknown parameter [{other}]"
                );
                return Err(Exception::illegal_argument(reason));
            }
        }
    }
    Ok(version)
}

fn read_version(value: &Value) -> Result<i64, Exception> {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned);
    text.parse().map_err(|_| {
        let reason = format!("Numeric value ({text}) out of range of long (-9223372036854775808 - 9223372036854775807)");
        Exception::new(400, "input_coercion_exception", reason)
    })
}

fn read_sequence(value: &Value) -> Result<u64, Exception> {
    let exception = || {
        Exception::illegal_argument(format!(
            "sequence numbers must be non negative. got [{value}]."
        ))
    };
    value.as_u64().ok_or_else(exception)
}

/// Sets the item's versioning. Returns the problem of an invalid item.
fn problem(item: &mut Item, version: &Version) -> Option<String> {
    if item.index.is_empty() {
        return Some("index is missing".to_owned());
    }
    match &item.id {
        None if item.action == Action::Delete => return Some("id is missing".to_owned()),
        Some(id) if id.len() > MAX_ID_BYTES => {
            return Some(format!(
                "id [{id}] is too long, must be no longer than 512 bytes but was: {}",
                id.len()
            ));
        }
        _ => {}
    }
    let kind = version.kind.as_deref().unwrap_or("internal");
    // The value for "any version" in OpenSearch.
    let given = version.given.unwrap_or(-3);
    let is_external = kind != "internal";
    if version.sequence.is_some() || version.term > 0 {
        return compare_and_write(item, version, is_external);
    }
    match (is_external, u64::try_from(given)) {
        (true, Err(_)) => Some(format!("illegal version value [{given}] for version type [{}]", kind.to_uppercase())),
        (true, Ok(_)) if item.action == Action::Create => {
            Some("create operations only support internal versioning. use index instead".to_owned())
        }
        (true, Ok(given)) => {
            let is_gte = kind == "external_gte";
            item.versioning = if is_gte { Versioning::ExternalGte(given) } else { Versioning::External(given) };
            None
        }
        (false, _) if version.given.is_some() => Some(
            "internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and \
             `if_primary_term` instead"
                .to_owned(),
        ),
        (false, _) => {
            if item.action == Action::Create {
                item.versioning = Versioning::Create;
            }
            None
        }
    }
}

/// Sets the versioning of an item with a required sequence number. Returns the problem of an
/// invalid item.
fn compare_and_write(item: &mut Item, version: &Version, is_external: bool) -> Option<String> {
    let term = version.term;
    match version.sequence {
        _ if item.action == Action::Create => {
            Some("create operations do not support compare and set. use index instead".to_owned())
        }
        None => Some(format!(
            "ifSeqNo is unassigned, but primary term is [{term}]"
        )),
        Some(_) if is_external || version.given.is_some() => {
            Some("compare and write operations can not use versioning".to_owned())
        }
        Some(_) if term == 0 => Some("ifSeqNo is set, but primary term is [0]".to_owned()),
        Some(sequence) => {
            item.versioning = Versioning::IfSequence { sequence, term };
            None
        }
    }
}
