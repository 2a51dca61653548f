//! Plans with the objects of a control plane, and what members have.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_cli::{
    console::{CommandError, Console},
    documents::SourceDocument,
};
use fleetdex_core::model::Gvk;
use fleetdex_distribution::{
    placing::needs_room,
    plan::{self, DistributionInputs, DistributionPlan},
    sets::{SET_API_VERSION, SET_KIND},
    template_name::{NameParts, TemplateName},
};
use fleetdex_interpreter::value::text;

use crate::{
    args::PlanArgs,
    control_plane::ControlPlaneReader,
    inputs::InputReader,
    members::{MemberObjects, ObjectsOfClusters},
    observed::ObservedFilter,
    operations::OfflineOperations,
    planned_sets::add_sets,
};

/// The kinds that are read where the control plane serves them.
const ALWAYS_READ: [(&str, &str); 13] = [
    ("cluster.karmada.io/v1alpha1", "Cluster"),
    ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
    ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"),
    ("policy.karmada.io/v1alpha1", "OverridePolicy"),
    ("policy.karmada.io/v1alpha1", "ClusterOverridePolicy"),
    ("work.karmada.io/v1alpha2", "ResourceBinding"),
    ("work.karmada.io/v1alpha2", "ClusterResourceBinding"),
    (SET_API_VERSION, SET_KIND),
    ("apps.karmada.io/v1alpha1", "WorkloadRebalancer"),
    (
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterCustomization",
    ),
    (
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterWebhookConfiguration",
    ),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("v1", "Namespace"),
];

/// A plan, and what members have that it was compared with.
pub struct LivePlan {
    /// The plan.
    pub plan: DistributionPlan,
    /// What matters of the members' objects.
    pub observed: ObjectsOfClusters,
    /// Why some sets cannot be rendered.
    pub failures: Vec<String>,
}

/// Plans as if the objects of the files were applied to the control plane.
pub async fn plan(
    args: &PlanArgs,
    files: Vec<SourceDocument>,
    console: &mut Console<'_>,
) -> Result<LivePlan, CommandError> {
    let control_plane = ControlPlaneReader::connect(&args.control_plane).await;
    let control_plane = control_plane.map_err(CommandError::failed)?;
    let mut inputs = InputReader::new(control_plane.cluster_scoped(), &control_plane.namespace);
    inputs.add_files(files).map_err(CommandError::failed)?;
    let mut planner = LivePlanner {
        args,
        control_plane,
        inputs,
        read: BTreeSet::new(),
        known: BTreeSet::new(),
    };
    planner.read_templates(console).await?;
    let failures = planner.add_sets(console).await?;
    let mut members = MemberObjects::connect(&args.server, &args.control_plane).await?;
    if planner.needs_room() {
        let room = members.room(console).await?;
        add_observed(&mut planner.inputs.inputs.plan, room);
    }
    let desired = planner.planned_with_dependencies(console).await?;
    let inputs = &planner.inputs.inputs.plan;
    let filter = ObservedFilter::new(&desired, control_plane_uid(inputs), planner.known.clone());
    let kinds = kinds_in_clusters(&desired, inputs);
    let observed = members.observed(&kinds, &filter, console).await?;
    add_observed(&mut planner.inputs.inputs.plan, observed);
    let plan = plan::plan(&planner.inputs.inputs.plan, &planner.operations());
    Ok(LivePlan {
        plan,
        observed: planner.inputs.inputs.plan.observed,
        failures,
    })
}

/// Reads the control plane as far as a plan needs it.
struct LivePlanner<'a> {
    args: &'a PlanArgs,
    control_plane: ControlPlaneReader,
    inputs: InputReader,
    /// The kinds that were asked for.
    read: BTreeSet<Gvk>,
    /// Those of which all objects of the control plane are known.
    known: BTreeSet<Gvk>,
}

