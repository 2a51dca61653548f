//! Questions to the query API.

use std::io::{self, Write};

use async_trait::async_trait;
use axum::{body::Body, response::Response};
use bytes::Bytes;
use fleetdex_crds::distribution::Distribution;
use fleetdex_query_api::{
    answer::{Answer, Explanation, FleetReport, FoundObject, RelatedObjectList, Table},
    group::BASE,
    media_type, warning,
};
use http::{HeaderMap, StatusCode, header::WARNING};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bindings::{BindingsPage, BindingsQuestion};

/// Bytes of one answer that a view reads: twice the largest object that etcd stores by default.
const MAX_ANSWER_BYTES: usize = 3 << 20;
/// Values of one answer. Each takes about 100 bytes in memory, however few it has in JSON.
const MAX_ANSWER_VALUES: usize = 150_000;
/// Warnings of one answer that a view shows, as many as the query API sends.
const MAX_WARNINGS: usize = 10;

/// The query API, as the caller of the page may use it.
#[async_trait]
pub trait QueryApi: Send + Sync {
    /// What a GET of `path`, which may have a query, is answered with, for a view to read.
    async fn ask(&self, path: &str, accept: Accept) -> QueryReply;

    /// The response to the same, for the browser or its stream.
    async fn forward(&self, path: &str, accept: Accept) -> Response;

    /// Whether this server distributes objects of the control plane.
    fn distributes(&self) -> bool;

    /// The bindings of the control plane that the caller may read.
    async fn bindings(&self, question: BindingsQuestion) -> Result<BindingsPage, QueryRefusal>;

    /// A `Distribution` of the control plane, if the caller may read it.
    async fn distribution(&self, namespace: &str, name: &str)
    -> Result<Distribution, QueryRefusal>;
}

/// What the query API replies with.
#[derive(Debug)]
pub enum QueryReply {
    /// An answer, which is not encoded, with warnings for the caller.
    Answer(Box<Answer>, Vec<String>),
    /// Objects as they are stored, or a refusal.
    Response(Response),
}

/// What a view reads of an answer.
pub(crate) trait Read: DeserializeOwned {
    /// Reads an answer; `None` if it is of another kind.
    fn of(answer: Answer) -> Option<Self>;
}

macro_rules! read {
    ($answer:ty, $pattern:pat => $read:expr) => {
        impl Read for $answer {
            fn of(answer: Answer) -> Option<Self> {
                match answer {
                    $pattern => Some($read),
                    _ => None,
                }
            }
        }
    };
}

read!(Table<FoundObject>, Answer::Table(table) => table);
read!(RelatedObjectList, Answer::Related(list) => list);
read!(FleetReport, Answer::Fleet(report) => *report);
read!(Explanation, Answer::Explanation(explanation) => explanation);

/// The representation that a view asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// JSON.
    Json,
    /// A `Table`, as kubectl asks for it.
    Table,
}

impl Accept {
    /// The value of the header `Accept`.
    pub fn header(self) -> &'static str {
        match self {
            Self::Json => media_type::JSON,
            Self::Table => media_type::TABLE,
        }
    }
}

/// What the query API answered, and what it says is missing.
#[derive(Clone, Debug)]
pub(crate) struct Answered<T> {
    pub(crate) value: T,
    pub(crate) warnings: Vec<String>,
}

/// Why it did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryRefusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// Why, for people.
    pub message: String,
}

/// A question's result.
pub(crate) type QueryAnswer<T> = Result<Answered<T>, QueryRefusal>;

/// Asks a question below the group and version.
pub(crate) async fn ask<T: Read>(api: &dyn QueryApi, path: &str, accept: Accept) -> QueryAnswer<T> {
    match api.ask(&format!("{BASE}{path}"), accept).await {
        QueryReply::Answer(answer, warnings) => {
            AnswerSize::of(&answer)?;
            let value = T::of(*answer).ok_or_else(|| unreadable("it is of another kind"))?;
            Ok(Answered {
                value,
                warnings: warnings.into_iter().take(MAX_WARNINGS).collect(),
            })
        }
        QueryReply::Response(response) => decode(response).await,
    }
}

