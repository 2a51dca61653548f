//! What an operation is run on: the objects, status items and replicas of the command line.

use std::collections::BTreeSet;

use fleetdex_interpreter::{Operation, Request, request::AggregatedStatusItem};
use serde_json::{Map, Value};

use fleetdex_cli::documents::{DocumentError, DocumentReader, SourceDocument};

/// The inputs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A source cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A source for one object has none, several, or a document that is no object of Kubernetes.
    #[error("fail to get {role} object: {problem}")]
    Object {
        /// `desired` or `observed`.
        role: &'static str,
        problem: String,
    },
    /// A document is not a status item.
    #[error("fail to get status items: error parsing {origin}: {reason}")]
    Item { origin: String, reason: String },
}

/// What an operation is run on.
#[derive(Clone, Debug, Default)]
pub struct OperationInputs {
    /// The object as it shall be.
    pub desired: Option<Value>,
    /// The object as its member has it.
    pub observed: Option<Value>,
    /// What each member reports.
    pub items: Vec<AggregatedStatusItem>,
    /// The number of replicas that the object shall have.
    pub replicas: i64,
}

impl OperationInputs {
    /// The request of an operation. An error names the flags that are missing.
    ///
    /// Source of the texts: `pkg/util/interpreter/rule.go` of
    /// <https://github.com/karmada-io/karmada>, which refuses two objects where it needs one; here
    /// the one is taken that the parameter of the operation's script is named after.
    pub fn request(&self, operation: Operation) -> Result<Request<'_>, &'static str> {
        let (desired, observed) = (self.desired.as_ref(), self.observed.as_ref());
        if operation == Operation::Retain {
            return Ok(Request::Retain {
                desired: desired.ok_or("desired, desired-file options are not set")?,
                observed: observed.ok_or("observed, observed-file options are not set")?,
            });
        }
        let is_about_observed = matches!(
            operation,
            Operation::InterpretStatus | Operation::InterpretHealth
        );
        let object = if is_about_observed {
            observed.or(desired)
        } else {
            desired.or(observed)
        };
        let object = object.ok_or("desired-file, observed-file options are not set")?;
        Ok(match Request::about(operation, object) {
            Some(request) => request,
            None if operation == Operation::ReviseReplica => Request::Revise {
                object,
                replicas: self.replicas,
            },
            None => Request::AggregateStatus {
                object,
                items: &self.items,
            },
        })
    }
}

/// Reads the only object of a source. `role` is `desired` or `observed`.
pub async fn read_object(
    role: &'static str,
    name: &str,
    reader: &mut DocumentReader<'_>,
) -> Result<Value, InputError> {
    let failed = |problem| Err(InputError::Object { role, problem });
    let mut objects = reader.objects(&[name.to_owned()], false).await?;
    let count = objects.len();
    if count > 1 {
        let problem = format!("get {count} objects in {name}, expect one at most");
        return failed(problem);
    }
    let Some(SourceDocument { source, content }) = objects.pop() else {
        return failed(format!("there is no object in {name}"));
    };
    for (key, shown) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if content[key].as_str().is_none_or(str::is_empty) {
            let problem = format!("unable to decode {source:?}: Object '{shown}' is missing");
            return failed(problem);
        }
    }
    Ok(content)
}

/// Reads status items: one per document, or a list of them. Also returns the names of their members
/// that no status item has.
pub async fn read_items(
    name: &str,
    reader: &mut DocumentReader<'_>,
) -> Result<(Vec<AggregatedStatusItem>, BTreeSet<String>), InputError> {
    let mut items = Vec::new();
    let mut unknown = BTreeSet::new();
    for SourceDocument { source, content } in reader.documents(&[name.to_owned()], false).await? {
        let contents = match content {
            Value::Array(contents) => contents,
            one => vec![one],
        };
        for content in contents {
            unknown.extend(unknown_members(&content));
            items.push(item(content).map_err(|reason| InputError::Item {
                origin: source.clone(),
                reason,
            })?);
        }
    }
    Ok((items, unknown))
}

/// The members of a status item.
pub const ITEM_MEMBERS: [&str; 5] = [
    "clusterName",
    "status",
    "applied",
    "appliedMessage",
    "health",
];
/// What a status item says of health.
const ITEM_HEALTH: [&str; 4] = ["", "Healthy", "Unhealthy", "Unknown"];

