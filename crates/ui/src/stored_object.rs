//! One object as the index has it.

use fleetdex_query_api::answer::{Answer, ListMetadata};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    address::ObjectAddress,
    query::{Accept, Answered, QueryAnswer, QueryApi, QueryRefusal, Read, ask},
};

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    pub(crate) object: Value,
    /// The time of what is shown, if the cluster is not read at present.
    pub(crate) as_of: Option<String>,
}

/// A list with the object, or without it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObjectList {
    metadata: ListMetadata,
    items: Vec<Value>,
}

impl Read for ObjectList {
    fn of(_: Answer) -> Option<Self> {
        // Lists of one kind are sent as they are stored.
        None
    }
}

/// The object at an address, not older than a version, which is a parameter of the query API or
/// empty. 404 if the caller sees none there.
pub(crate) async fn stored_object(
    api: &dyn QueryApi,
    address: &ObjectAddress,
    not_older_than: &str,
) -> QueryAnswer<StoredObject> {
    let question = format!("{}?{not_older_than}", address.query());
    let question = question.trim_end_matches('?');
    let listed: Answered<ObjectList> = ask(api, question, Accept::Json).await?;
    let ObjectList { metadata, items } = listed.value;
    let object = items.into_iter().next().ok_or_else(|| gone(address))?;
    Ok(Answered {
        value: StoredObject {
            object,
            as_of: metadata
                .as_of
                .get(&address.cluster)
                .map(ToString::to_string),
        },
        warnings: listed.warnings,
    })
}

fn gone(address: &ObjectAddress) -> QueryRefusal {
    let path = &address.path;
    let namespace = path.namespace.as_ref();
    let namespace = namespace.map(|name| format!(" in namespace {name}"));
    QueryRefusal {
        status: StatusCode::NOT_FOUND,
        message: format!(
            "Cluster {} has no {} {} that you may see{}. It may have been deleted.",
            address.cluster,
            path.resource(),
            path.name,
            namespace.unwrap_or_default()
        ),
    }
}
