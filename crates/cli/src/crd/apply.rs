//! `fleetdex crd apply`: applies the CRDs to a control plane.

use std::{collections::BTreeSet, time::Duration};

use fleetdex_core::terminal::escaped_line;
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionCondition,
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    decision::{AggregatedVersions, CrdDecision, api_services, decide},
    definitions::{CrdFile, registries},
    error::CrdError,
    managed_fields::{MANAGER, take_over},
};
use crate::{
    ControlPlaneArgs,
    api::ApiserverClient,
    console::{CommandError, Console},
};

/// Interval between looks at a CRD that is not served yet; it takes the control plane about a
/// second.
const POLL: Duration = Duration::from_millis(200);
const CRD: &str = "CRD";

/// Applies the CRDs.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "One line for each CRD says what was done. A CRD is left alone where another server answers for its group, as on a Karmada control plane, \
or where another program installed it. Exit code: 0 all others are served; 1 one is of a newer Fleetdex, or could not be applied."
)]
pub struct CrdApplyArgs {
    /// Print what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Leave CRDs of a newer Fleetdex alone, instead of failing: they serve this version as well
    #[arg(long)]
    pub keep_newer: bool,

    /// Seconds to wait until the CRDs are served
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,

    /// The control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// A control plane whose CRDs are applied.
struct CrdInstaller {
    crds: Api<CustomResourceDefinition>,
    api_services: Api<APIService>,
    server: String,
    dry_run: bool,
}

/// Applies those of `files` that may be applied; returns whether none was refused.
pub(super) async fn apply(
    args: &CrdApplyArgs,
    files: Vec<CrdFile>,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let ApiserverClient { client, server, .. } = args.control_plane.connect().await?;
    let installer = CrdInstaller::new(client, server, args.dry_run);
    let wanted: Vec<CustomResourceDefinition> = files.into_iter().map(|file| file.crd).collect();
    let aggregated = installer.aggregated_versions(&wanted).await?;
    let (mut applied, mut is_complete) = (Vec::new(), true);
    for crd in &wanted {
        let name = crd.metadata.name.as_deref().unwrap_or_default();
        let installed = installer.installed(name).await?;
        let result = match decide(crd, installed.as_ref(), &aggregated) {
            CrdDecision::Apply => {
                applied.push(name);
                installer
                    .apply(name, crd, installed.as_ref())
                    .await?
                    .to_owned()
            }
            CrdDecision::LeaveAlone(reason) => format!("left alone: {reason}"),
            CrdDecision::Newer { installed, ours } if args.keep_newer => {
                format!(
                    "left alone: it is of Fleetdex {installed}, which is newer than this {ours}"
                )
            }
            CrdDecision::Newer { installed, ours } => {
                is_complete = false;
                format!(
                    "refused: it is of Fleetdex {installed}, which is newer than this {ours}; use that version, or leave it with --keep-newer"
                )
            }
        };
        let note = if args.dry_run { " (dry run)" } else { "" };
        writeln!(console.out, "{name}: {}{note}", escaped_line(&result))?;
    }
    console.out.flush()?;
    if !args.dry_run {
        installer.wait_established(&applied, args.timeout).await?;
    }
    Ok(is_complete)
}

/// Applies the CRD of registries and waits until it is served; returns what that changed. A newer
/// one serves this version as well and is left alone.
pub async fn install_registries(
    client: Client,
    server: String,
    seconds: u64,
) -> Result<String, CrdError> {
    let installer = CrdInstaller::new(client, server, false);
    let wanted = registries();
    let name = wanted.metadata.name.as_deref().unwrap_or_default();
    let aggregated = installer
        .aggregated_versions(std::slice::from_ref(&wanted))
        .await?;
    let installed = installer.installed(name).await?;
    let result = match decide(&wanted, installed.as_ref(), &aggregated) {
        CrdDecision::Apply => installer
            .apply(name, &wanted, installed.as_ref())
            .await?
            .to_owned(),
        CrdDecision::Newer { installed, .. } => {
            format!("left alone: it is of Fleetdex {installed}, which is newer")
        }
        CrdDecision::LeaveAlone(reason) => {
            return Err(CrdError::Foreign {
                name: name.to_owned(),
                reason: reason.to_string(),
            });
        }
    };
    installer.wait_established(&[name], seconds).await?;
    Ok(result)
}

impl CrdInstaller {
    fn new(client: Client, server: String, dry_run: bool) -> Self {
        Self {
            crds: Api::all(client.clone()),
            api_services: Api::all(client),
            server,
            dry_run,
        }
    }

