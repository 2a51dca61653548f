//! Documents: their searchable terms, and which documents are rejected.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::{
    dates::parse_date,
    json::{Strict, java_text, token},
    mapping::{Dynamic, Field, Kind, Mapping, Node, Object, dynamic_definition, parsing},
    response::Exception,
};

/// The field of a document's routing.
pub(super) const ROUTING: &str = "_routing";
/// Lucene's limit of a term.
const MAX_TERM_BYTES: usize = 32_766;

/// A searchable value of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Term {
    /// A keyword, or a word of a text.
    Text(Arc<str>),
    /// A number, a boolean or a time in milliseconds.
    Number(i64),
}

/// A stored document.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub id: Arc<str>,
    pub version: u64,
    /// Counts the writes to the index, from 0.
    pub sequence: u64,
    /// The document as sent.
    pub source: Arc<Value>,
    pub terms: Terms,
    /// Fields whose values were malformed.
    pub ignored: Vec<Arc<str>>,
}

impl Document {
    /// The routing that it was written with.
    pub fn routing(&self) -> Option<Arc<str>> {
        match self.terms.get(ROUTING)?.first()? {
            Term::Text(routing) => Some(Arc::clone(routing)),
            Term::Number(_) => None,
        }
    }
}

/// Terms by field path.
pub(super) type Terms = BTreeMap<Arc<str>, Vec<Term>>;

/// The analysis of a document by a mapping.
#[derive(Debug)]
pub(super) struct Analysis {
    pub source: Arc<Value>,
    pub terms: Terms,
    pub ignored: Vec<Arc<str>>,
    /// The properties that the document adds to the mapping.
    pub added: Map<String, Value>,
}

/// Analyses a document. Fields that it adds to the mapping are not among its terms: extend the
/// mapping and analyse again until nothing is added.
pub(super) fn analyse(mapping: &Mapping, id: &str, source: &[u8]) -> Result<Analysis, Exception> {
    let members = parse(source)?;
    let mut walk = Walk {
        id,
        mapping,
        terms: Terms::new(),
        ignored: Vec::new(),
    };
    if let Some(key) = members
        .keys()
        .find(|key| ["_id", "_index", "_source", "_version", "_routing"].contains(&key.as_str()))
    {
        let reason = format!(
            "Field [{key}] is a metadata field and cannot be added inside a document. Use the index API request parameters."
        );
        return Err(walk
            .unparsable(key, key, &members[key])
            .caused_by(&parsing(reason)));
    }
    let mut added = Map::new();
    if mapping.root().enabled {
        let dynamic = mapping.root().dynamic.unwrap_or(Dynamic::True);
        walk.object(mapping.root(), dynamic, &members, &mut added)?;
    }
    Ok(Analysis {
        source: Arc::new(members.into()),
        terms: walk.terms,
        ignored: walk.ignored,
        added,
    })
}

fn parse(source: &[u8]) -> Result<Map<String, Value>, Exception> {
    if source.is_empty() {
        return Err(parsing("failed to parse, document is empty"));
    }
    if source.first() != Some(&b'{') {
        return Err(parsing("failed to parse").caused_by(&Exception::no_content()));
    }
    match serde_json::from_slice::<Strict>(source) {
        Ok(Strict(Value::Object(members))) => Ok(members),
        Ok(_) => Err(parsing("failed to parse")),
        Err(error) => Err(parsing("failed to parse").caused_by(&Exception::syntax(&error))),
    }
}

struct Walk<'d> {
    id: &'d str,
    mapping: &'d Mapping,
    terms: Terms,
    ignored: Vec<Arc<str>>,
}

