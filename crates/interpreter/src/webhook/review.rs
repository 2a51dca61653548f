//! The servers' side: requests in either dialect, and answers in the dialect of the request.

use fleetdex_core::model::{Gvk, json_fault, quoted};
use serde_json::{Value, json};

use super::{
    answer_error::AnswerError,
    check::check,
    dialect::{API_VERSION, Dialect},
    message::{
        AnswerMessage, AnswerStatus, JSON_PATCH, JsonObject, ReceivedMembers, ReceivedMessage,
        SentMembers,
    },
    patch,
};
use crate::{Operation, Request, Response, request::AggregatedStatusItem};

/// The longest body of a request, in bytes: a desired and an observed object of the greatest size
/// fit.
pub const MAX_REQUEST_BYTES: usize = 20 << 20;

/// A received request, which is not checked yet beyond what its answer needs: see
/// [`ReviewRequest::request`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewRequest {
    /// How it was asked.
    pub dialect: Dialect,
    /// What tells this request from others; the answer repeats it.
    pub uid: String,
    /// What is asked.
    pub operation: Operation,
    /// The kind of the object.
    pub gvk: Gvk,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object; empty if it has none.
    pub namespace: String,
    /// The object; of a retention, the desired one.
    pub object: Value,
    /// Of a retention: the object as its member has it.
    pub observed_object: Option<Value>,
    /// Of a revision: the number of replicas.
    pub replicas: Option<i32>,
    /// Of an aggregation: what each member reports.
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// A body is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewRequestError {
    /// It is too long.
    #[error("the request has {0} bytes, more than {MAX_REQUEST_BYTES}")]
    TooLarge(usize),
    /// It is no message.
    #[error("the request cannot be read: {0}")]
    Unreadable(String),
    /// It is an object of another kind.
    #[error(
        "the body is \"{0}\", neither ResourceInterpreterContext nor ExploreReview of {API_VERSION}"
    )]
    OtherKind(String),
    /// A member is absent.
    #[error("{0} is absent")]
    Absent(&'static str),
    /// The operation is not known.
    #[error("request.operation \"{name}\" is not one of {}", dialect.operation_names().collect::<Vec<_>>().join(", "))]
    UnknownOperation {
        /// The dialect, by the kind of the message.
        dialect: Dialect,
        /// The operation.
        name: String,
    },
    /// The number of replicas is negative.
    #[error("request.replicas is negative")]
    NegativeReplicas,
}

impl ReviewRequest {
    /// Reads a body. The kind of the message is the dialect; without a kind, the operation's name
    /// tells it.
    pub fn decode(body: &[u8]) -> Result<Self, ReviewRequestError> {
        if body.len() > MAX_REQUEST_BYTES {
            return Err(ReviewRequestError::TooLarge(body.len()));
        }
        let JsonObject::<ReceivedMessage>(message) = serde_json::from_slice(body)
            .map_err(|error| ReviewRequestError::Unreadable(json_fault(&error)))?;
        let dialect = dialect_of(&message)?;
        let JsonObject(members) = message
            .request
            .ok_or(ReviewRequestError::Absent("request"))?;
        if members.uid.is_empty() {
            return Err(ReviewRequestError::Absent("request.uid"));
        }
        Self::new(dialect, members)
    }

    fn new(dialect: Dialect, members: ReceivedMembers) -> Result<Self, ReviewRequestError> {
        let name = members.operation;
        let operation =
            dialect
                .operation(&name)
                .ok_or_else(|| ReviewRequestError::UnknownOperation {
                    dialect,
                    name: quoted(&name),
                })?;
        let kind = members.kind;
        Ok(Self {
            dialect,
            uid: members.uid,
            operation,
            gvk: Gvk::new(&kind.group, &kind.version, &kind.kind),
            name: members.name,
            namespace: members.namespace,
            object: members.object,
            observed_object: members.observed_object,
            replicas: members.replicas,
            aggregated_status: members.aggregated_status,
        })
    }

    /// The operation on its object, with what it needs.
    pub fn request(&self) -> Result<Request<'_>, ReviewRequestError> {
        let object = &self.object;
        if !object.is_object() {
            return Err(ReviewRequestError::Absent("request.object"));
        }
        if let Some(request) = Request::about(self.operation, object) {
            return Ok(request);
        }
        Ok(match self.operation {
            Operation::ReviseReplica => Request::Revise {
                object,
                replicas: self.desired_replicas()?,
            },
            Operation::Retain => Request::Retain {
                desired: object,
                observed: self
                    .observed_object
                    .as_ref()
                    .filter(|observed| observed.is_object())
                    .ok_or(ReviewRequestError::Absent("request.observedObject"))?,
            },
            _ => Request::AggregateStatus {
                object,
                items: &self.aggregated_status,
            },
        })
    }

    fn desired_replicas(&self) -> Result<i64, ReviewRequestError> {
        let replicas = self
            .replicas
            .ok_or(ReviewRequestError::Absent("request.replicas"))?;
        if replicas < 0 {
            return Err(ReviewRequestError::NegativeReplicas);
        }
        Ok(replicas.into())
    }
}

