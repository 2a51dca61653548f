//! Workloads that run in the same clusters, or in others, because a label of them has one value.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_crds::policy::GroupedBy;
use fleetdex_interpreter::value::{map, text};
use serde_json::Value;

use crate::{candidates::Companions, claim::Policy, template_name::TemplateName};

/// Workloads of a namespace with one value of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CompanionGroup {
    namespace: String,
    label: String,
    value: String,
}

impl CompanionGroup {
    /// The group of an object; `None`: it is in none.
    fn of(grouped_by: Option<&GroupedBy>, object: &Value) -> Option<Self> {
        let label = &grouped_by?.group_by_label_key;
        let value = map(object, &["metadata", "labels"])?.get(label)?.as_str()?;
        Some(Self {
            namespace: text(object, &["metadata", "namespace"]).to_owned(),
            label: label.clone(),
            value: value.to_owned(),
        })
    }
}

/// Where the workloads of groups run.
#[derive(Debug, Default)]
pub struct CompanionGroups(BTreeMap<CompanionGroup, BTreeMap<TemplateName, BTreeSet<String>>>);

impl CompanionGroups {
    /// Notes where an object runs, in the groups by which its policy looks.
    pub fn set(
        &mut self,
        policy: &Policy,
        object: &Value,
        name: &TemplateName,
        clusters: impl Fn() -> BTreeSet<String>,
    ) {
        for group in groups(policy, object).into_iter().flatten() {
            let members = self.0.entry(group).or_default();
            members.insert(name.clone(), clusters());
        }
    }

    /// Where the companions of an object run.
    pub fn of(&self, policy: &Policy, object: &Value, name: &TemplateName) -> Companions {
        let [together, apart] = groups(policy, object).map(|group| {
            let group = group?;
            let members = self.0.get(&group).into_iter().flatten();
            let others = members.filter(|(member, _)| *member != name);
            let clusters: BTreeSet<String> = others
                .flat_map(|(_, clusters)| clusters.iter().cloned())
                .collect();
            let shown = format!("{}={}", group.label, group.value);
            (!clusters.is_empty()).then_some((shown, clusters))
        });
        Companions { together, apart }
    }
}

/// The groups with which an object runs together, and apart.
fn groups(policy: &Policy, object: &Value) -> [Option<CompanionGroup>; 2] {
    let affinity = policy.spec.placement.workload_affinity.as_ref();
    [
        affinity.and_then(|affinity| affinity.affinity.as_ref()),
        affinity.and_then(|affinity| affinity.anti_affinity.as_ref()),
    ]
    .map(|grouped_by| CompanionGroup::of(grouped_by, object))
}
