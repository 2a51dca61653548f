//! How an answer is laid out: whole objects, a Table, or metadata only; as JSON or as YAML; for machines or indented.
//!
//! [`Representation::negotiate`] reads that from a request as a Kubernetes API server does. [`Layout`] applies it: to one object
//! ([`Layout::object`], for an object by name and for every event of a watch), or to a list, piece by piece ([`Sheet`]). Objects stay
//! the JSON that they are stored as: they are copied, re-indented or rewritten as YAML, but no value tree is made of them.

mod accept;
mod form;
mod indent;
mod layout;
mod yaml;

#[cfg(test)]
mod tests;

pub use form::{Encoding, Endpoint, Form, IncludeObject, MetaVersion, Representation};
use http::{HeaderMap, header};
pub use layout::{Layout, Sheet};

use self::accept::Clause;
use super::{percent::decode_query, status::ApiError};

/// Clients in front of which somebody sits. Kubernetes' API server indents for them, too.
const HUMAN_CLIENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

impl Representation {
    /// What a request wants, by its header `Accept` and its parameters `includeObject` and `pretty`.
    ///
    /// The first clause wins that can be served; a client that names nothing gets [`PLAIN`](Self::PLAIN). Nothing that can be served is
    /// [`ApiError::NotAcceptable`].
    pub fn negotiate(
        endpoint: Endpoint,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Self, ApiError> {
        let header = accept::text(headers);
        let chosen = if header.trim().is_empty() {
            Some(Self::PLAIN)
        } else {
            choose(endpoint, &header)
        };
        let mut representation = chosen.ok_or(ApiError::NotAcceptable(header))?;
        if let Form::Table(_, include) = &mut representation.form {
            *include = include_object(query)?;
        }
        representation.pretty =
            asked_for_pretty(query).unwrap_or(representation.pretty || is_read_by_people(headers));
        Ok(representation)
    }

    /// A document that is no object.
    pub fn document(&self, json: &str) -> Result<Vec<u8>, ApiError> {
        layout::encoded(*self, [json.as_bytes(), b"\n"].concat())
    }
}

fn choose(endpoint: Endpoint, header: &str) -> Option<Representation> {
    let clauses = accept::clauses(header);
    clauses.iter().find_map(|clause| {
        let encoding = encodings(endpoint)
            .iter()
            .find(|encoding| clause.means(encoding.subtype()))?;
        let is_served = clause.parameters().all(|(key, value)| match key {
            "stream" => matches!(value, "" | "watch") && *encoding == Encoding::Json,
            "sv" => matches!(value, "" | "v1"),
            _ => true,
        });
        let form = form_of(endpoint, clause).filter(|_| is_served)?;
        Some(Representation {
            form,
            encoding: *encoding,
            pretty: clause.parameter("pretty") == Some("1"),
        })
    })
}

/// Events are told apart by lines of JSON.
fn encodings(endpoint: Endpoint) -> &'static [Encoding] {
    match endpoint {
        Endpoint::Watch => &[Encoding::Json],
        Endpoint::Document | Endpoint::Object | Endpoint::List | Endpoint::Counts => {
            &[Encoding::Json, Encoding::Yaml]
        }
    }
}

/// What a clause wants to see of objects, if that can be served.
fn form_of(endpoint: Endpoint, clause: &Clause<'_>) -> Option<Form> {
    let target = [
        clause.parameter("as"),
        clause.parameter("g"),
        clause.parameter("v"),
    ];
    if target == [None; 3] {
        return Some(Form::Whole);
    }
    let version = match target[1..] {
        [Some("meta.k8s.io"), Some("v1")] => MetaVersion::V1,
        [Some("meta.k8s.io"), Some("v1beta1")] => MetaVersion::V1Beta1,
        _ => return None,
    };
    match (target[0]?, endpoint) {
        (_, Endpoint::Document) => None,
        ("Table", _) => Some(Form::Table(version, IncludeObject::default())),
        ("PartialObjectMetadata", Endpoint::Object | Endpoint::Watch)
        | ("PartialObjectMetadataList", Endpoint::List) => Some(Form::Metadata(version)),
        _ => None,
    }
}

fn include_object(query: Option<&str>) -> Result<IncludeObject, ApiError> {
    match parameter(query, "includeObject").as_deref() {
        None | Some("") => Ok(IncludeObject::default()),
        Some("None") => Ok(IncludeObject::None),
        Some("Metadata") => Ok(IncludeObject::Metadata),
        Some("Object") => Ok(IncludeObject::Object),
        Some(other) => Err(ApiError::bad_request(format!(
            "parameter includeObject: {other:?} is none of None, Metadata and Object"
        ))),
    }
}

/// As Go reads a boolean: what is none is false.
fn asked_for_pretty(query: Option<&str>) -> Option<bool> {
    let value = parameter(query, "pretty").filter(|value| !value.is_empty())?;
    Some(matches!(
        value.as_str(),
        "1" | "t" | "T" | "true" | "TRUE" | "True"
    ))
}

fn is_read_by_people(headers: &HeaderMap) -> bool {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    HUMAN_CLIENTS.iter().any(|client| agent.starts_with(client))
}

/// The value of a query parameter. What cannot be decoded has been refused before.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(key, _)| decode_query(key).is_ok_and(|key| key == name));
    decode_query(found.next()?.1).ok()
}
