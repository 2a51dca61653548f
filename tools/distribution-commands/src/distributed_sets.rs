//! The sets of a control plane, and the kinds of their objects: those that their bindings name, and
//! those of their hooks.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_crds::{
    distribution::{Distribution, DistributionSpec, HookKind},
    policy::{PropagationSpec, TemplateSelector},
};
use fleetdex_distribution::{
    sets::{SetName, bound_object},
    template_name::{KindName, TemplateName},
};
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::Value;

/// Objects of a page.
const PAGE: u32 = 500;

/// The sets of a control plane.
#[derive(Debug, Default)]
pub struct DistributedSets {
    /// What they say.
    pub specs: Vec<DistributionSpec>,
    /// The kinds of their objects and where these go, as policies say it.
    pub policies: Vec<PropagationSpec>,
    /// The definitions among their objects: group and plural of what they define.
    pub defined: BTreeSet<(String, String)>,
    /// Those that have no binding yet, so that their kinds are not known.
    pub unknown: Vec<String>,
}

/// Reads the sets; none if the control plane does not serve them.
pub async fn sets(client: &Client) -> anyhow::Result<DistributedSets> {
    let api: Api<Distribution> = Api::all(client.clone());
    let distributions = match api.list(&ListParams::default()).await {
        Ok(found) => found.items,
        Err(kube::Error::Api(status)) if status.is_not_found() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if distributions.is_empty() {
        return Ok(DistributedSets::default());
    }
    let mut objects: BTreeMap<String, BTreeSet<TemplateName>> = BTreeMap::new();
    let binding = GroupVersionKind::gvk("work.karmada.io", "v1alpha2", "ResourceBinding");
    let bindings: Api<DynamicObject> =
        Api::all_with(client.clone(), &ApiResource::from_gvk(&binding));
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let found = bindings.list(&page).await?;
        for binding in found.items {
            let binding = serde_json::to_value(&binding)?;
            if let Some((uid, object)) = member(&binding) {
                objects.entry(uid).or_default().insert(object);
            }
        }
        match found.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => page = page.continue_token(&next),
            None => break,
        }
    }
    let mut sets = DistributedSets::default();
    for distribution in distributions {
        let uid = distribution.metadata.uid.unwrap_or_default();
        let (namespace, name) = (distribution.metadata.namespace, distribution.metadata.name);
        let set = SetName {
            namespace: namespace.unwrap_or_default(),
            name: name.unwrap_or_default(),
            uid,
        };
        let members = objects.remove(&set.uid).unwrap_or_default();
        let hooks = distribution.status.and_then(|status| status.hooks);
        let hooks = hooks.map(|hooks| hooks.kinds).unwrap_or_default();
        sets.add(&set, distribution.spec, &members, hooks);
    }
    Ok(sets)
}

impl DistributedSets {
    fn add(
        &mut self,
        set: &SetName,
        spec: DistributionSpec,
        members: &BTreeSet<TemplateName>,
        hooks: Vec<HookKind>,
    ) {
        if members.is_empty() && hooks.is_empty() {
            self.unknown.push(set.shown());
        }
        let definitions = members.iter();
        let definitions = definitions.filter(|one| one.kind == "CustomResourceDefinition");
        let defined = definitions.filter_map(|one| one.name.split_once('.'));
        let defined = defined.map(|(plural, group)| (group.to_owned(), plural.to_owned()));
        self.defined.extend(defined);
        let mut kinds: BTreeSet<KindName> = members.iter().map(TemplateName::kind_name).collect();
        kinds.extend(hooks.into_iter().map(|one| (one.api_version, one.kind)));
        let selectors = kinds
            .into_iter()
            .map(|(api_version, kind)| TemplateSelector {
                api_version,
                kind,
                ..TemplateSelector::default()
            });
        self.policies.push(PropagationSpec {
            resource_selectors: selectors.collect(),
            placement: spec.placement.clone().unwrap_or_default(),
            ..PropagationSpec::default()
        });
        self.specs.push(spec);
    }
}

/// The UID of the set of a binding, and its object.
fn member(binding: &Value) -> Option<(String, TemplateName)> {
    let set = SetName::of_binding(binding)?;
    let object = bound_object(binding, Some(&set));
    Some((set.uid, object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kinds_of_a_set_are_those_that_its_bindings_name() {
        let set = SetName {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "u".to_owned(),
        };
        let binding = |api_version: &str, kind: &str, name: &str| {
            json!({
                "metadata": {
                    "namespace": "shop",
                    "annotations": {"distribute.fleetdex.io/distribution": "web"},
                    "labels": {"distribute.fleetdex.io/distribution-uid": "u"},
                },
                "spec": {"resource": {"apiVersion": api_version, "kind": kind, "name": name}},
            })
        };
        let bindings = [
            binding("apps/v1", "Deployment", "a"),
            binding("apps/v1", "Deployment", "b"),
            binding(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "fleets.example.com",
            ),
        ];
        let members = bindings.iter().map(|one| member(one).unwrap());
        let members = members.map(|(uid, object)| {
            assert_eq!(uid, "u");
            object
        });
        let mut sets = DistributedSets::default();
        let job = HookKind {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
        };
        let spec = DistributionSpec::default();
        sets.add(&set, spec.clone(), &members.collect(), vec![job]);
        let selectors = sets.policies[0].resource_selectors.iter();
        let kinds: Vec<&str> = selectors.map(|one| one.kind.as_str()).collect();
        assert_eq!(kinds, ["CustomResourceDefinition", "Deployment", "Job"]);
        let defined = sets
            .defined
            .iter()
            .map(|(group, plural)| (&**group, &**plural));
        assert_eq!(defined.collect::<Vec<_>>(), [("example.com", "fleets")]);
        assert!(sets.unknown.is_empty());
        sets.add(&set, spec, &BTreeSet::new(), Vec::new());
        assert_eq!(sets.unknown, ["Distribution shop/web"]);
        assert_eq!(member(&json!({"metadata": {}})), None);
    }
}
