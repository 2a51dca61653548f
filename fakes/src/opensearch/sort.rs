//! Sort orders and `search_after`.

use std::{cmp::Ordering, sync::Arc};

use serde_json::{Map, Value};

use super::{
    document::{Document, Term, term},
    index::View,
    mapping::Kind,
    response::Exception,
};

/// A sort key.
#[derive(Clone, Debug)]
pub(super) struct SortKey {
    field: String,
    descending: bool,
    missing_first: bool,
    unmapped_type: bool,
}

/// The sort value of a document; `None` sorts where the key puts missing values.
pub(super) type SortValue = Option<Term>;

/// How the values of a key are read from the documents of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Id,
    Index,
    WriteOrder,
    Text,
    Number,
    Unmapped,
}

/// The order of the documents of one view.
#[derive(Clone, Debug)]
pub(super) struct Order<'k> {
    keys: Vec<(&'k SortKey, Access)>,
    index: Arc<str>,
}

/// Parses the `sort` of a request.
pub(super) fn read(sort: &Value) -> Result<Vec<SortKey>, Exception> {
    let keys = match sort {
        Value::Array(keys) => keys.as_slice(),
        key => std::slice::from_ref(key),
    };
    let mut read = Vec::new();
    for key in keys {
        match key {
            Value::String(field) => read.push(read_key(field, &Value::Null)?),
            Value::Object(members) => {
                for (field, details) in members {
                    read.push(read_key(field, details)?);
                }
            }
            _ => {
                return Err(Exception::illegal_argument(
                    "malformed sort format, within the sort array, an object, or an actual string are allowed",
                ));
            }
        }
    }
    Ok(read)
}

fn read_key(field: &str, details: &Value) -> Result<SortKey, Exception> {
    let nothing = Map::new();
    let members = details.as_object().unwrap_or(&nothing);
    if let Some(unknown) = members
        .keys()
        .find(|key| !["order", "missing", "unmapped_type"].contains(&key.as_str()))
    {
        return Err(Exception::new(
            400,
            "x_content_parse_exception",
            format!("[field_sort] unknown field [{unknown}]"),
        ));
    }
    let order = details
        .as_str()
        .or_else(|| members.get("order").and_then(Value::as_str))
        .unwrap_or("asc");
    let missing = members
        .get("missing")
        .and_then(Value::as_str)
        .unwrap_or("_last");
    if !["asc", "desc"].contains(&order) || !["_first", "_last"].contains(&missing) {
        return Err(Exception::illegal_argument(format!(
            "this fake cannot sort [{field}] by [{order}], missing [{missing}]"
        )));
    }
    Ok(SortKey {
        field: field.to_owned(),
        descending: order == "desc",
        missing_first: missing == "_first",
        unmapped_type: members.contains_key("unmapped_type"),
    })
}

impl<'k> Order<'k> {
    /// Creates the order for a view, whose mapping has to contain every key.
    pub fn new(keys: &'k [SortKey], view: &View) -> Result<Self, Exception> {
        let mut accessed = Vec::with_capacity(keys.len());
        for key in keys {
            accessed.push((key, access(key, view)?));
        }
        Ok(Self {
            keys: accessed,
            index: view.index.as_str().into(),
        })
    }

    /// Returns the sort values of a document.
    pub fn values(&self, document: &Document) -> Vec<SortValue> {
        let value = |&(key, access): &(&SortKey, Access)| match access {
            Access::Id => Some(Term::Text(Arc::clone(&document.id))),
            Access::Index => Some(Term::Text(Arc::clone(&self.index))),
            Access::WriteOrder => Some(Term::Number(
                i64::try_from(document.sequence).unwrap_or(i64::MAX),
            )),
            Access::Unmapped => None,
            Access::Text | Access::Number => {
                let terms = document
                    .terms
                    .get(key.field.as_str())
                    .map_or(&[][..], Vec::as_slice);
                let chosen = if key.descending {
                    terms.iter().max()
                } else {
                    terms.iter().min()
                };
                match (chosen, access) {
                    (None, Access::Number) => Some(Term::Number(key.missing_number())),
                    (chosen, _) => chosen.cloned(),
                }
            }
        };
        self.keys.iter().map(value).collect()
    }
}

impl SortKey {
    /// The value of a missing number, as numbers have no null: the last or the first possible one.
    fn missing_number(&self) -> i64 {
        if self.descending == self.missing_first {
            i64::MAX
        } else {
            i64::MIN
        }
    }

    fn compare(&self, left: &SortValue, right: &SortValue) -> Ordering {
        match (left, right) {
            (Some(left), Some(right)) if self.descending => right.cmp(left),
            (Some(left), Some(right)) => left.cmp(right),
            (None, None) => Ordering::Equal,
            (None, Some(_)) if self.missing_first => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => self.compare(right, left).reverse(),
        }
    }
}

fn access(key: &SortKey, view: &View) -> Result<Access, Exception> {
    match key.field.as_str() {
        "_id" => return Ok(Access::Id),
        "_index" => return Ok(Access::Index),
        "_doc" => return Ok(Access::WriteOrder),
        _ => {}
    }
    match view.mapping.field(&key.field).map(|field| field.kind) {
        Some(Kind::Keyword | Kind::FlatObject) => Ok(Access::Text),
        Some(Kind::Long | Kind::Date | Kind::Boolean) => Ok(Access::Number),
        Some(kind) => Err(Exception::illegal_argument(format!(
            "this fake cannot sort on [{}], a {kind:?}",
            key.field
        ))),
        None if key.unmapped_type => Ok(Access::Unmapped),
        None => {
            let reason = format!("No mapping found for [{}] in order to sort on", key.field);
            let exception = Exception::new(400, "query_shard_exception", reason);
            Err(exception
                .with("index", view.index.as_str())
                .with("index_uuid", view.uuid.as_str()))
        }
    }
}

/// Compares by all keys.
pub(super) fn compare(keys: &[SortKey], left: &[SortValue], right: &[SortValue]) -> Ordering {
    let each = keys.iter().zip(left.iter().zip(right));
    each.map(|(key, (left, right))| key.compare(left, right))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Parses `search_after`: one value per key.
pub(super) fn read_after(
    keys: &[SortKey],
    after: &Value,
    view: &View,
) -> Result<Vec<SortValue>, Exception> {
    let values = after.as_array().map_or(&[][..], Vec::as_slice);
    if keys.is_empty() {
        return Err(Exception::illegal_argument(
            "Sort must contain at least one field.",
        ));
    }
    if values.len() != keys.len() {
        let reason = format!(
            "search_after has {} value(s) but sort has {}.",
            values.len(),
            keys.len()
        );
        return Err(Exception::illegal_argument(reason));
    }
    let mut read = Vec::with_capacity(keys.len());
    for (key, value) in keys.iter().zip(values) {
        let kind = match access(key, view)? {
            Access::Number
                if view
                    .mapping
                    .field(&key.field)
                    .is_some_and(|field| field.kind == Kind::Date) =>
            {
                Kind::Date
            }
            Access::Number | Access::WriteOrder => Kind::Long,
            Access::Id | Access::Index | Access::Text | Access::Unmapped => Kind::Keyword,
        };
        let is_missing = value.is_null();
        read.push(if is_missing {
            None
        } else {
            Some(term(kind, value)?)
        });
    }
    Ok(read)
}

/// Returns a sort value as responses contain it.
pub(super) fn shown(value: &SortValue) -> Value {
    match value {
        None => Value::Null,
        Some(Term::Text(text)) => text.as_ref().into(),
        Some(Term::Number(number)) => (*number).into(),
    }
}
