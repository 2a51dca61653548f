//! Encodes requests to webhooks.

use std::borrow::Cow;

use super::{
    dialect::{API_VERSION, Dialect},
    message::{ObjectKind, RequestMembers, RequestMessage},
};
use crate::{Operation, Request, request::AggregatedStatusItem, value};

/// A request cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The dialect has no such operation.
    #[error("{} has no operation {operation}", dialect.message_kind())]
    Unsupported {
        /// The dialect.
        dialect: Dialect,
        /// The operation.
        operation: Operation,
    },
    /// The number of replicas is none that a message can hold.
    #[error("{0} is not a number of replicas: it must be from 0 to {max}", max = i32::MAX)]
    Replicas(i64),
    /// The object does not serialize.
    #[error("cannot write the request as JSON")]
    Serialize(#[from] serde_json::Error),
}

/// The body of a request.
///
/// Released: `replicas` is always present, 0 where no number is asked for; Karmada sends it so.
/// Proposal: it is present when the operation is `ExploreReplicaRevising`, and items of
/// `aggregatedStatus` have no `health`. The proposal's type has no `observedObject`, but an
/// interpreter needs it to answer `ExploreRetaining` (Karmada's first interpreters read it), so it
/// is sent in both dialects.
pub fn encode(dialect: Dialect, uid: &str, request: &Request<'_>) -> Result<Vec<u8>, EncodeError> {
    let message = RequestMessage {
        api_version: API_VERSION,
        kind: dialect.message_kind(),
        request: members(dialect, uid, request)?,
    };
    Ok(serde_json::to_vec(&message)?)
}

fn members<'a>(
    dialect: Dialect,
    uid: &'a str,
    request: &Request<'a>,
) -> Result<RequestMembers<'a>, EncodeError> {
    let operation = request.operation();
    let name = dialect.operation_name(operation);
    let unsupported = EncodeError::Unsupported { dialect, operation };
    let object = request.object();
    let (observed_object, aggregated_status) = match *request {
        Request::Retain { observed, .. } => (Some(observed), Cow::default()),
        Request::AggregateStatus { items, .. } => (None, items_of(dialect, items)),
        _ => (None, Cow::default()),
    };
    Ok(RequestMembers {
        uid,
        kind: ObjectKind {
            group: value::group(object).into(),
            version: value::version(object).into(),
            kind: value::text(object, &["kind"]).into(),
        },
        name: value::text(object, &["metadata", "name"]),
        namespace: value::text(object, &["metadata", "namespace"]),
        operation: name.ok_or(unsupported)?,
        object,
        observed_object,
        replicas: replicas(dialect, request)?,
        aggregated_status,
    })
}

fn replicas(dialect: Dialect, request: &Request<'_>) -> Result<Option<i32>, EncodeError> {
    match (request, dialect) {
        (Request::Revise { replicas, .. }, _) => i32::try_from(*replicas)
            .ok()
            .filter(|number| *number >= 0)
            .map(Some)
            .ok_or(EncodeError::Replicas(*replicas)),
        (_, Dialect::Released) => Ok(Some(0)),
        (_, Dialect::Proposal) => Ok(None),
    }
}

fn items_of(dialect: Dialect, items: &[AggregatedStatusItem]) -> Cow<'_, [AggregatedStatusItem]> {
    let unchanged = |item: &AggregatedStatusItem| item.health.is_empty();
    if dialect == Dialect::Released || items.iter().all(unchanged) {
        return Cow::Borrowed(items);
    }
    let without_health = |item: &AggregatedStatusItem| AggregatedStatusItem {
        health: String::new(),
        ..item.clone()
    };
    Cow::Owned(items.iter().map(without_health).collect())
}
