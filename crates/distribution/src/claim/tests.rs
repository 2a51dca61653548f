use serde_json::json;

use super::*;

fn policy(namespace: Option<&str>, name: &str, spec: Value) -> Policy {
    Policy {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        created: None,
        spec: Arc::new(serde_json::from_value(spec).unwrap()),
    }
}

fn by_kind() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment"})
}

fn by_label() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "web"}}})
}

fn by_name() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn with(selector: &Value, priority: i32) -> Value {
    json!({"resourceSelectors": [selector], "priority": priority})
}

fn web() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
           "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}}})
}

fn winner(policies: &[Policy], claimed_by: Option<&Policy>) -> Option<String> {
    let policies: Vec<&Policy> = policies.iter().collect();
    let claimed_by = claimed_by.map(Policy::policy_name);
    claiming(&policies, &web(), claimed_by.as_ref()).map(|policy| policy.name.clone())
}

#[test]
fn scope_then_priority_then_exactness_then_name_decides() {
    let shop = Some("shop");
    for (policies, expected) in [
        (vec![], None),
        (vec![policy(Some("other"), "a", with(&by_name(), 9))], None),
        (
            vec![
                policy(shop, "kind", with(&by_kind(), 0)),
                policy(shop, "label", with(&by_label(), 0)),
                policy(shop, "name", with(&by_name(), 0)),
            ],
            Some("name"),
        ),
        (
            vec![
                policy(shop, "a-kind", with(&by_kind(), 0)),
                policy(shop, "label", with(&by_label(), 0)),
            ],
            Some("label"),
        ),
        (
            vec![
                policy(shop, "b-pp", with(&by_kind(), 0)),
                policy(shop, "a-pp", with(&by_kind(), 0)),
            ],
            Some("a-pp"),
        ),
        (
            vec![
                policy(shop, "label", with(&by_label(), 2)),
                policy(shop, "name", with(&by_name(), 1)),
            ],
            Some("label"),
        ),
        (
            vec![
                policy(shop, "name", with(&by_name(), -1)),
                policy(shop, "label", with(&by_label(), 0)),
            ],
            Some("label"),
        ),
        (
            vec![
                policy(None, "cluster", with(&by_name(), 100)),
                policy(shop, "own", with(&by_kind(), 0)),
            ],
            Some("own"),
        ),
    ] {
        assert_eq!(winner(&policies, None).as_deref(), expected, "{policies:?}");
    }
}

#[test]
fn a_claimed_object_stays_unless_a_policy_preempts() {
    let shop = Some("shop");
    let mut preempting = with(&by_name(), 5);
    preempting["preemption"] = "Always".into();
    let own = policy(shop, "own", with(&by_kind(), 0));
    let high = policy(shop, "high", with(&by_name(), 5));
    let taking = policy(shop, "taking", preempting.clone());
    let cluster = policy(None, "cluster", with(&by_kind(), 9));
    let from_above = policy(None, "above", preempting);
    for (policies, claimed_by, expected) in [
        (vec![own.clone(), high.clone()], &own, "own"),
        (
            vec![own.clone(), high.clone(), taking.clone()],
            &own,
            "taking",
        ),
        (vec![own.clone(), from_above.clone()], &own, "own"),
        (vec![cluster.clone(), own.clone()], &cluster, "cluster"),
        (vec![cluster.clone(), taking.clone()], &cluster, "taking"),
        (vec![high.clone()], &own, "high"),
    ] {
        assert_eq!(
            winner(&policies, Some(claimed_by)).as_deref(),
            Some(expected),
            "{policies:?}"
        );
    }
}

#[test]
fn a_selector_that_makes_no_sense_selects_nothing() {
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}});
    let policies = [policy(Some("shop"), "odd", with(&selector, 0))];
    assert_eq!(winner(&policies, None), None);
}