impl LivePlanner<'_> {
    /// Reads policies, and the objects that they may select or have placed.
    async fn read_templates(&mut self, console: &mut Console<'_>) -> Result<(), CommandError> {
        let always = ALWAYS_READ.map(|(version, kind)| Gvk::from_api_version(version, kind));
        self.read(always, console).await?;
        let inputs = &self.inputs.inputs.plan;
        if inputs.clusters.is_empty() {
            console.warn("there is no Cluster, neither on the control plane nor in files")?;
        }
        let (selected, bound) = (selected_kinds(inputs), bound_kinds(inputs));
        self.read(selected.iter().cloned(), console).await?;
        self.read(bound, console).await?;
        for kind in selected.difference(&self.known) {
            console.warn(&format!(
                "the control plane does not serve {} of {}, which a policy selects",
                kind.kind,
                kind.api_version()
            ))?;
        }
        Ok(())
    }

    /// Renders the sets; returns why some cannot be rendered.
    async fn add_sets(&mut self, console: &mut Console<'_>) -> Result<Vec<String>, CommandError> {
        let inputs = &mut self.inputs.inputs;
        let kind = Gvk::from_api_version(SET_API_VERSION, SET_KIND);
        inputs.plan.knows_sets = self.known.contains(&kind) || !inputs.distributions.is_empty();
        add_sets(inputs, Some(&self.control_plane), &self.args.local, console).await
    }

    /// Reads all objects of kinds that were not read yet. Returns whether there were any.
    async fn read(
        &mut self,
        kinds: impl IntoIterator<Item = Gvk>,
        console: &mut Console<'_>,
    ) -> Result<bool, CommandError> {
        let mut has_read = false;
        for kind in kinds {
            if !self.read.insert(kind.clone()) {
                continue;
            }
            let Some(resource) = self.control_plane.resource(&kind) else {
                continue;
            };
            let listed = self.control_plane.list(resource).await;
            for object in listed.map_err(CommandError::failed)? {
                if let Err(error) = self.inputs.add_served(&kind, object) {
                    console.warn(&format!("{error}; it has no effect"))?;
                }
            }
            self.known.insert(kind);
            has_read = true;
        }
        Ok(has_read)
    }

    /// Plans, and reads what planned objects need, until nothing is missing: a kind is read once,
    /// and the control plane serves so many.
    async fn planned_with_dependencies(
        &mut self,
        console: &mut Console<'_>,
    ) -> Result<DistributionPlan, CommandError> {
        loop {
            let room = &self.args.room;
            self.inputs.finish(room).map_err(CommandError::failed)?;
            let operations = self.operations();
            let plan = plan::plan(&self.inputs.inputs.plan, &operations);
            if !self.read(operations.required(), console).await? {
                return Ok(plan);
            }
        }
    }

    fn operations(&self) -> OfflineOperations {
        let inputs = &self.inputs.inputs;
        OfflineOperations::new(&inputs.customizations, inputs.webhooks.clone())
    }

    /// Whether room decides where objects go, and no flag says it.
    fn needs_room(&self) -> bool {
        let inputs = &self.inputs.inputs.plan;
        let of_sets = inputs.sets.iter().map(|set| &set.policy);
        let mut policies = inputs.policies.iter().chain(of_sets);
        let looks_at_room = policies.any(|policy| needs_room(&policy.spec.placement));
        let is_given = |name: &str| self.args.room.iter().any(|given| given.cluster == name);
        let mut clusters = inputs.clusters.iter();
        looks_at_room && !clusters.all(|cluster| is_given(&cluster.name))
    }
}

/// The kinds that policies select.
fn selected_kinds(inputs: &DistributionInputs) -> BTreeSet<Gvk> {
    let selectors = inputs
        .policies
        .iter()
        .flat_map(|policy| &policy.spec.resource_selectors);
    selectors
        .map(|selector| Gvk::from_api_version(&selector.api_version, &selector.kind))
        .collect()
}

/// The kinds of objects that were placed.
fn bound_kinds(inputs: &DistributionInputs) -> BTreeSet<Gvk> {
    inputs.previous.keys().map(kind_of).collect()
}

/// The kinds of which clusters have, or will have, objects.
fn kinds_in_clusters(plan: &DistributionPlan, inputs: &DistributionInputs) -> BTreeSet<Gvk> {
    let planned = plan.objects.iter().map(|one| kind_of(&one.resource));
    planned.chain(bound_kinds(inputs)).collect()
}

fn kind_of(name: &TemplateName) -> Gvk {
    Gvk::from_api_version(&name.api_version, &name.kind)
}

/// The UID of the control plane, that of its namespace `kube-system`.
fn control_plane_uid(inputs: &DistributionInputs) -> Option<Arc<str>> {
    let name = TemplateName::from(NameParts {
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        namespace: String::new(),
        name: "kube-system".to_owned(),
    });
    let mut templates = inputs.templates.iter();
    let namespace = templates.find(|one| one.name == name)?;
    let uid = text(&*namespace.object, &["metadata", "uid"]);
    (!uid.is_empty()).then(|| uid.into())
}

/// Adds what members have. Objects of files come first.
fn add_observed(inputs: &mut DistributionInputs, observed: ObjectsOfClusters) {
    for (cluster, objects) in observed {
        let known = inputs.observed.entry(cluster).or_default();
        for (name, object) in objects {
            known.entry(name).or_insert(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_distribution::template_name::NamedTemplate;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_control_plane_is_known_by_its_namespace() {
        let namespace = |name: &str, uid: &str| {
            NamedTemplate::from(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": uid},
            }))
        };
        let mut inputs = DistributionInputs {
            templates: vec![namespace("web", "1")],
            ..DistributionInputs::default()
        };
        assert_eq!(control_plane_uid(&inputs), None);
        inputs.templates.push(namespace("kube-system", "2"));
        assert_eq!(control_plane_uid(&inputs).as_deref(), Some("2"));
    }

    #[test]
    fn what_files_say_of_members_comes_first() {
        let name = |name: &str| {
            TemplateName::from(NameParts {
                name: name.to_owned(),
                ..NameParts::default()
            })
        };
        let objects = |names: &[&str], value: i64| {
            let objects = names.iter().map(|one| (name(one), json!(value)));
            ObjectsOfClusters::from([("member1".to_owned(), objects.collect())])
        };
        let mut inputs = DistributionInputs {
            observed: objects(&["a"], 1),
            ..DistributionInputs::default()
        };
        add_observed(&mut inputs, objects(&["a", "b"], 2));
        let found: Vec<_> = inputs.observed["member1"].values().collect();
        assert_eq!(found, [&json!(1), &json!(2)]);
    }
}
