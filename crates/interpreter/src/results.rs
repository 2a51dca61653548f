//! The names of results, under which `fleetdex interpret` and the API print them.
//!
//! Source of the names: `pkg/util/interpreter/rule.go` of <https://github.com/karmada-io/karmada>

use serde::Serialize;
use serde_json::{Map, Value};

use crate::Response;

/// The results of a response by their names, in the order in which Karmada's command line prints
/// them.
pub fn named(response: &Response) -> Vec<(&'static str, Value)> {
    match response {
        Response::Replica {
            replicas,
            requirements,
        } => vec![
            ("replica", (*replicas).into()),
            ("requires", json(requirements)),
        ],
        Response::Components(components) => vec![("components", json(components))],
        Response::Revised(object) => vec![("revised", object.clone())],
        Response::Retained(object) => vec![("retained", object.clone())],
        Response::AggregatedStatus(object) => vec![("aggregatedStatus", object.clone())],
        Response::Status(status) => vec![("status", status.clone())],
        Response::Health { healthy, .. } => vec![("healthy", (*healthy).into())],
        Response::Dependencies(dependencies) => vec![("dependencies", json(dependencies))],
        Response::Pruned(object) => vec![("pruned", object.clone())],
    }
}

/// All results of a response as one object. Health has its word, reason and message beside the
/// boolean.
pub fn object(response: &Response) -> Map<String, Value> {
    let mut members: Map<String, Value> = named(response)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    if let Response::Health { assessment, .. } = response {
        members.insert("health".to_owned(), assessment.health.as_str().into());
        members.insert("reason".to_owned(), assessment.reason.as_str().into());
        members.insert("message".to_owned(), assessment.message.as_str().into());
    }
    members
}

/// The JSON of a type of this crate, whose keys are text, so that it has one.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        health::{Assessment, Health},
        request::{Component, DependentObject, ReplicaRequirements},
    };

    #[test]
    fn every_operation_has_the_names_of_karmada() {
        let revised = json!({"kind": "Foo"});
        let requirements = ReplicaRequirements {
            namespace: "web".to_owned(),
            ..ReplicaRequirements::default()
        };
        let component = Component {
            name: "driver".to_owned(),
            replicas: 1,
            replica_requirements: None,
        };
        let dependency = DependentObject {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            namespace: "web".to_owned(),
            name: "db".to_owned(),
            label_selector: None,
        };
        for (response, expected) in [
            (
                Response::Replica {
                    replicas: 3,
                    requirements: Some(requirements),
                },
                json!({"replica": 3, "requires": {"namespace": "web"}}),
            ),
            (
                Response::Replica {
                    replicas: 0,
                    requirements: None,
                },
                json!({"replica": 0, "requires": null}),
            ),
            (
                Response::Components(vec![component]),
                json!({"components": [{"name": "driver", "replicas": 1}]}),
            ),
            (
                Response::Revised(revised.clone()),
                json!({"revised": revised}),
            ),
            (
                Response::Retained(revised.clone()),
                json!({"retained": revised}),
            ),
            (
                Response::AggregatedStatus(revised.clone()),
                json!({"aggregatedStatus": revised}),
            ),
            (Response::Status(Value::Null), json!({"status": null})),
            (
                Response::Health {
                    assessment: Assessment::new(Health::Degraded, "OOMKilled", "out of memory"),
                    healthy: false,
                },
                json!({"healthy": false, "health": "Degraded", "reason": "OOMKilled", "message": "out of memory"}),
            ),
            (
                Response::Dependencies(vec![dependency]),
                json!({"dependencies": [{"apiVersion": "v1", "kind": "Secret", "namespace": "web", "name": "db"}]}),
            ),
            (
                Response::Pruned(revised.clone()),
                json!({"pruned": revised}),
            ),
        ] {
            assert_eq!(Value::Object(object(&response)), expected);
        }
    }
}
