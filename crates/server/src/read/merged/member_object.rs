//! What one cluster reports of an object.

use std::sync::Arc;

use fleetdex_core::{
    model::{Gvk, Json, parsed_size},
    query::{HeldMemory, Hit, ResourceName},
};
use fleetdex_interpreter::{Request, Response, request::AggregatedStatusItem};
use serde_json::Value;

use crate::read::{
    across_kinds::FromHit,
    interpretation::{InterpretationError, RequestInterpreter},
    object_summary::ObjectSummary,
};

/// The object in one cluster.
pub(super) struct MemberObject {
    pub(super) summary: ObjectSummary,
    /// The object as the store has it: parsed, it takes 20 times as much memory, and more at worst.
    text: Json,
    /// That of the text.
    _memory: HeldMemory,
}

/// What a cluster reports, and what of it is not known.
pub(super) struct MemberReport {
    pub(super) item: AggregatedStatusItem,
    /// `status` or `health`, with the cause.
    pub(super) unknown: Vec<(&'static str, String)>,
}

impl FromHit for MemberObject {
    fn of(resource: &ResourceName, kind: &Gvk, hit: &Hit) -> Self {
        Self {
            summary: ObjectSummary::of(resource, kind, hit),
            text: hit.object.clone(),
            _memory: hit.memory.clone(),
        }
    }
}

impl MemberObject {
    /// The bytes that the object takes when it is parsed.
    pub(super) fn parsed_size(&self) -> usize {
        parsed_size(self.text.get().as_bytes())
    }

    /// The object, with its version and kind.
    pub(super) fn parsed(&self) -> Value {
        let mut object: Value = serde_json::from_str(self.text.get()).unwrap_or_default();
        if object.is_object() {
            object["apiVersion"] = self.summary.kind.api_version().into();
            object["kind"] = (&*self.summary.kind.kind).into();
        }
        object
    }

    /// What the cluster reports, as Karmada's `AggregatedStatusItem`.
    pub(super) async fn report(&self, interpreter: &RequestInterpreter) -> MemberReport {
        let parsed = Arc::new(self.parsed());
        let mut unknown = Vec::new();
        let found_status = reported_status(interpreter, &parsed).await;
        let status = found_status.unwrap_or_else(|error| {
            unknown.push(("status", error.to_string()));
            Value::Null
        });
        let found_health = self.health(interpreter, &parsed).await;
        let health = found_health.unwrap_or_else(|error| {
            unknown.push(("health", error.to_string()));
            "Unknown"
        });
        let item = AggregatedStatusItem {
            cluster_name: self.summary.cluster.to_string(),
            status: Some(status).filter(|status| !status.is_null()),
            applied: true,
            applied_message: String::new(),
            health: health.to_owned(),
        };
        MemberReport { item, unknown }
    }

    /// `Healthy`, `Unhealthy` or `Unknown`: by the index where it knows, or else by the rules.
    async fn health(
        &self,
        interpreter: &RequestInterpreter,
        parsed: &Arc<Value>,
    ) -> Result<&'static str, InterpretationError> {
        let indexed = self.summary.interpretation.health;
        if matches!(indexed, "Healthy" | "Suspended") {
            return Ok("Healthy");
        }
        let interpreted = interpreter.run(parsed, |object| Ok(Request::Health { object }));
        let response = interpreted.await.map(|interpreted| interpreted.response);
        match (response, indexed) {
            (Ok(Response::Health { healthy: true, .. }), _) => Ok("Healthy"),
            (Ok(Response::Health { .. }), _) => Ok("Unhealthy"),
            (Ok(_) | Err(InterpretationError::NoRule { .. }), "" | "Unknown") => Ok("Unknown"),
            (Err(error), "" | "Unknown") => Err(error),
            _ => Ok("Unhealthy"),
        }
    }
}

async fn reported_status(
    interpreter: &RequestInterpreter,
    parsed: &Arc<Value>,
) -> Result<Value, InterpretationError> {
    let interpreted = interpreter.run(parsed, |object| Ok(Request::Status { object }));
    Ok(match interpreted.await?.response {
        Response::Status(status) => status,
        _ => Value::Null,
    })
}
