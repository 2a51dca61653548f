use serde_json::{Value, json};

use super::{object, selector_edge};
use crate::test_rows::typed;

/// The edge of an object, as relation, kind, namespaces and selector.
fn edge(yaml: &str) -> Option<(&'static str, &'static str, Vec<String>, Value)> {
    let edge = selector_edge(&(&object(yaml)).into())?;
    Some((edge.relation, edge.kind, edge.namespaces, edge.selector))
}

#[test]
fn services_budgets_policies_and_monitors_select_by_label() {
    let cases = r#"
        routesTo | Pod | web | {"matchLabels": {"app": "a"}} | {apiVersion: v1,
            kind: Service, metadata: {namespace: web}, spec: {selector: {app: a}}}
        protects | Pod | web | {"matchLabels": {"app": "a"}} | {apiVersion: policy/v1,
            kind: PodDisruptionBudget, metadata: {namespace: web}, spec: {selector: {matchLabels:
            {app: a}}}}
        protects | Pod | web | {} | {apiVersion: policy/v1, kind: PodDisruptionBudget,
            metadata: {namespace: web}, spec: {selector: {}}}
        protects | Pod | web | {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
            | {apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {namespace: web},
            spec: {selector: {matchExpressions: [{key: a, operator: Exists}]}}}
        restricts | Pod | web | {"matchLabels": {"app": "a"}} | {apiVersion: networking.k8s.io/v1,
            kind: NetworkPolicy, metadata: {namespace: web}, spec: {podSelector: {matchLabels: {app:
            a}}}}
        restricts | Pod | web | {} | {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy,
            metadata: {namespace: web}, spec: {podSelector: {}}}
        monitors | Pod | web | {"matchLabels": {"app": "a"}} | {apiVersion:
            monitoring.coreos.com/v1, kind: PodMonitor, metadata: {namespace: web},
            spec: {selector: {matchLabels: {app: a}}}}
        monitors | Service | | {"matchLabels": {"app": "a"}} | {apiVersion:
            monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {namespace: web},
            spec: {namespaceSelector: {any: true}, selector: {matchLabels: {app: a}}}}
        monitors | Service | ops | {"matchLabels": {"app": "a"}} | {apiVersion:
            monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {namespace: web},
            spec: {namespaceSelector: {matchNames: [ops, 1]}, selector: {matchLabels: {app: a}}}}
    "#;
    for (relation, kind, namespace, selector, yaml) in
        typed::<(&str, &str, &str, Value, &str)>(cases)
    {
        let expected = (relation, kind, vec![namespace.to_owned()], selector);
        assert_eq!(edge(yaml), Some(expected), "{yaml}");
    }
}

#[test]
fn an_object_without_a_selector_selects_nothing() {
    for yaml in [
        "{apiVersion: v1, kind: Service, spec: {selector: {}}}",
        "{apiVersion: v1, kind: Service, spec: {selector: {app: 1}}}",
        "{apiVersion: v1, kind: Service, spec: {}}",
        "{apiVersion: v1, kind: Service, spec: {selector: [a]}}",
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {}}",
        "{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, spec: {selector: {}}}",
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: null}}",
        "{apiVersion: apps/v1, kind: Deployment, spec: {selector: {matchLabels: {app: a}}}}",
        "{}",
    ] {
        assert_eq!(edge(yaml), None, "{yaml}");
    }
}

#[test]
fn a_monitor_of_many_namespaces_has_one_selector() {
    let names = (0..120).map(|number| format!("n{number}"));
    let names = names.collect::<Vec<_>>().join(", ");
    let monitor = format!(
        "{{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {{namespace: web}}, spec: {{namespaceSelector: {{matchNames: [{names}]}}, selector: {{matchLabels: {{app: a}}}}}}}}"
    );
    let (_, _, namespaces, selector) = edge(&monitor).unwrap();
    assert_eq!(namespaces.len(), 100);
    assert_eq!(selector, json!({"matchLabels": {"app": "a"}}));
}