impl Walk<'_> {
    fn object(
        &mut self,
        object: &Object,
        dynamic: Dynamic,
        members: &Map<String, Value>,
        added: &mut Map<String, Value>,
    ) -> Result<(), Exception> {
        for (key, value) in members {
            check_key(key)?;
            let (name, below) = key
                .split_once('.')
                .map_or((key.as_str(), None), |(name, below)| (name, Some(below)));
            match (object.children.get(name), below) {
                (None, _) => unmapped(self.mapping, object, dynamic, (key, value), added)?,
                (Some(node), None) => self.node(node, dynamic, (name, false), value, added)?,
                // A name with a dot is a path.
                (Some(node), Some(below)) => {
                    let inner = json!({ below: value });
                    self.node(node, dynamic, (name, false), &inner, added)?;
                }
            }
        }
        Ok(())
    }

    /// `name` is the name of the member; `in_array` is whether the value is an item of an array.
    fn node(
        &mut self,
        node: &Node,
        dynamic: Dynamic,
        (name, in_array): (&str, bool),
        value: &Value,
        added: &mut Map<String, Value>,
    ) -> Result<(), Exception> {
        match (node, value) {
            (Node::Field(field), value) => self.field(field, value),
            (Node::Object(object), _) if !object.enabled => Ok(()),
            (_, Value::Null) => Ok(()),
            (Node::Object(object), Value::Object(members)) => {
                let mut below = Map::new();
                self.object(
                    object,
                    object.dynamic.unwrap_or(dynamic),
                    members,
                    &mut below,
                )?;
                if !below.is_empty() {
                    added.insert(name.to_owned(), json!({ "properties": below }));
                }
                Ok(())
            }
            (node, Value::Array(items)) => items
                .iter()
                .try_for_each(|item| self.node(node, dynamic, (name, true), item, added)),
            (Node::Object(object), _) => Err(parsing(format!(
                "object mapping for [{}] tried to parse field [{}] as object, but found a concrete value",
                object.path,
                if in_array { "null" } else { name }
            ))),
        }
    }

    fn field(&mut self, field: &Field, value: &Value) -> Result<(), Exception> {
        match value {
            Value::Null => return Ok(()),
            Value::Array(items) => {
                return items.iter().try_for_each(|item| self.field(field, item));
            }
            _ => {}
        }
        if field.kind == Kind::FlatObject {
            return self.flat_object(field, value);
        }
        match term(field.kind, value) {
            Ok(text) => {
                if let Some(target) = field
                    .copy_to
                    .as_ref()
                    .and_then(|path| self.mapping.field(path))
                {
                    self.add(target, text.clone())?;
                }
                if field.is_indexed {
                    self.add(field, text)?;
                }
            }
            Err(_) if field.ignore_malformed && value.is_object() => {}
            Err(_) if field.ignore_malformed => self.ignore(&field.path),
            Err(cause) => {
                let kind = kind_name(field.kind);
                return Err(self.unparsable(&field.path, kind, value).caused_by(&cause));
            }
        }
        for subfield in &field.subfields {
            self.field(subfield, value)?;
        }
        Ok(())
    }

    fn add(&mut self, field: &Field, term: Term) -> Result<(), Exception> {
        let Term::Text(text) = &term else {
            self.push(&field.path, term);
            return Ok(());
        };
        if field.kind == Kind::Text {
            for word in text
                .split(|letter: char| !letter.is_alphanumeric())
                .filter(|word| !word.is_empty())
            {
                self.push(&field.path, Term::Text(word.to_lowercase().into()));
            }
            return Ok(());
        }
        // UTF-16 units are never more than bytes.
        if field
            .ignore_above
            .is_some_and(|limit| text.len() > limit && text.encode_utf16().count() > limit)
        {
            return Ok(());
        }
        if text.len() > MAX_TERM_BYTES {
            return Err(immense(&field.path, text));
        }
        self.push(&field.path, term);
        Ok(())
    }

    fn flat_object(&mut self, field: &Field, value: &Value) -> Result<(), Exception> {
        let Value::Object(members) = value else {
            let reason = format!(
                "[{}] unexpected token [{}] in flat_object field value",
                field.path,
                token(value)
            );
            let cause = Exception::new(400, "parsing_exception", reason);
            return Err(self
                .unparsable(&field.path, "flat_object", value)
                .caused_by(&cause));
        };
        for (key, member) in members {
            self.leaves(field, &format!("{}.{key}", field.path), member)?;
        }
        Ok(())
    }

    fn leaves(&mut self, field: &Field, path: &str, value: &Value) -> Result<(), Exception> {
        match value {
            Value::Null => Ok(()),
            Value::Array(items) => items
                .iter()
                .try_for_each(|item| self.leaves(field, path, item)),
            Value::Object(members) => members
                .iter()
                .try_for_each(|(key, member)| self.leaves(field, &format!("{path}.{key}"), member)),
            leaf => {
                let text = java_text(leaf);
                // Stored as `field.path=value`, where the path begins with the field again.
                if field.path.len() + 1 + path.len() + 1 + text.len() > MAX_TERM_BYTES {
                    let name = &field.path;
                    let reason = format!(
                        "DocValuesField \"{name}._valueAndPath\" is too large, must be <= {MAX_TERM_BYTES}"
                    );
                    return Err(Exception::illegal_argument(reason));
                }
                let term = Term::Text(text.into());
                self.push(&field.path, term.clone());
                self.push(&path.into(), term);
                Ok(())
            }
        }
    }

    fn push(&mut self, path: &Arc<str>, term: Term) {
        match self.terms.get_mut(path) {
            Some(terms) => terms.push(term),
            None => {
                self.terms.insert(Arc::clone(path), vec![term]);
            }
        }
    }

    fn ignore(&mut self, path: &Arc<str>) {
        if !self.ignored.contains(path) {
            self.ignored.push(Arc::clone(path));
        }
    }

    fn unparsable(&self, path: &str, kind: &str, value: &Value) -> Exception {
        parsing(format!(
            "failed to parse field [{path}] of type [{kind}] in document with id '{}'. Preview of field's value: '{}'",
            self.id,
            java_text(value)
        ))
    }
}

