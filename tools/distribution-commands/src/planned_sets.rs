//! Renders the sets of a plan, as the operator would, for the clusters that they select.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_cli::console::{CommandError, Console};
use fleetdex_core::model::{Gvk, Scope, causes};
use fleetdex_crds::distribution::DistributionSpec;
use fleetdex_distribution::{
    plan::selected_clusters,
    sets::{ObjectSet, SetContents, SetName, SetObjects, SetVariant},
    template_name::{NameParts, NamedTemplate, TemplateName},
};
use fleetdex_distributor::{
    SetFailure, SetKinds, SetSpec, TargetCapabilities, assigned_variants, chart_hooks,
    defined_api_versions, set_hooks, set_objects,
};
use fleetdex_rendering::{
    digest::Sha256Digest,
    kept::VariantCollector,
    named_objects::{NamedKind, NamedObjects, named_by},
    resolve::ResolvedSource,
    source::Capabilities,
};
use fleetdex_rendering_commands::{LocalRenderError, LocalRendering, LocalSource, LocalSourceArgs};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    control_plane::{ControlPlaneError, ControlPlaneReader},
    inputs::PlannerInputs,
    planned_hooks::shown_hooks,
};

/// The sets of a plan, with their objects, where these are known.
#[derive(Default)]
struct PlannedSets {
    sets: Vec<ObjectSet>,
    warnings: Vec<String>,
    /// The sets that cannot be rendered, and why.
    failures: Vec<String>,
}

/// Some sets cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[error("{}; what clusters have of them stays as it is", .0.join("; "))]
pub struct UnrenderedSets(pub Vec<String>);

/// The objects of a set are not known.
#[derive(Debug, thiserror::Error)]
enum PlannedSetError {
    #[error("{}: {}", .0.reason, .0.message)]
    Refused(SetFailure),
    #[error(transparent)]
    Unread(#[from] ControlPlaneError),
    #[error("{kind} {name} cannot be used")]
    Object {
        kind: &'static str,
        name: String,
        source: serde_json::Error,
    },
    #[error(transparent)]
    Render(#[from] LocalRenderError),
}

/// Adds the sets to what a plan is made from; returns why some cannot be rendered.
/// `control_plane`: it has what no file has; `None`: files have everything.
pub async fn add_sets(
    inputs: &mut PlannerInputs,
    control_plane: Option<&ControlPlaneReader>,
    local: &LocalSourceArgs,
    console: &mut Console<'_>,
) -> Result<Vec<String>, CommandError> {
    if inputs.distributions.is_empty() {
        return Ok(Vec::new());
    }
    let rendering = LocalRendering::new(local).map_err(CommandError::failed)?;
    let renderer = PlannedSetRenderer {
        inputs,
        control_plane,
        rendering: &rendering,
    };
    let PlannedSets {
        sets,
        warnings,
        failures,
    } = renderer.run().await;
    for warning in warnings {
        console.warn(&warning)?;
    }
    inputs.plan.sets = sets;
    Ok(failures)
}

/// Renders sets.
struct PlannedSetRenderer<'p> {
    inputs: &'p PlannerInputs,
    control_plane: Option<&'p ControlPlaneReader>,
    rendering: &'p LocalRendering,
}

impl PlannedSetRenderer<'_> {
    /// Renders all sets.
    async fn run(&self) -> PlannedSets {
        let mut planned = PlannedSets::default();
        for distribution in &self.inputs.distributions {
            let mut spec = SetSpec::of(&distribution.object);
            if spec.created.is_empty() {
                // It would be the newest one.
                spec.created = Timestamp::now().to_string();
            }
            let shown = spec.name.shown();
            let contents = match &spec.spec {
                _ if spec.is_ending => SetContents::Known(SetObjects::default()),
                Ok(said) if said.suspend => {
                    planned.warnings.push(format!(
                        "{shown} is suspended: what clusters have of it stays as it is"
                    ));
                    SetContents::Unknown("it is suspended".to_owned())
                }
                Ok(said) => {
                    let known = SetContents::Known(SetObjects::default());
                    let set = spec.object_set(known, None);
                    let warnings = &mut planned.warnings;
                    if said.rollout.is_some() {
                        warnings.push(format!(
                            "{shown} goes to clusters in waves: this is what they have after the last \
                             one"
                        ));
                    }
                    let objects = self.objects(&set, said, distribution.is_of_file, warnings);
                    match objects.await {
                        Ok(objects) => SetContents::Known(objects),
                        Err(error) => failed(&mut planned, &shown, &error),
                    }
                }
                Err(failure) => {
                    let error = PlannedSetError::Refused(failure.clone());
                    failed(&mut planned, &shown, &error)
                }
            };
            planned.sets.push(spec.object_set(contents, None));
        }
        planned
    }

