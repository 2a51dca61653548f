//! The finalizer of a `Distribution`.

use fleetdex_distribution::{
    sets::{SET_API_VERSION, SET_KIND, SetName},
    template_name::{NameParts, TemplateName},
};
use http::StatusCode;
use serde_json::json;

use super::set_spec::SET_FINALIZER;
use crate::object_client::{ObjectClient, ObjectPart, ObjectRequestError};

/// Writes the finalizer of a `Distribution`, or takes it away.
pub async fn set_finalizer(
    client: &ObjectClient,
    set: &SetName,
    is_wanted: bool,
) -> Result<(), ObjectRequestError> {
    let name = object_name(set);
    let Some(current) = client.get(&name).await? else {
        return Ok(());
    };
    if current["metadata"]["uid"] != set.uid.as_str() {
        return Ok(());
    }
    let finalizers = current["metadata"]["finalizers"].as_array();
    let others = finalizers.into_iter().flatten();
    let mut finalizers: Vec<_> = others
        .filter(|one| **one != SET_FINALIZER)
        .cloned()
        .collect();
    if is_wanted {
        finalizers.push(SET_FINALIZER.into());
    }
    let patch = json!({"metadata": {
        "finalizers": finalizers, "resourceVersion": current["metadata"]["resourceVersion"],
    }});
    match client.merge(&name, &patch, ObjectPart::Main).await {
        Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => Ok(()),
        other => other.map(drop),
    }
}

/// The name of a `Distribution` as an object.
pub fn object_name(set: &SetName) -> TemplateName {
    TemplateName::from(NameParts {
        api_version: SET_API_VERSION.to_owned(),
        kind: SET_KIND.to_owned(),
        namespace: set.namespace.clone(),
        name: set.name.clone(),
    })
}