fn unmapped(
    mapping: &Mapping,
    object: &Object,
    dynamic: Dynamic,
    (key, value): (&str, &Value),
    added: &mut Map<String, Value>,
) -> Result<(), Exception> {
    match dynamic {
        Dynamic::False => {}
        Dynamic::Strict => {
            let within = if object.path.is_empty() {
                "_doc"
            } else {
                &object.path
            };
            let reason = format!(
                "mapping set to strict, dynamic introduction of [{key}] within [{within}] is not allowed"
            );
            return Err(Exception::new(
                400,
                "strict_dynamic_mapping_exception",
                reason,
            ));
        }
        Dynamic::True => {
            let path = if object.path.is_empty() {
                key.to_owned()
            } else {
                format!("{}.{key}", object.path)
            };
            let templated = if value.is_null() {
                None
            } else {
                mapping.templated(&path)
            };
            if let Some(definition) = templated.or_else(|| dynamic_definition(value)) {
                let (name, definition) = nested(key, definition);
                added.insert(name.to_owned(), definition);
            }
        }
    }
    Ok(())
}

/// Wraps the definition at a path into the definition of the first name of the path.
fn nested(path: &str, definition: Value) -> (&str, Value) {
    match path.split_once('.') {
        None => (path, definition),
        Some((name, rest)) => {
            let (inner, definition) = nested(rest, definition);
            (name, json!({ "properties": { inner: definition } }))
        }
    }
}

fn check_key(key: &str) -> Result<(), Exception> {
    let problem = if key.is_empty() {
        "field name cannot be an empty string".to_owned()
    } else if key.contains('.') && key.split('.').any(str::is_empty) {
        format!(
            "object field starting or ending with a [.] makes object resolution ambiguous: [{key}]"
        )
    } else {
        return Ok(());
    };
    Err(parsing("failed to parse").caused_by(&Exception::illegal_argument(problem)))
}