    /// The objects of a set.
    async fn objects(
        &self,
        set: &ObjectSet,
        spec: &DistributionSpec,
        is_of_file: bool,
        warnings: &mut Vec<String>,
    ) -> Result<SetObjects, PlannedSetError> {
        let SetName {
            namespace, name, ..
        } = &*set.name;
        let source = LocalSource {
            namespace,
            name,
            source: &spec.source,
            objects: &self.named_objects(spec, namespace).await?,
            takes_archives: is_of_file,
        };
        let resolved = self.rendering.resolve(&source).await?;
        let capabilities = if spec.source.helm.is_some() {
            self.capabilities(set, warnings)
        } else {
            TargetCapabilities::default()
        };
        let mut targets = capabilities.targets(&BTreeSet::new());
        let mut collector = self.collect(set, &resolved, &targets, warnings).await?;
        // As in the operator: what the set defines counts as missing in all clusters.
        let of_others = capabilities.targets(&defined_api_versions(&collector.objects));
        if of_others != targets {
            targets = of_others;
            collector = self.collect(set, &resolved, &targets, warnings).await?;
        }
        let variants = collector.variants.iter().map(|one| SetVariant {
            kubernetes_version: one.capabilities.kubernetes_version().to_owned(),
            objects: one.objects.clone(),
        });
        let clusters = self.inputs.capabilities.iter();
        let clusters = clusters.filter_map(|(name, known)| Some((&**name, known.as_ref()?)));
        let assigned = assigned_variants(&targets, clusters);
        let objects = collector.objects.into_iter().map(NamedTemplate::from);
        Ok(SetObjects::of_variants(
            objects.collect(),
            &variants.collect(),
            &Arc::new(assigned),
        ))
    }

    /// Renders a set for each of these capabilities; without one for those of helm itself.
    async fn collect(
        &self,
        set: &ObjectSet,
        resolved: &ResolvedSource,
        targets: &[Capabilities],
        warnings: &mut Vec<String>,
    ) -> Result<VariantCollector, PlannedSetError> {
        let any = [Capabilities::default()];
        let targets = if targets.is_empty() { &any } else { targets };
        let mut collector = VariantCollector::default();
        for target in targets {
            let objects = self.render(set, resolved, target, warnings).await?;
            collector.add(Sha256Digest::default(), target.clone(), objects);
        }
        Ok(collector)
    }

