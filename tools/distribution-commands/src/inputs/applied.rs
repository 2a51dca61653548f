//! What an object keeps of the one that the control plane has when a file with it is applied: what
//! the server has given it, and what others have written.

use std::sync::Arc;

use fleetdex_crds::cluster::Cluster;
use fleetdex_distribution::{
    claim::PolicyName, cluster::TargetCluster, plan::DistributionInputs, room::ClusterRoom,
    template_name::TemplateName,
};
use fleetdex_interpreter::value::text;
use serde::Deserialize as _;
use serde_json::{Map, Value};

/// Group and version, and kind, of clusters.
const CLUSTER: (&str, &str) = ("cluster.karmada.io/v1alpha1", "Cluster");
/// Metadata that the server gives an object.
const OF_SERVER: [&str; 2] = ["uid", "creationTimestamp"];
/// Adds what the control plane knows of an object of a file.
pub fn keep(plan: &mut DistributionInputs, name: &TemplateName, served: &Value) {
    if (name.api_version.as_str(), name.kind.as_str()) == CLUSTER {
        if let Ok(cluster) = Cluster::deserialize(served) {
            keep_of_cluster(plan, &cluster);
        }
        return;
    }
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