/// Returns the term of a value, which must not be null, an array or a flat object.
pub(super) fn term(kind: Kind, value: &Value) -> Result<Term, Exception> {
    if value.is_object() {
        return Err(Exception::new(
            400,
            "illegal_state_exception",
            "Can't get text on a START_OBJECT",
        ));
    }
    let text = || java_text(value);
    match kind {
        Kind::Keyword | Kind::Text | Kind::FlatObject => Ok(Term::Text(text().into())),
        Kind::Boolean => match text().as_str() {
            "true" => Ok(Term::Number(1)),
            "false" | "" => Ok(Term::Number(0)),
            other => Err(Exception::illegal_argument(format!(
                "Failed to parse value [{other}] as only [true] or [false] are allowed."
            ))),
        },
        Kind::Long | Kind::Float => whole(value).map(Term::Number).ok_or_else(|| {
            Exception::illegal_argument(format!("For input string: \"{}\"", text()))
        }),
        Kind::Date => {
            let time = if value.is_number() {
                whole(value)
            } else {
                parse_date(&text())
            };
            time.map(Term::Number).ok_or_else(|| {
                let format = "strict_date_optional_time||epoch_millis";
                let cause = Exception::new(
                    400,
                    "date_time_parse_exception",
                    "Failed to parse with all enclosed parsers",
                );
                Exception::illegal_argument(format!(
                    "failed to parse date field [{}] with format [{format}]",
                    text()
                ))
                .caused_by(&cause)
            })
        }
    }
}

/// Truncates a number to an integer.
fn whole(value: &Value) -> Option<i64> {
    let text = java_text(value);
    #[expect(clippy::cast_possible_truncation, reason = "as Java does it")]
    text.parse::<i64>().ok().or_else(|| {
        text.parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(|number| number as i64)
    })
}