    /// The objects of clusters that have these capabilities.
    async fn render(
        &self,
        set: &ObjectSet,
        resolved: &ResolvedSource,
        capabilities: &Capabilities,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Value>, PlannedSetError> {
        let rendered = self.rendering.render(&resolved.source, capabilities);
        let rendered = rendered.await?;
        let shown = set.name.shown();
        for warning in &rendered.warnings {
            let warning = format!("{shown}: {warning}");
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        let served: Vec<_> = self
            .control_plane
            .map(ControlPlaneReader::served)
            .into_iter()
            .collect();
        let mut kinds = SetKinds::of(&rendered, &served);
        kinds.add_cluster_scoped(&self.inputs.cluster_scoped);
        let objects = set_objects(rendered.clone(), &resolved.namespace, &kinds);
        let objects = objects.map_err(PlannedSetError::Refused)?;
        let templates: Vec<NamedTemplate> =
            objects.iter().cloned().map(NamedTemplate::from).collect();
        let hooks = chart_hooks(&rendered, &resolved.namespace, &kinds);
        let hooks = set_hooks(hooks, &templates).map_err(PlannedSetError::Refused)?;
        for line in shown_hooks(set, &hooks, &self.inputs.plan) {
            if !warnings.contains(&line) {
                warnings.push(line);
            }
        }
        Ok(objects)
    }

    /// What a chart is rendered for.
    fn capabilities(&self, set: &ObjectSet, warnings: &mut Vec<String>) -> TargetCapabilities {
        let clusters = selected_clusters(&self.inputs.plan, set).map(|cluster| {
            let name = cluster.name.as_str();
            let known = self.inputs.capabilities.get(name);
            (name, known.cloned().flatten())
        });
        let found = TargetCapabilities::of(clusters);
        if !found.unknown.is_empty() {
            let how = if found.distinct.is_empty() {
                "it is rendered for the version that helm has by itself"
            } else {
                "what differs between versions of Kubernetes and API versions is not planned for it"
            };
            warnings.push(format!(
                "{}: the status of Cluster {} does not say its version and what it serves; {how}",
                set.name.shown(),
                found.unknown.join(", ")
            ));
        }
        found
    }

    /// What the source of a set names: of files, or else of the control plane.
    async fn named_objects(
        &self,
        spec: &DistributionSpec,
        namespace: &str,
    ) -> Result<NamedObjects, PlannedSetError> {
        let mut objects = NamedObjects {
            missing: match self.control_plane {
                Some(_) => "is neither in a file of --filename nor on the control plane",
                None => "is in no file of --filename: add it",
            },
            ..NamedObjects::default()
        };
        for (kind, name) in named_by(&spec.source) {
            let key = (namespace.to_owned(), name.clone());
            match kind {
                NamedKind::ConfigMap => {
                    let found = self.named("ConfigMap", namespace, &name).await?;
                    objects.config_maps.extend(found.map(|found| (key, found)));
                }
                NamedKind::Secret => {
                    let found = self.named("Secret", namespace, &name).await?;
                    objects.secrets.extend(found.map(|found| (key, found)));
                }
            }
        }
        Ok(objects)
    }

    async fn named<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, PlannedSetError> {
        let wanted = TemplateName::from(NameParts {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
        let mut given = self.inputs.plan.templates.iter();
        let found = match given.find(|one| one.name == wanted) {
            Some(given) => Some(Value::clone(&given.object)),
            None => self.served(kind, namespace, name).await?,
        };
        let found = found.map(serde_json::from_value).transpose();
        found.map_err(|source| PlannedSetError::Object {
            kind,
            name: format!("{namespace}/{name}"),
            source,
        })
    }

    /// An object of the control plane.
    async fn served(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ControlPlaneError> {
        let kind = Gvk::from_api_version("v1", kind);
        let Some((control_plane, resource)) = self
            .control_plane
            .and_then(|control_plane| Some((control_plane, control_plane.resource(&kind)?)))
        else {
            return Ok(None);
        };
        // No object is in a namespace that cannot be.
        let Ok(namespace) = namespace.parse() else {
            return Ok(None);
        };
        let scope = Scope::Namespace(namespace);
        let mut pages = control_plane.pages(resource, &scope, Some(name), 1);
        let found = pages.next().await?;
        Ok(found.and_then(|page| page.into_iter().next()))
    }
}

fn failed(planned: &mut PlannedSets, shown: &str, error: &PlannedSetError) -> SetContents {
    let failure = format!("{shown}: {}", causes(error));
    planned.failures.push(failure.clone());
    SetContents::Unknown(failure)
}
