//! Actions of requests that change aliases, each request atomic, and how a refused one reads.

use fleetdex_core::model::IndexName;
use serde_json::{Value, json};

use crate::StoreError;

/// What OpenSearch (3.4, 2.19) says if an alias that has to exist does not: when it reads the
/// request, or when it applies it, after another one.
const ALIAS_MISSING: [&str; 2] = ["aliases_not_found_exception", "required alias ["];

/// Removes an alias from an index, if it is there.
pub(crate) fn remove(index: &IndexName, alias: &IndexName) -> Value {
    json!({ "remove": { "index": index, "alias": alias } })
}

/// Removes an alias from an index. If it is not there, the whole request is refused.
pub(crate) fn remove_existing(index: &IndexName, alias: &IndexName) -> Value {
    json!({ "remove": { "index": index, "alias": alias, "must_exist": true } })
}

/// Whether a request was refused because an alias that it removes is gone.
pub(crate) fn lacks_alias(refusal: &StoreError) -> bool {
    matches!(refusal, StoreError::Refused { reason, .. }
        if ALIAS_MISSING.iter().any(|missing| reason.contains(missing)))
}
