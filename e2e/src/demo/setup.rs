//! What the demo's clusters have before Fleetdex starts: custom resources, rights, members and
//! their workloads.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::workloads::{Workloads, fill};
use crate::fleet::{Fleet, Registration};

const REGISTRY: &str = include_str!("../../demo/registry.yaml");
const CRDS: [&str; 13] = [
    include_str!("../../../crds/apps.karmada.io_workloadrebalancers.yaml"),
    include_str!("../../../crds/cluster.karmada.io_clusters.yaml"),
    include_str!("../../../crds/config.karmada.io_resourceexploringwebhookconfigurations.yaml"),
    include_str!("../../../crds/config.karmada.io_resourceinterpretercustomizations.yaml"),
    include_str!("../../../crds/config.karmada.io_resourceinterpreterwebhookconfigurations.yaml"),
    include_str!("../../../crds/distribute.fleetdex.io_distributions.yaml"),
    include_str!("../../../crds/policy.karmada.io_clusteroverridepolicies.yaml"),
    include_str!("../../../crds/policy.karmada.io_clusterpropagationpolicies.yaml"),
    include_str!("../../../crds/policy.karmada.io_overridepolicies.yaml"),
    include_str!("../../../crds/policy.karmada.io_propagationpolicies.yaml"),
    include_str!("../../../crds/search.karmada.io_resourceregistries.yaml"),
    include_str!("../../../crds/work.karmada.io_clusterresourcebindings.yaml"),
    include_str!("../../../crds/work.karmada.io_resourcebindings.yaml"),
];
/// A user with read access, besides the administrator.
const ACCESS: &str = include_str!("../../demo/access.yaml");
const READER: &str = include_str!("../../demo/reader.yaml");
/// The namespace of the members' Secrets and of the Service of the query API.
pub const NAMESPACE: &str = "fleetdex-system";

/// The manifest of the demo's registry, with its store at this address.
pub fn registry(opensearch: &str) -> String {
    fill(REGISTRY, &[("opensearch", opensearch)])
}

/// Installs the CRDs, gives alice her rights, and registers the members.
pub async fn register(fleet: &Fleet) -> Result<()> {
    let kubectl = fleet.control_plane().kubectl()?;
    kubectl.apply_server_side(&CRDS.join("---\n")).await?;
    kubectl
        .run("wait --for=condition=Established --timeout=60s crd --all")
        .await?;
    kubectl.run(&["create", "namespace", NAMESPACE]).await?;
    kubectl.apply_server_side(ACCESS).await?;
    kubectl.apply_server_side(READER).await?;
    for member in fleet.members() {
        let registration = Registration::new(member, member.name(), NAMESPACE).impersonating();
        kubectl
            .apply_server_side(&registration.manifest())
            .await
            .with_context(|| format!("registering {}", member.name()))?;
    }
    Ok(())
}

/// Creates the workloads of the first three members, with their statuses.
pub async fn create_workloads(fleet: &Fleet) -> Result<()> {
    for (index, member) in fleet.members().iter().enumerate() {
        let name = member.name();
        let place = Registration::new(member, name, NAMESPACE).cluster;
        let region = place["spec"]["region"].as_str().unwrap_or_default();
        let workloads = Workloads::of(index + 1, region);
        write(
            &fleet.dir().join(format!("{name}-applications.yaml")),
            &workloads.applications,
        )?;
        write(
            &fleet.dir().join(format!("{name}-pods.yaml")),
            &workloads.pods,
        )?;
        let kubectl = member.kubectl()?;
        kubectl
            .apply_server_side(&workloads.applications)
            .await
            .with_context(|| format!("applications of {name}"))?;
        kubectl
            .apply_server_side(&workloads.pods)
            .await
            .with_context(|| format!("pods of {name}"))?;
        kubectl
            .apply_server_side(READER)
            .await
            .with_context(|| format!("rights of alice in {name}"))?;
        let statuses = [workloads.pods, workloads.deployment_statuses].join("---\n");
        kubectl
            .apply_status(&statuses)
            .await
            .with_context(|| format!("statuses of {name}"))?;
    }
    Ok(())
}

/// Writes a file of the demo.
pub fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
