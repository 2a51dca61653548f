//! What identifies the plan of a stream, and the rules that its documents are made by, across
//! restarts and releases.
//!
//! These hashes are stored. They are made of a canonical text that does not depend on how the code
//! names anything, so that only a change of what they stand for makes streams list again.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::model::{FieldPath, Unit, hex};
use fleetdex_interpreter::rules::KindRules;
use fleetdex_sync::{filter::other_paths, unit::WITH_STATUS};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::plan::StreamPlan;

/// A hash of the selectable fields of a kind's definition and of the rules that say what its
/// objects mean: what documents of one index, of objects in one version, can differ in.
pub(super) fn rules_hash(plan: &StreamPlan, rules: Option<&KindRules>) -> Option<Arc<str>> {
    if plan.fields.is_empty() && rules.is_none() {
        return None;
    }
    Some(hash(&rules_identity(plan, rules)).into())
}

fn rules_identity(plan: &StreamPlan, rules: Option<&KindRules>) -> Value {
    json!([paths(&plan.fields), rules.map(KindRules::hash)])
}

/// A hash of everything that decides which objects a stream stores, how they are found and what
/// they are said to mean. It does not depend on which registry asked for them.
///
/// The address of the API server is a part of it: behind another one may be a copy of the cluster,
/// with the same UID and a history that went its own way, whose versions say nothing about what is
/// stored.
pub(super) fn plan_hash(unit: &Unit, plan: &StreamPlan, address: Option<&str>) -> String {
    let status = match &plan.rules {
        Some(rules) if rules.know_of_status() => WITH_STATUS,
        _ => "",
    };
    hash(&plan_identity(unit, plan, address)) + status
}

fn plan_identity(unit: &Unit, plan: &StreamPlan, address: Option<&str>) -> Value {
    let filters = || plan.routes.iter().map(|route| &route.filter);
    let distinct: BTreeSet<String> = filters()
        .map(|filter| filter.identity().to_string())
        .collect();
    let reads_paths =
        !other_paths(filters(), &plan.selectable_fields(&unit.resource.gvk)).is_empty();
    json!([
        plan.label_selector,
        plan.field_selector,
        distinct,
        paths(&plan.fields),
        reads_paths,
        plan.rules.as_ref().map(KindRules::hash),
        address
    ])
}

fn paths(fields: &[FieldPath]) -> Vec<&str> {
    fields.iter().map(FieldPath::as_str).collect()
}

fn hash(identity: &Value) -> String {
    hex(&Sha256::digest(identity.to_string())[..8])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fleetdex_core::model::{Gvk, InterpretationLevel, Resource, Scope, StoreName};
    use fleetdex_interpreter::rules::RuleSet;
    use fleetdex_sync::filter::ObjectFilter;

    use super::*;
    use crate::plan::Route;

    /// If this fails, all streams list again after an upgrade: is that what has to happen?
    #[test]
    fn a_plan_is_identified_by_what_it_selects() {
        let resource = Resource {
            gvk: Gvk::new("example.com", "v1", "Thing"),
            plural: "things".into(),
            namespaced: true,
        };
        let unit = Unit {
            cluster: "member1".parse().unwrap(),
            resource: resource.clone(),
            scope: Scope::All,
        };
        let route = |registry: &str| Route {
            store: StoreName::embedded(),
            registry: registry.to_owned(),
            filter: ObjectFilter::default(),
        };
        let mut plan = StreamPlan {
            routes: vec![route("a"), route("b")],
            label_selector: Some("app=web".to_owned()),
            field_selector: None,
            fields: vec![FieldPath::new("spec.x")],
            rules: None,
            selections: BTreeMap::new(),
        };
        let identity = |plan: &StreamPlan| plan_identity(&unit, plan, Some("https://a:6443"));
        assert_eq!(
            identity(&plan),
            json!([
                "app=web",
                null,
                ["[[null,[],\"\",[]],[]]"],
                ["spec.x"],
                false,
                null,
                "https://a:6443"
            ])
        );
        assert_eq!(plan_hash(&unit, &plan, None), "493f96141cb9e8ea");
        assert_eq!(rules_hash(&plan, None).as_deref(), Some("1580d3c7a63b89e5"));

        plan.rules = RuleSet::default().of_kind(&resource, true, InterpretationLevel::All);
        let rules = plan.rules.as_ref().unwrap().hash();
        assert_eq!(rules, "8aa30ccd33b57f54");
        assert_eq!(
            rules_identity(&plan, plan.rules.as_ref()),
            json!([["spec.x"], rules])
        );
        assert_eq!(identity(&plan)[5], rules);
    }
}
