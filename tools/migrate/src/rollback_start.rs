//! What is there before a rollback.

use fleetdex_checks::result::Checks;
use fleetdex_cli::crd::is_of_fleetdex;
use serde_json::Value;

use super::{
    args::KarmadaSearchArgs,
    compare::changed_fields,
    export::{RegistryExport, name_of},
    target::{API_SERVICE, CRD, MigrationTarget, RequestFailed},
};

/// How what Fleetdex has differs from the export.
#[derive(Debug, Default)]
pub struct SinceMigration {
    /// Not in the export, or with other values than there.
    pub unsaved: Vec<Value>,
    /// Names of those in the export that Fleetdex does not have any more.
    pub deleted: Vec<String>,
}

impl SinceMigration {
    /// Compares what is stored with the export.
    pub fn of(export: &RegistryExport, stored: &[Value]) -> Self {
        let exported = |name: &str| {
            let mut all = export.registries.iter();
            all.find(|registry| name_of(registry) == name)
        };
        let is_unsaved = |stored: &&Value| {
            exported(name_of(stored)).is_none_or(|exported| {
                !changed_fields(exported, stored).is_empty()
                    || !changed_fields(stored, exported).is_empty()
            })
        };
        let is_stored = |name: &str| stored.iter().any(|stored| name_of(stored) == name);
        let names = export.registries.iter().map(name_of);
        Self {
            unsaved: stored.iter().filter(is_unsaved).cloned().collect(),
            deleted: names
                .filter(|name| !is_stored(name))
                .map(str::to_owned)
                .collect(),
        }
    }
}

/// What is there before a rollback.
pub enum RollbackStart {
    /// karmada-search is registered.
    Registered,
    /// The CRD, with these registries.
    Migrated(Vec<Value>),
    /// Nothing serves registries.
    Nothing,
}

/// Finds out what is to be given back; `None` if it cannot be.
pub async fn find_start(
    target: &MigrationTarget,
    checks: &mut Checks,
) -> Result<Option<RollbackStart>, RequestFailed> {
    if target.aggregated(API_SERVICE).await?.is_some() {
        checks.ok("registries", "karmada-search is registered for them");
        return Ok(Some(RollbackStart::Registered));
    }
    let Some(crd) = target.crd().await? else {
        checks.ok("registries", "nothing serves them");
        return Ok(Some(RollbackStart::Nothing));
    };
    if !is_of_fleetdex(&crd) {
        checks.error(
            "registries",
            format!("CRD {CRD} is not of Fleetdex"),
            "make sure that this is the control plane (--context); this command deletes no CRD of another program",
        );
        return Ok(None);
    }
    // A CRD that is being deleted is not listed from any more.
    let stored = match target.registries().await {
        Err(error) if error.code == Some(404) => Vec::new(),
        stored => stored?,
    };
    let message = format!(
        "Fleetdex has {}, which are deleted, with their documents",
        stored.len()
    );
    checks.ok("registries", message);
    Ok(Some(RollbackStart::Migrated(stored)))
}

/// Checks what a rollback would lose.
pub fn check_since(checks: &mut Checks, since: &SinceMigration, args: &KarmadaSearchArgs) {
    if !since.deleted.is_empty() {
        checks.warning(
            "deleted since",
            format!("karmada-search still has {}", since.deleted.join(", ")),
            "delete them there after the rollback",
        );
    }
    if since.unsaved.is_empty() {
        return;
    }
    let names: Vec<&str> = since.unsaved.iter().map(name_of).collect();
    let message = format!(
        "created or changed since the migration, so that karmada-search has no such registry: {}",
        names.join(", ")
    );
    let action = "apply those that you want to keep to karmada-search after the rollback, from the file of --export; it takes only the fields that it knows";
    if args.export.is_none() {
        let action = "save them: name a new file with --export. Apply those that you want to keep to karmada-search after the rollback";
        checks.error("changed since", message, action);
    } else {
        checks.warning("changed since", message, action);
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_crds::registry::FINALIZER;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_karmada_search_does_not_have_is_unsaved() {
        let registry = |name: &str, kind: &str| json!({ "metadata": { "name": name }, "spec": { "resourceSelectors": [{ "kind": kind }] } });
        let export = RegistryExport {
            api_service: json!({}),
            service: None,
            registries: vec![
                registry("same", "Pod"),
                registry("changed", "Pod"),
                registry("deleted", "Pod"),
            ],
        };
        let mut changed = registry("changed", "Pod");
        changed["spec"]["redact"] = json!(["spec.secret"]);
        let mut same = registry("same", "Pod");
        same["metadata"]["finalizers"] = json!([FINALIZER]);
        same["spec"]["targetCluster"] = json!({});
        let since = SinceMigration::of(&export, &[same, changed, registry("new", "Node")]);
        let unsaved: Vec<&str> = since.unsaved.iter().map(name_of).collect();
        assert_eq!(unsaved, ["changed", "new"]);
        assert_eq!(since.deleted, ["deleted"]);
    }
}