fn immense(path: &str, text: &str) -> Exception {
    let prefix: Vec<String> = text
        .bytes()
        .take(30)
        .map(|byte| i8::from_ne_bytes([byte]).to_string())
        .collect();
    let found = format!(
        "bytes can be at most {MAX_TERM_BYTES} in length; got {}",
        text.len()
    );
    Exception::illegal_argument(format!(
        "Document contains at least one immense term in field=\"{path}\" (whose UTF8 encoding is longer than the max length \
         {MAX_TERM_BYTES}), all of which were skipped.  Please correct the analyzer to not produce such terms.  The prefix of \
         the first immense term is: '[{}]...', original message: {found}",
        prefix.join(", ")
    ))
    .caused_by(&Exception::new(400, "max_bytes_length_exceeded_exception", found))
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Keyword => "keyword",
        Kind::Text => "text",
        Kind::Long => "long",
        Kind::Float => "float",
        Kind::Boolean => "boolean",
        Kind::Date => "date",
        Kind::FlatObject => "flat_object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping() -> Mapping {
        Mapping::new(&json!({
            "dynamic": false,
            "properties": {
                "kind": { "type": "keyword", "ignore_above": 5 },
                "search": { "properties": { "labels": { "type": "keyword" } } },
                "time": { "type": "date", "ignore_malformed": true },
                "at": { "type": "date" },
                "flat": { "type": "flat_object" },
                "off": { "type": "object", "enabled": false },
            },
        }))
        .unwrap()
    }

    fn terms(source: &Value) -> Vec<String> {
        let analysis = analyse(&mapping(), "id", source.to_string().as_bytes()).unwrap();
        let shown = |(path, terms): (Arc<str>, Vec<Term>)| {
            let terms: Vec<String> = terms
                .iter()
                .map(|term| match term {
                    Term::Text(text) => text.to_string(),
                    Term::Number(number) => number.to_string(),
                })
                .collect();
            format!("{path}: {}", terms.join(" "))
        };
        analysis
            .terms
            .into_iter()
            .map(shown)
            .chain(
                analysis
                    .ignored
                    .iter()
                    .map(|path| format!("ignored {path}")),
            )
            .collect()
    }

    fn exception(source: &str) -> String {
        analyse(&mapping(), "id", source.as_bytes())
            .unwrap_err()
            .error()
            .to_string()
    }

    #[test]
    fn only_mapped_members_become_terms() {
        let source = json!({
            "kind": "Pod", "spec": { "kind": "x" }, "search": { "labels": ["a=b", null, ["c=d"]] }, "off": 5,
            "time": "2026-01-01T00:00:01.5Z", "at": 7, "flat": { "a": { "b": ["c", 1] }, "x.y": true, "n": null },
        });
        let expected = [
            "at: 7",
            "flat: c 1 true",
            "flat.a.b: c 1",
            "flat.x.y: true",
            "kind: Pod",
            "search.labels: a=b c=d",
            "time: 1767225601500",
        ];
        assert_eq!(terms(&source), expected);
        assert_eq!(
            terms(&json!({ "search.labels": "dotted" })),
            ["search.labels: dotted"]
        );
        assert_eq!(
            terms(&json!({ "kind": "Deployment", "time": "soon" })),
            ["ignored time"]
        );
    }

    #[test]
    fn a_keyword_over_32766_bytes_is_rejected_unless_it_is_ignored() {
        let labels =
            |length: usize| json!({ "search": { "labels": "x".repeat(length) } }).to_string();
        assert!(analyse(&mapping(), "id", labels(32_766).as_bytes()).is_ok());
        assert!(exception(&labels(32_767)).contains("immense term in field=\\\"search.labels\\\""));
        assert!(terms(&json!({ "kind": "x".repeat(40_000) })).is_empty());
    }

    #[test]
    fn a_leaf_of_a_flat_object_is_limited_together_with_its_path() {
        let flat = |length: usize| json!({ "flat": { "abc": "x".repeat(length) } }).to_string();
        let path = "flat.flat.abc=".len();
        assert!(analyse(&mapping(), "id", flat(32_766 - path).as_bytes()).is_ok());
        assert!(exception(&flat(32_767 - path)).contains("flat._valueAndPath"));
    }

    #[test]
    fn values_that_do_not_match_the_mapping_are_rejected() {
        for (source, part) in [
            (
                r#"{"kind":{"a":1}}"#,
                "failed to parse field [kind] of type [keyword] in document with id 'id'. Preview of field's value: '{a=1}'",
            ),
            (
                r#"{"search":"x"}"#,
                "object mapping for [search] tried to parse field [search] as object, but found a concrete value",
            ),
            (
                r#"{"search":["x"]}"#,
                "tried to parse field [null] as object",
            ),
            (r#"{"at":"soon"}"#, "failed to parse date field [soon]"),
            (
                r#"{"flat":"x"}"#,
                "unexpected token [VALUE_STRING] in flat_object field value",
            ),
            (r#"{"a":1,"a":2}"#, "Duplicate field 'a'"),
            (r#"{"":1}"#, "field name cannot be an empty string"),
            (r#"{"a..b":1}"#, "ambiguous: [a..b]"),
            (r#"{"_id":1}"#, "Field [_id] is a metadata field"),
            ("[]", "not_x_content_exception"),
            (r#"{"a":"#, "json_e_o_f_exception"),
            ("", "document is empty"),
        ] {
            assert!(
                exception(source).contains(part),
                "{source}: {}",
                exception(source)
            );
        }
    }

    #[test]
    fn a_dynamic_mapping_grows_with_the_documents() {
        let mapping = Mapping::new(&json!({})).unwrap();
        let added = |source: Value| {
            Value::Object(
                analyse(&mapping, "id", source.to_string().as_bytes())
                    .unwrap()
                    .added,
            )
        };
        assert_eq!(
            added(json!({ "a": 1, "b.c": true, "d": { "e": "x" }, "n": null, "at": "2026-01-01" })),
            json!({
                "a": { "type": "long" },
                "b": { "properties": { "c": { "type": "boolean" } } },
                "d": { "properties": { "e": {
                    "type": "text", "fields": { "keyword": { "type": "keyword", "ignore_above": 256 } },
                } } },
                "at": { "type": "date" },
            })
        );
    }
}