/// Decodes a list of objects as they are stored.
async fn decode<T: DeserializeOwned>(response: Response) -> QueryAnswer<T> {
    let (parts, body) = response.into_parts();
    let bytes = read(body).await?;
    if !parts.status.is_success() {
        return Err(QueryRefusal {
            status: parts.status,
            message: message(&bytes),
        });
    }
    let written = AnswerSize::default().write_all(&bytes);
    written.map_err(|_| too_large())?;
    let value = serde_json::from_slice(&bytes).map_err(|error| unreadable(&error.to_string()))?;
    Ok(Answered {
        value,
        warnings: warnings(&parts.headers),
    })
}

/// The size of an answer as JSON. Writing to it fails when a view does not read as much.
#[derive(Default)]
struct AnswerSize {
    bytes: usize,
    values: usize,
}

impl AnswerSize {
    /// Refuses an answer that is larger than a view reads.
    fn of(answer: &Answer) -> Result<(), QueryRefusal> {
        serde_json::to_writer(Self::default(), answer).map_err(|_| too_large())
    }
}

impl Write for AnswerSize {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        let is_separator = |byte: &&u8| matches!(byte, b',' | b':' | b'[' | b'{');
        self.bytes += json.len();
        self.values += json.iter().filter(is_separator).count();
        if self.bytes > MAX_ANSWER_BYTES || self.values > MAX_ANSWER_VALUES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unreadable(cause: &str) -> QueryRefusal {
    QueryRefusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        message: format!("The answer cannot be shown here: {cause}. Ask with kubectl or fleetdex."),
    }
}

async fn read(body: Body) -> Result<Bytes, QueryRefusal> {
    let read = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    match read {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => Err(QueryRefusal {
            status: StatusCode::BAD_GATEWAY,
            message: format!("The answer could not be read to its end: {error}."),
        }),
    }
}

fn too_large() -> QueryRefusal {
    QueryRefusal {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        message: format!(
            "The answer is larger than a page shows: {} MiB, or {MAX_ANSWER_VALUES} values. Ask with kubectl or fleetdex.",
            MAX_ANSWER_BYTES >> 20
        ),
    }
}

/// The message of a `Status`.
pub(crate) fn message(status: &[u8]) -> String {
    let status: Option<Value> = serde_json::from_slice(status).ok();
    let message = status
        .as_ref()
        .and_then(|status| status["message"].as_str());
    let message = message.unwrap_or("the query API refused the request");
    message.to_owned()
}

/// The texts of `299 - "text"`.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(WARNING).iter();
    let texts = values.filter_map(|value| warning::text(value.to_str().ok()?));
    texts.take(MAX_WARNINGS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_larger_than_a_page_are_refused_before_they_are_shown() {
        let explanation = |requests: usize, body: &str| {
            Answer::Explanation(Explanation::of(vec![body.into(); requests]))
        };
        assert_eq!(AnswerSize::of(&explanation(10, "x")), Ok(()));
        let long = "x".repeat(1 << 20);
        assert_eq!(AnswerSize::of(&explanation(3, &long)), Err(too_large()));
        let many = explanation(MAX_ANSWER_VALUES, "");
        assert_eq!(AnswerSize::of(&many), Err(too_large()));
    }

    #[test]
    fn warnings_and_messages_are_read() {
        let mut headers = HeaderMap::new();
        headers.append(WARNING, r#"299 - "cluster \"m\" is old""#.parse().unwrap());
        headers.append(WARNING, "110 - stale".parse().unwrap());
        assert_eq!(warnings(&headers), ["cluster \"m\" is old"]);
        assert_eq!(message(br#"{"message":"no"}"#), "no");
        assert_eq!(message(b"<html>"), "the query API refused the request");
    }
}
