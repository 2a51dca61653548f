//! What an object keeps of the one that the control plane has when a file with it is applied: what
//! the server has given it, and what others have written.

use std::sync::Arc;

use fleetdex_crds::cluster::Cluster;
use fleetdex_distribution::{
    claim::PolicyName,
    cluster::TargetCluster,
    plan::DistributionInputs,
    room::ClusterRoom,
    sets::{SET_API_VERSION, SET_KIND},
    template_name::TemplateName,
};
use fleetdex_interpreter::value::text;
use fleetdex_rendering_commands::capabilities_of;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::planner_inputs::PlannerInputs;

/// Group and version, and kind, of clusters.
const CLUSTER: (&str, &str) = ("cluster.karmada.io/v1alpha1", "Cluster");
/// Metadata that the server gives an object.
const OF_SERVER: [&str; 2] = ["uid", "creationTimestamp"];
/// Adds what the control plane knows of an object of a file.
pub fn keep(inputs: &mut PlannerInputs, name: &TemplateName, served: &Value) {
    match (name.api_version.as_str(), name.kind.as_str()) {
        CLUSTER => {
            if let Ok(cluster) = Cluster::deserialize(served) {
                let known = inputs.capabilities.entry(name.name.clone()).or_default();
                if known.is_none() {
                    *known = capabilities_of(&cluster).map(Arc::new);
                }
                keep_of_cluster(&mut inputs.plan, &cluster);
            }
            return;
        }
        (SET_API_VERSION, SET_KIND) => {
            let mut distributions = inputs.distributions.iter_mut();
            let own = distributions.find(|one| TemplateName::of(&one.object) == *name);
            if let Some(own) = own {
                keep_metadata(&mut own.object, served);
            }
            return;
        }
        _ => {}
    }
    let plan = &mut inputs.plan;
    // The objects of files are the first ones.
    let mut templates = plan.templates.iter_mut();
    if let Some(template) = templates.find(|template| template.name == *name) {
        keep_metadata(Arc::make_mut(&mut template.object), served);
    }
}

/// Adds the metadata that the control plane has of an object.
pub fn keep_metadata(object: &mut Value, served: &Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for member in OF_SERVER {
        let value = text(served, &["metadata", member]);
        if !value.is_empty() {
            metadata.insert(member.to_owned(), value.into());
        }
    }
    let Some(policy) = PolicyName::of_annotations(served) else {
        return;
    };
    let kept = metadata
        .entry("annotations")
        .or_insert_with(|| Map::new().into());
    if let Some(kept) = kept.as_object_mut() {
        for (key, value) in policy.annotations() {
            kept.entry(key).or_insert(value);
        }
    }
}

/// Which kinds a cluster serves, and how much room it has.
fn keep_of_cluster(plan: &mut DistributionInputs, cluster: &Cluster) {
    let served = TargetCluster::from(cluster);
    let name = served.name.clone();
    for known in &mut plan.clusters {
        if known.name == name && known.served.is_none() {
            known.served.clone_from(&served.served);
        }
    }
    let summary = cluster.status.as_ref();
    if let Some(summary) = summary.and_then(|status| status.resource_summary.as_ref()) {
        let room = plan.room.entry(name);
        room.or_insert_with(|| ClusterRoom::of_summary(summary));
    }
}