fn dialect_of(message: &ReceivedMessage) -> Result<Dialect, ReviewRequestError> {
    let named = |dialect: &Dialect| message.kind == dialect.message_kind();
    let operation = message
        .request
        .as_ref()
        .map(|JsonObject(request)| &*request.operation);
    let by_operation = |dialect: &Dialect| {
        message.kind.is_empty() && operation.is_some_and(|name| dialect.operation(name).is_some())
    };
    let version_fits = message.api_version.is_empty() || message.api_version == API_VERSION;
    Dialect::ALL
        .into_iter()
        .filter(|_| version_fits)
        .find(|dialect| named(dialect) || by_operation(dialect))
        .ok_or_else(|| {
            let found = format!("{} {}", message.api_version, message.kind);
            ReviewRequestError::OtherKind(quoted(&found))
        })
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and most are answers"
)]
pub enum ReviewResponse {
    /// The result of the operation.
    Answer(Response),
    /// There is none.
    Failure {
        /// A code as HTTP has them, from 400 on.
        code: u16,
        /// Why there is none.
        message: String,
    },
}

/// A response is no answer to the request.
#[derive(Debug, thiserror::Error)]
pub enum ReviewResponseError {
    /// It is the result of another operation.
    #[error("the response is the result of {found}, and the request is for {asked}")]
    OtherOperation {
        /// The operation of the request.
        asked: Operation,
        /// That of the response.
        found: Operation,
    },
    /// No client would accept it.
    #[error("no client accepts this response: {0}")]
    Invalid(#[from] AnswerError),
    /// The request lacks what the answer is made from.
    #[error(transparent)]
    Request(#[from] ReviewRequestError),
    /// It does not serialize.
    #[error("cannot write the response as JSON")]
    Serialize(#[from] serde_json::Error),
}

impl ReviewResponse {
    /// The status of the HTTP response. Karmada's servers answer 200 in any case, with the failure
    /// in the body. The proposal's answers have no member for a failure, so that its clients learn
    /// of it from the status.
    pub fn http_status(&self, dialect: Dialect) -> u16 {
        match (self, dialect) {
            (Self::Failure { code, .. }, Dialect::Proposal) => (*code).clamp(400, 599),
            _ => 200,
        }
    }

    /// The body of the answer to a request, in its dialect.
    pub fn encode(&self, to: &ReviewRequest) -> Result<Vec<u8>, ReviewResponseError> {
        let mut members = match self {
            Self::Answer(response) => answer(to, response)?,
            Self::Failure { code, message } => failure(*code, message)?,
        };
        members.uid.clone_from(&to.uid);
        Ok(serde_json::to_vec(&AnswerMessage {
            api_version: API_VERSION.to_owned(),
            kind: to.dialect.message_kind().to_owned(),
            response: Some(JsonObject(members)),
        })?)
    }

    /// The body of the answer to a body that is no request: a failure that names no kind, because
    /// the dialect is not known. `uid` is empty if the body has none.
    pub fn encode_refusal(
        uid: &str,
        code: u16,
        message: &str,
    ) -> Result<Vec<u8>, ReviewResponseError> {
        let members = SentMembers {
            uid: uid.to_owned(),
            ..failure(code, message)?
        };
        Ok(serde_json::to_vec(&AnswerMessage {
            response: Some(JsonObject(members)),
            ..AnswerMessage::default()
        })?)
    }
}

fn failure(code: u16, message: &str) -> serde_json::Result<SentMembers> {
    let status = AnswerStatus {
        message: message.to_owned(),
        code: code.into(),
    };
    Ok(SentMembers {
        successful: Some(false),
        status: Some(serde_json::to_value(status)?),
        ..SentMembers::default()
    })
}

fn answer(to: &ReviewRequest, response: &Response) -> Result<SentMembers, ReviewResponseError> {
    let request = to.request()?;
    let (asked, found) = (request.operation(), operation_of(response));
    if asked != found {
        return Err(ReviewResponseError::OtherOperation { asked, found });
    }
    check(&request, response)?;
    let mut members = SentMembers::default();
    if to.dialect == Dialect::Released {
        members.successful = Some(true);
        members.status = Some(json!({"code": 200}));
    }
    match response {
        Response::Replica {
            replicas,
            requirements,
        } => {
            members.replicas = Some(*replicas);
            members.replica_requirements = requirements.clone().map(JsonObject);
        }
        Response::Components(components) => {
            members.components = Some(components.clone());
        }
        Response::Dependencies(dependencies) => {
            members.dependencies = Some(dependencies.clone());
        }
        Response::Health { healthy, .. } => members.healthy = Some(*healthy),
        Response::Status(status) if to.dialect == Dialect::Released => {
            members.raw_status = Some(status.clone());
        }
        Response::Status(status) => members.status = Some(status.clone()),
        Response::Revised(object)
        | Response::Retained(object)
        | Response::AggregatedStatus(object)
        | Response::Pruned(object) => {
            members.patch = patch::difference(&to.object, object)?;
            members.patch_type = members.patch.as_ref().map(|_| JSON_PATCH.to_owned());
        }
    }
    Ok(members)
}

fn operation_of(response: &Response) -> Operation {
    match response {
        Response::Replica { .. } => Operation::InterpretReplica,
        Response::Components(_) => Operation::InterpretComponent,
        Response::Revised(_) => Operation::ReviseReplica,
        Response::Retained(_) => Operation::Retain,
        Response::AggregatedStatus(_) => Operation::AggregateStatus,
        Response::Status(_) => Operation::InterpretStatus,
        Response::Health { .. } => Operation::InterpretHealth,
        Response::Dependencies(_) => Operation::InterpretDependency,
        Response::Pruned(_) => Operation::Prune,
    }
}

#[cfg(test)]
mod tests;
