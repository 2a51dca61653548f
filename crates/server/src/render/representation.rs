//! Content negotiation and encoding: whole objects, a Table, or metadata only; as JSON or as YAML;
//! compact or indented.
//!
//! [`Representation::negotiate`] reads the request's preference as a Kubernetes API server does.
//! [`ObjectEncoder`] encodes one object (for an object by name and for every event of a watch), and
//! [`ListEncoder`] encodes a list, piece by piece. Objects stay the JSON that they are stored as:
//! they are copied, indented or rewritten as YAML, but never parsed into a value tree.

mod accept;
mod format;
mod indent;
mod object_encoder;
mod yaml;

#[cfg(test)]
mod tests;

pub(crate) use accept::text as accept_header;
use fleetdex_limits::computing::beside_serving_if_long;
use fleetdex_query_api::uri::QueryParameters;
pub use format::{Encoding, Endpoint, IncludeObject, MetaVersion, OutputKind, Representation};
use http::{HeaderMap, header};
pub use object_encoder::{ListEncoder, ObjectEncoder};

use self::accept::Clause;
use crate::api_error::ApiError;

/// Clients that people read. Kubernetes' API server indents for them, too.
const HUMAN_CLIENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

impl Representation {
    /// Negotiates the representation by the header `Accept` and the parameters `includeObject` and
    /// `pretty`.
    ///
    /// The first clause wins that can be served; without the header it is [`PLAIN`](Self::PLAIN).
    /// If no clause can be served, the error is [`ApiError::NotAcceptable`].
    pub fn negotiate(
        endpoint: Endpoint,
        headers: &HeaderMap,
        query: &QueryParameters<'_>,
    ) -> Result<Self, ApiError> {
        let header = accept::text(headers);
        let chosen = if header.trim().is_empty() {
            Some(Self::PLAIN)
        } else {
            choose(endpoint, &header)
        };
        let mut representation = chosen.ok_or(ApiError::NotAcceptable(header))?;
        if let OutputKind::Table(_, include) = &mut representation.output {
            *include = include_object(query)?;
        }
        representation.pretty =
            asked_for_pretty(query).unwrap_or(representation.pretty || is_read_by_people(headers));
        Ok(representation)
    }

    /// About how many bytes it takes to show a document that is in memory: changed, as it is shown,
    /// and before that is laid out.
    pub fn needed(&self, json: &str) -> usize {
        let length = json.len();
        if !self.pretty && self.encoding != Encoding::Yaml {
            return 2 * length;
        }
        let laid_out = || indent::laid_out_size(json.as_bytes());
        2 * length + beside_serving_if_long(length, laid_out).unwrap_or(length)
    }

    /// Encodes a document that is no object.
    pub fn document(&self, json: &str) -> Result<Vec<u8>, ApiError> {
        object_encoder::encoded(*self, [json.as_bytes(), b"\n"].concat())
    }
}

fn choose(endpoint: Endpoint, header: &str) -> Option<Representation> {
    let clauses = accept::clauses(header);
    clauses.iter().find_map(|clause| {
        let encoding = encodings(endpoint)
            .iter()
            .find(|encoding| clause.accepts(encoding.subtype()))?;
        let is_served = clause.parameters().all(|(key, value)| match key {
            "stream" => matches!(value, "" | "watch") && *encoding == Encoding::Json,
            "sv" => matches!(value, "" | "v1"),
            _ => true,
        });
        let output = output_kind(endpoint, clause).filter(|_| is_served)?;
        Some(Representation {
            output,
            encoding: *encoding,
            pretty: clause.parameter("pretty") == Some("1"),
        })
    })
}

/// A watch is a sequence of lines of JSON.
fn encodings(endpoint: Endpoint) -> &'static [Encoding] {
    let all = &[Encoding::Json, Encoding::Yaml];
    if endpoint == Endpoint::Watch {
        &all[..1]
    } else {
        all
    }
}

/// The kind of output that a clause asks for, if that can be served.
fn output_kind(endpoint: Endpoint, clause: &Clause<'_>) -> Option<OutputKind> {
    let target = ["as", "g", "v"].map(|name| clause.parameter(name));
    if target == [None; 3] {
        return Some(OutputKind::Object);
    }
    let version = match target[1..] {
        [Some("meta.k8s.io"), Some("v1")] => MetaVersion::V1,
        [Some("meta.k8s.io"), Some("v1beta1")] => MetaVersion::V1Beta1,
        _ => return None,
    };
    match (target[0]?, endpoint) {
        (_, Endpoint::Document) => None,
        ("Table", _) => Some(OutputKind::Table(version, IncludeObject::default())),
        ("PartialObjectMetadata", Endpoint::Object | Endpoint::Watch)
        | ("PartialObjectMetadataList", Endpoint::List) => {
            Some(OutputKind::PartialMetadata(version))
        }
        _ => None,
    }
}

fn include_object(query: &QueryParameters<'_>) -> Result<IncludeObject, ApiError> {
    match query.first("includeObject") {
        None | Some("") => Ok(IncludeObject::default()),
        Some("None") => Ok(IncludeObject::None),
        Some("Metadata") => Ok(IncludeObject::Metadata),
        Some("Object") => Ok(IncludeObject::Object),
        Some(other) => Err(ApiError::bad_request(format!(
            "parameter includeObject: {other:?} is not one of None, Metadata and Object"
        ))),
    }
}

/// As Go reads a boolean: an invalid one is false.
fn asked_for_pretty(query: &QueryParameters<'_>) -> Option<bool> {
    let value = query.first("pretty").filter(|value| !value.is_empty())?;
    Some(matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"))
}

fn is_read_by_people(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT);
    let agent = agent
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    HUMAN_CLIENTS.iter().any(|client| agent.starts_with(client))
}