    /// The `APIServices` of the CRDs' group-versions that another server answers for.
    async fn aggregated_versions(
        &self,
        wanted: &[CustomResourceDefinition],
    ) -> Result<AggregatedVersions, CrdError> {
        let names: BTreeSet<String> = wanted.iter().flat_map(api_services).collect();
        let mut aggregated = AggregatedVersions::new();
        for name in names {
            let found = self.api_services.get_opt(&name).await;
            let found = found.map_err(|error| self.refused("get", "APIService", &name, &error))?;
            let service = found
                .and_then(|found| found.spec)
                .and_then(|spec| spec.service);
            if let Some(service) = service {
                let [namespace, service] =
                    [service.namespace, service.name].map(Option::unwrap_or_default);
                aggregated.insert(name, format!("{namespace}/{service}"));
            }
        }
        Ok(aggregated)
    }

    async fn installed(&self, name: &str) -> Result<Option<CustomResourceDefinition>, CrdError> {
        let found = self.crds.get_opt(name).await;
        found.map_err(|error| self.refused("get", CRD, name, &error))
    }

    /// Creates or replaces a CRD; returns what that changed.
    async fn apply(
        &self,
        name: &str,
        wanted: &CustomResourceDefinition,
        installed: Option<&CustomResourceDefinition>,
    ) -> Result<&'static str, CrdError> {
        if let Some(installed) = installed {
            if installed.metadata.deletion_timestamp.is_some() {
                return Err(CrdError::Terminating(name.to_owned()));
            }
            self.take_over(name, installed).await?;
        }
        let parameters = PatchParams {
            dry_run: self.dry_run,
            ..PatchParams::apply(MANAGER).force()
        };
        let applied = self
            .crds
            .patch(name, &parameters, &Patch::Apply(wanted))
            .await;
        let applied = applied.map_err(|error| self.refused("apply", CRD, name, &error))?;
        Ok(match installed {
            None => "created",
            Some(before) if is_equal(before, &applied) => "unchanged",
            Some(_) => "updated",
        })
    }

    /// Becomes the only owner of the fields of `spec`, so that those which are no longer wanted are
    /// removed.
    async fn take_over(
        &self,
        name: &str,
        installed: &CustomResourceDefinition,
    ) -> Result<(), CrdError> {
        let entries = installed.metadata.managed_fields.as_deref();
        let Some(entries) = entries.and_then(take_over).filter(|_| !self.dry_run) else {
            return Ok(());
        };
        let patch = json!({ "metadata": {
            // Another manager may have written meanwhile.
            "resourceVersion": installed.metadata.resource_version,
            "managedFields": entries,
        } });
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = self
            .crds
            .patch(name, &parameters, &Patch::Merge(&patch))
            .await;
        patched
            .map(drop)
            .map_err(|error| self.refused("take over", CRD, name, &error))
    }

    async fn wait_established(&self, names: &[&str], seconds: u64) -> Result<(), CrdError> {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        for &name in names {
            while !self.is_established(name).await? {
                if Instant::now() >= deadline {
                    return Err(CrdError::NotEstablished {
                        name: name.to_owned(),
                        seconds,
                    });
                }
                sleep(POLL).await;
            }
        }
        Ok(())
    }

    async fn is_established(&self, name: &str) -> Result<bool, CrdError> {
        let crd = self.installed(name).await?;
        let conditions = crd
            .and_then(|crd| crd.status)
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let of_type = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
        let refused = of_type("NamesAccepted").filter(|condition| condition.status == "False");
        if let Some(condition) = refused {
            return Err(CrdError::NamesRefused {
                name: name.to_owned(),
                problem: condition.message.clone().unwrap_or_default(),
            });
        }
        let is_true = |condition: &CustomResourceDefinitionCondition| condition.status == "True";
        Ok(of_type("Established").is_some_and(is_true))
    }

    fn refused(
        &self,
        verb: &'static str,
        kind: &'static str,
        name: &str,
        error: &kube::Error,
    ) -> CrdError {
        CrdError::refused(verb, kind, name, &self.server, error)
    }
}

/// Whether two states of a CRD differ in nothing that a user sees.
fn is_equal(before: &CustomResourceDefinition, after: &CustomResourceDefinition) -> bool {
    before.spec == after.spec
        && before.metadata.annotations == after.metadata.annotations
        && before.metadata.labels == after.metadata.labels
}
