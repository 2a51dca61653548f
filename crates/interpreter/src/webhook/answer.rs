//! Decodes the answers of webhooks.

use fleetdex_core::model::{json_fault, quoted};
use serde_json::Value;

use super::{
    answer_error::{AnswerError, MAX_ANSWER_BYTES, invalid},
    check::check,
    dialect::{API_VERSION, Dialect},
    message::{AnswerMessage, AnswerStatus, JsonObject, ReadMembers},
    patch::{self, PatchFault},
};
use crate::{Operation, Request, Response, health};

/// The result that an answer holds.
///
/// The answer may lack `apiVersion` and `kind`, as those of Karmada's server library do. In the
/// proposal an answer is successful without saying so. If it does say so, it is read as a released
/// one: Karmada's first servers answered an `ExploreReview` like that.
pub fn decode(
    dialect: Dialect,
    uid: &str,
    request: &Request<'_>,
    body: &[u8],
) -> Result<Response, AnswerError> {
    let members = members(dialect, body)?;
    if members.uid != uid {
        return Err(AnswerError::OtherUid {
            expected: quoted(uid),
            found: quoted(&members.uid),
        });
    }
    let explicit = dialect == Dialect::Released || members.successful.is_some();
    if explicit && members.successful != Some(true) {
        return Err(failure(members.status));
    }
    let response = response(request, members, explicit)?;
    check(request, &response)?;
    Ok(response)
}

fn members(dialect: Dialect, body: &[u8]) -> Result<ReadMembers, AnswerError> {
    if body.len() > MAX_ANSWER_BYTES {
        return Err(AnswerError::TooLarge(body.len()));
    }
    let JsonObject::<AnswerMessage<ReadMembers>>(message) = serde_json::from_slice(body)
        .map_err(|error| AnswerError::Unreadable(json_fault(&error)))?;
    let expected = dialect.message_kind();
    let fits = |found: &str, expected: &str| found.is_empty() || found == expected;
    if !fits(&message.api_version, API_VERSION) || !fits(&message.kind, expected) {
        let found = format!("{} {}", message.api_version, message.kind);
        return Err(AnswerError::OtherKind {
            expected,
            found: quoted(&found),
        });
    }
    match message.response {
        Some(JsonObject(members)) => Ok(members),
        None => Err(AnswerError::NoResponse),
    }
}

/// What an unsuccessful answer gives as the reason.
fn failure(status: Option<Value>) -> AnswerError {
    let Some(status) = status else {
        return AnswerError::Unexplained;
    };
    match serde_json::from_value::<JsonObject<AnswerStatus>>(status) {
        Ok(JsonObject(AnswerStatus { message, code })) => AnswerError::Unsuccessful {
            code,
            message: match quoted(&message) {
                empty if empty.is_empty() => "no reason given".to_owned(),
                message => message,
            },
        },
        Err(_) => invalid("status", "is not an object of a message and a code"),
    }
}

fn response(
    request: &Request<'_>,
    members: ReadMembers,
    explicit: bool,
) -> Result<Response, AnswerError> {
    let operation = request.operation();
    let absent = |member| AnswerError::Absent(operation, member);
    Ok(match operation {
        Operation::InterpretReplica => Response::Replica {
            replicas: members.replicas.ok_or(absent("replicas"))?,
            requirements: members.replica_requirements.map(|object| object.0),
        },
        Operation::InterpretComponent => Response::Components(converted(members.components)),
        Operation::InterpretDependency => Response::Dependencies(converted(members.dependencies)),
        Operation::InterpretHealth => {
            let healthy = members.healthy.ok_or(absent("healthy"))?;
            Response::Health {
                assessment: health::from_boolean(request.object(), healthy),
                healthy,
            }
        }
        Operation::InterpretStatus if explicit => {
            Response::Status(members.raw_status.ok_or(absent("rawStatus"))?)
        }
        Operation::InterpretStatus => Response::Status(members.status.ok_or(absent("status"))?),
        Operation::ReviseReplica => Response::Revised(patched(request, &members)?),
        Operation::Retain => Response::Retained(patched(request, &members)?),
        Operation::AggregateStatus => Response::AggregatedStatus(patched(request, &members)?),
        Operation::Prune => Response::Pruned(patched(request, &members)?),
    })
}

/// The object of the request, or the desired one, with the patch applied.
fn patched(request: &Request<'_>, members: &ReadMembers) -> Result<Value, PatchFault> {
    let operations = patch::operations(members.patch.as_deref(), members.patch_type.as_deref())?;
    patch::patched(request.object(), &operations)
}

fn converted<T, U: From<T>>(items: Option<Vec<T>>) -> Vec<U> {
    items.into_iter().flatten().map(U::from).collect()
}

#[cfg(test)]
mod tests;
