//! What is there before a migration.

use fleetdex_checks::result::Checks;
use fleetdex_cli::crd::is_of_fleetdex;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use super::{
    args::KarmadaSearchArgs,
    export::RegistryExport,
    target::{API_SERVICE, CRD, MigrationTarget, RequestFailed, service_of, unavailability},
};

/// What was found before a migration.
pub enum MigrationStart {
    /// karmada-search is registered, with these objects.
    Registered(Box<APIService>, RegistryExport),
    /// An earlier run has removed the `APIService`.
    Interrupted(RegistryExport),
    /// Nothing is to be migrated.
    Nothing,
    /// It cannot be done.
    Impossible,
}

/// Finds out what is to be migrated.
pub async fn find_start(
    args: &KarmadaSearchArgs,
    target: &MigrationTarget,
    checks: &mut Checks,
) -> MigrationStart {
    match try_find_start(args, target, checks).await {
        Ok(start) => start,
        Err(error) => {
            let action = match error.code {
                Some(403) => {
                    "use an account that may do this, such as an administrator of the control plane"
                }
                _ => {
                    "name the kubeconfig and context of the control plane with --kubeconfig and --context, or repair them"
                }
            };
            checks.error("karmada-search", error.to_string(), action);
            MigrationStart::Impossible
        }
    }
}

async fn try_find_start(
    args: &KarmadaSearchArgs,
    target: &MigrationTarget,
    checks: &mut Checks,
) -> Result<MigrationStart, RequestFailed> {
    let earlier = args.export.as_deref().map(RegistryExport::read).transpose();
    let earlier = match earlier {
        Ok(earlier) => earlier.flatten(),
        Err(error) => {
            checks.error("export", error.to_string(), "name a new file with --export");
            return Ok(MigrationStart::Impossible);
        }
    };
    if let Some(api_service) = target.aggregated(API_SERVICE).await? {
        return registered(target, checks, api_service, earlier).await;
    }
    let crd = target.crd().await?;
    match (crd, earlier) {
        (_, Some(export)) => {
            let message = format!(
                "APIService {API_SERVICE} is removed; the export has {} registries",
                export.registries.len()
            );
            checks.ok("karmada-search", message);
            Ok(MigrationStart::Interrupted(export))
        }
        (Some(crd), None) if is_of_fleetdex(&crd) => {
            checks.ok(
                "karmada-search",
                "is not registered here: the registries are Fleetdex's",
            );
            Ok(MigrationStart::Nothing)
        }
        (Some(_), None) => {
            checks.error(
                "karmada-search",
                format!("is not registered here, and CRD {CRD} is of another program"),
                "make sure that this is the control plane (--context)",
            );
            Ok(MigrationStart::Impossible)
        }
        (None, None) => {
            checks.error(
                "karmada-search",
                format!("APIService {API_SERVICE} is not there, and neither is CRD {CRD}: nothing serves ResourceRegistry"),
                "if a migration was interrupted, name its file with --export; if the APIService was removed by hand, create it again, from Karmada's \
                 manifests, so that the registries can be read; if there has never been a karmada-search, run fleetdex crd apply",
            );
            Ok(MigrationStart::Impossible)
        }
    }
}

/// Reads what is to be exported.
async fn registered(
    target: &MigrationTarget,
    checks: &mut Checks,
    api_service: APIService,
    earlier: Option<RegistryExport>,
) -> Result<MigrationStart, RequestFailed> {
    let (namespace, name) = service_of(&api_service);
    let registries = match target.registries().await {
        Ok(registries) => registries,
        Err(error) if error.code == Some(403) => return Err(error),
        Err(error) => {
            let why = unavailability(&api_service).unwrap_or_else(|| "it is Available".to_owned());
            checks.error(
                "karmada-search",
                format!("{error}; APIService {API_SERVICE}: {why}"),
                &format!(
                    "start karmada-search behind Service {namespace}/{name} until the migration is done: only it can read its registries from its etcd"
                ),
            );
            return Ok(MigrationStart::Impossible);
        }
    };
    let service = target.service(&namespace, &name).await?;
    let export = RegistryExport::new(&api_service, service.as_ref(), &registries);
    let message = format!(
        "{} registries, behind Service {namespace}/{name}",
        registries.len()
    );
    checks.ok("karmada-search", message);
    if target.crd().await?.is_some() {
        checks.warning(
            "CRD",
            format!("CRD {CRD} is installed, but hidden: registries that were stored in it before karmada-search was registered come back"),
            "look at them after the migration: kubectl get resourceregistries",
        );
    }
    if let Some(earlier) = earlier {
        let differences = earlier.differences(&export);
        if !differences.is_empty() {
            checks.error(
                "export",
                format!(
                    "the file is of an earlier state: {} changed since",
                    differences.join(", ")
                ),
                "name a new file with --export",
            );
            return Ok(MigrationStart::Impossible);
        }
    }
    Ok(MigrationStart::Registered(Box::new(api_service), export))
}