/// The members that no status item has, such as `apiVersion`. Karmada ignores them.
fn unknown_members(content: &Value) -> impl Iterator<Item = String> {
    let names = content.as_object().into_iter().flat_map(Map::keys);
    names
        .filter(|name| !ITEM_MEMBERS.contains(&name.as_str()))
        .cloned()
}

/// A status item. As in Go, null is as good as absent.
fn item(mut content: Value) -> Result<AggregatedStatusItem, String> {
    if let Some(members) = content.as_object_mut() {
        members.retain(|_, member| !member.is_null());
    }
    let item: AggregatedStatusItem =
        serde_json::from_value(content).map_err(|error| error.to_string())?;
    if !ITEM_HEALTH.contains(&item.health.as_str()) {
        return Err(format!(
            "health is {:?}, expected Healthy, Unhealthy or Unknown",
            item.health
        ));
    }
    Ok(item)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inputs(desired: bool, observed: bool) -> OperationInputs {
        OperationInputs {
            desired: desired.then(|| json!({"kind": "Desired"})),
            observed: observed.then(|| json!({"kind": "Observed"})),
            ..OperationInputs::default()
        }
    }

    #[test]
    fn each_operation_takes_the_object_that_its_script_is_named_after() {
        for operation in Operation::ALL {
            let both = inputs(true, true);
            let expected = match operation {
                Operation::InterpretStatus | Operation::InterpretHealth => "Observed",
                _ => "Desired",
            };
            let request = both.request(operation).unwrap();
            assert_eq!(request.operation(), operation);
            assert_eq!(request.object()["kind"], expected, "{operation}");
        }
    }

    #[test]
    fn the_other_object_serves_if_it_is_the_only_one() {
        for operation in Operation::ALL {
            if operation == Operation::Retain {
                continue;
            }
            for (one, expected) in [
                (inputs(true, false), "Desired"),
                (inputs(false, true), "Observed"),
            ] {
                assert_eq!(one.request(operation).unwrap().object()["kind"], expected);
            }
            assert_eq!(
                inputs(false, false).request(operation).unwrap_err(),
                "desired-file, observed-file options are not set"
            );
        }
    }

    #[test]
    fn a_retention_needs_both_objects() {
        let retain = |desired, observed| {
            inputs(desired, observed)
                .request(Operation::Retain)
                .map(|_| ())
        };
        assert_eq!(retain(true, true), Ok(()));
        assert_eq!(
            retain(false, true),
            Err("desired, desired-file options are not set")
        );
        assert_eq!(
            retain(true, false),
            Err("observed, observed-file options are not set")
        );
    }

    #[test]
    fn null_in_a_status_item_is_as_good_as_absent() {
        let parsed =
            item(json!({"clusterName": "m1", "status": null, "applied": null, "health": null}))
                .unwrap();
        assert_eq!(
            parsed,
            AggregatedStatusItem {
                cluster_name: "m1".to_owned(),
                ..AggregatedStatusItem::default()
            }
        );
        assert!(item(json!({"clusterName": 3})).is_err());
    }

    #[test]
    fn what_is_no_status_item_is_refused() {
        assert_eq!(
            item(json!({"clusterName": "a", "health": "Bogus"})).unwrap_err(),
            "health is \"Bogus\", expected Healthy, Unhealthy or Unknown"
        );
        assert!(item(json!("a")).is_err());
    }

    #[tokio::test]
    async fn members_that_no_status_item_has_are_ignored_and_named() {
        let mut text: &[u8] = b"apiVersion: work.karmada.io/v1alpha2\nkind: AggregatedStatusItem\nclusterName: m1\n---\n- kind: x\n  clusterName: m2\n";
        let (items, unknown) = read_items("-", &mut DocumentReader::new(&mut text))
            .await
            .unwrap();
        let names: Vec<&str> = items.iter().map(|item| &*item.cluster_name).collect();
        assert_eq!(names, ["m1", "m2"]);
        assert_eq!(
            unknown.into_iter().collect::<Vec<_>>(),
            ["apiVersion", "kind"]
        );
    }
}
