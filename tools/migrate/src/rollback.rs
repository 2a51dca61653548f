//! Back to karmada-search.

use std::path::Path;

use fleetdex_checks::result::Checks;
use fleetdex_crds::registry::{FINALIZER, ORPHAN_ANNOTATION};
use serde_json::Value;

use super::{
    args::KarmadaSearchArgs,
    checks::{RightsFor, check_rights},
    compare::changed_fields,
    export::{ExportError, RegistryExport, name_of, plain, write_list},
    report::{MigrationEnded, MigrationReport, StepFailed},
    rollback_start::{RollbackStart, SinceMigration, check_since, find_start},
    target::{API_SERVICE, CRD, Creation, GroupServer, MigrationTarget, unavailability},
};

const SAVE: &str = "save the registries of Fleetdex";
const DELETE: &str = "delete the registries of Fleetdex";
const UNINSTALL: &str = "delete the CRD";
const RESTORE: &str = "create the APIService";
const WAIT: &str = "wait for karmada-search";
const COMPARE: &str = "compare";

/// What holds when a step fails.
const UNCHANGED: &str = "Nothing was changed.";
const DELETING: &str = "Registries of Fleetdex are being deleted, and Fleetdex removes their documents; the CRD is there.";
const UNINSTALLED: &str = "The CRD and the registries of Fleetdex are deleted, or being deleted; karmada-search is not registered.";
const RESTORED: &str = "The APIService is there again, and the CRD of Fleetdex is deleted.";

/// Gives the control plane back, or says what that would change; returns whether it was done, or
/// can be.
pub async fn run(
    args: &KarmadaSearchArgs,
    path: &Path,
    target: &MigrationTarget,
    report: &mut MigrationReport<'_>,
) -> Result<bool, MigrationEnded> {
    let mut checks = Checks::of("control plane");
    let export = match RegistryExport::read(path) {
        Ok(Some(export)) => export,
        Ok(None) => {
            let message = format!("{} does not exist", path.display());
            checks.error(
                "export",
                message,
                "name the file of --export of the migration",
            );
            return Ok(report.checked(checks.results)?);
        }
        Err(error) => {
            let action = "name the file of --export of the migration";
            checks.error("export", error.to_string(), action);
            return Ok(report.checked(checks.results)?);
        }
    };
    let message = format!("{} registries, and the APIService", export.registries.len());
    checks.ok("export", message);
    let start = match find_start(target, &mut checks).await {
        Ok(start) => start,
        Err(error) => {
            let action = "name the kubeconfig and context of an administrator with --kubeconfig and --context";
            checks.error("registries", error.to_string(), action);
            None
        }
    };
    let Some(start) = start else {
        return Ok(report.checked(checks.results)?);
    };
    check_rights(&mut checks, target, RightsFor::Rollback).await;
    let mut since = SinceMigration::default();
    if let RollbackStart::Migrated(stored) = &start {
        since = SinceMigration::of(&export, stored);
        check_since(&mut checks, &since, args);
    }
    if !report.checked(checks.results)? {
        report.conclude("The rollback cannot be done yet, and nothing was changed.")?;
        return Ok(false);
    }
    if !args.apply {
        report.conclude(&format!(
            "Dry run: nothing was changed. To go back: {}",
            command(args, path)
        ))?;
        return Ok(true);
    }
    Rollback {
        args,
        path,
        target,
        report,
        export: &export,
    }
    .run(start, &since)
    .await
}

fn command(args: &KarmadaSearchArgs, path: &Path) -> String {
    let export = args.export.as_ref();
    let export = export.map(|path| format!(" --export {}", path.display()));
    format!(
        "fleetdex migrate karmada-search --rollback {}{} --apply",
        path.display(),
        export.unwrap_or_default()
    )
}

struct Rollback<'r, 'o> {
    args: &'r KarmadaSearchArgs,
    path: &'r Path,
    target: &'r MigrationTarget,
    report: &'r mut MigrationReport<'o>,
    export: &'r RegistryExport,
}

impl Rollback<'_, '_> {
    async fn run(
        mut self,
        start: RollbackStart,
        since: &SinceMigration,
    ) -> Result<bool, MigrationEnded> {
        let is_registered = matches!(start, RollbackStart::Registered);
        if let RollbackStart::Migrated(stored) = start {
            self.save(since)?;
            self.delete_registries(&stored).await?;
            self.delete_crd().await?;
        }
        if !is_registered {
            self.restore().await?;
        }
        let is_served = self.wait_until_served().await;
        is_served.map_err(|problem| self.failed(WAIT, problem, RESTORED))?;
        self.report.done(WAIT, "it serves the registries")?;
        self.compare().await?;
        let sentence = if is_registered {
            "Nothing to do: karmada-search serves its registries."
        } else {
            "karmada-search serves its registries. Uninstall the chart of Fleetdex, or leave it out for this control plane."
        };
        self.report.conclude(sentence)?;
        Ok(true)
    }

    fn save(&mut self, since: &SinceMigration) -> Result<(), MigrationEnded> {
        let (Some(path), false) = (&self.args.export, since.unsaved.is_empty()) else {
            return Ok(());
        };
        let unsaved: Vec<Value> = since
            .unsaved
            .iter()
            .cloned()
            .map(without_finalizer)
            .collect();
        let saved = write_list(path, &unsaved.iter().collect::<Vec<_>>());
        match saved {
            Ok(()) => {}
            // Of an interrupted rollback.
            Err(ExportError::Exists(_)) if is_saved(path, &unsaved) => {}
            Err(error) => return Err(self.failed(SAVE, error.to_string(), UNCHANGED).into()),
        }
        let message = format!("{} registries are in {}", unsaved.len(), path.display());
        Ok(self.report.done(SAVE, &message)?)
    }

    /// One by one and before the CRD: Fleetdex removes the documents of each, and its finalizer.
    async fn delete_registries(&mut self, stored: &[Value]) -> Result<(), MigrationEnded> {
        for registry in stored {
            let deleted = self.target.delete_registry(name_of(registry)).await;
            deleted.map_err(|error| self.failed(DELETE, error.to_string(), DELETING))?;
        }
        let target = self.target;
        let mut left = Vec::new();
        let is_empty = target.until(async || {
            left = match target.registries().await {
                Err(error) if error.code == Some(404) => Vec::new(),
                found => found?,
            };
            Ok(left.is_empty())
        });
        let is_empty = is_empty.await;
        let is_empty =
            is_empty.map_err(|error| self.failed(DELETE, error.to_string(), DELETING))?;
        if !is_empty {
            let problem = finalizers_left(&left, target.seconds);
            return Err(self.failed(DELETE, problem, DELETING).into());
        }
        Ok(self
            .report
            .done(DELETE, &format!("{} registries", stored.len()))?)
    }

    async fn delete_crd(&mut self) -> Result<(), MigrationEnded> {
        let deleted = self.target.delete_crd().await;
        deleted.map_err(|error| self.failed(UNINSTALL, error.to_string(), DELETING))?;
        Ok(self.report.done(UNINSTALL, CRD)?)
    }

    async fn restore(&mut self) -> Result<(), MigrationEnded> {
        let restored = self.try_restore().await;
        let message = restored.map_err(|problem| self.failed(RESTORE, problem, UNINSTALLED))?;
        Ok(self.report.done(RESTORE, &message)?)
    }

    async fn try_restore(&self) -> Result<String, String> {
        let target = self.target;
        // The API server removes the CRD and then, by itself, the APIService that it had made for
        // it.
        let is_gone = target.until(async || {
            let is_gone = target.crd().await?.is_none();
            Ok(is_gone && target.api_service(API_SERVICE).await?.is_none())
        });
        if !is_gone.await.map_err(|error| error.to_string())? {
            return Err(format!(
                "CRD {CRD} is not gone after {} s; look at its conditions (kubectl describe crd {CRD})",
                target.seconds
            ));
        }
        let mut message = API_SERVICE.to_owned();
        if let Some(service) = &self.export.service {
            let created = target.create_service(service).await;
            if created.map_err(|error| error.to_string())? == Creation::Created {
                message += ", and its Service, which was gone";
            }
        }
        let created = target.create_api_service(&self.export.api_service).await;
        created.map_err(|error| error.to_string())?;
        Ok(message)
    }

    async fn wait_until_served(&self) -> Result<(), String> {
        let target = self.target;
        let mut why = String::new();
        let is_served = target.until(async || {
            let Some(service) = target.api_service(API_SERVICE).await? else {
                "the APIService is gone".clone_into(&mut why);
                return Ok(false);
            };
            if let Some(problem) = unavailability(&service) {
                why = problem;
                return Ok(false);
            }
            Ok(target.group_server().await? == GroupServer::Aggregated
                && target.registries().await.is_ok())
        });
        if is_served.await.map_err(|error| error.to_string())? {
            return Ok(());
        }
        Err(format!(
            "APIService {API_SERVICE} is not available after {} s: {why}; start karmada-search, then run this again",
            target.seconds
        ))
    }

    async fn compare(&mut self) -> Result<(), MigrationEnded> {
        let served = self.target.registries().await;
        let served = served.map_err(|error| self.failed(COMPARE, error.to_string(), RESTORED))?;
        let mut differing = 0;
        for exported in &self.export.registries {
            let name = name_of(exported);
            let found = served.iter().find(|served| name_of(served) == name);
            let changed = found.map_or_else(
                || vec!["it is not there".to_owned()],
                |found| changed_fields(exported, found),
            );
            if !changed.is_empty() {
                differing += 1;
                self.report.warn(
                    COMPARE,
                    &format!("registry {name} is not as in the export: {}", changed.join(", ")),
                    "if it was changed in karmada-search, this is right; else apply it from the export",
                )?;
            }
        }
        if differing == 0 {
            let count = self.export.registries.len();
            self.report
                .done(COMPARE, &format!("{count} registries are as in the export"))?;
        }
        Ok(())
    }

    fn failed(&self, step: &'static str, problem: String, holds: &'static str) -> StepFailed {
        StepFailed {
            step,
            problem,
            holds,
            next: format!("To go on: {}", command(self.args, self.path)),
        }
    }
}

/// karmada-search would keep the finalizer of Fleetdex for ever.
fn without_finalizer(registry: Value) -> Value {
    let mut registry = plain(registry);
    if let Some(metadata) = registry["metadata"].as_object_mut() {
        metadata.shift_remove("deletionTimestamp");
        if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
            if finalizers.is_empty() {
                metadata.shift_remove("finalizers");
            }
        }
    }
    registry
}

/// Whether a file holds these registries, and perhaps others that are deleted by now.
fn is_saved(path: &Path, registries: &[Value]) -> bool {
    let text = std::fs::read(path).unwrap_or_default();
    let list: Value = serde_json::from_slice(&text).unwrap_or_default();
    let saved = list["items"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    registries.iter().all(|registry| saved.contains(registry))
}

fn finalizers_left(left: &[Value], seconds: u64) -> String {
    let names: Vec<&str> = left.iter().map(name_of).collect();
    let first = names.first().copied().unwrap_or_default();
    format!(
        "after {seconds} s these still wait for their finalizers: {}. Fleetdex removes {FINALIZER} when it has removed the documents: \
         with fleetdex run, allow more time with --timeout, or leave the documents where they are: kubectl annotate resourceregistry {first} \
         {ORPHAN_ANNOTATION}=true; without fleetdex run, kubectl patch resourceregistry {first} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn saved_registries_do_not_have_the_finalizer_of_fleetdex() {
        let mut registry = json!({ "metadata": { "name": "web", "uid": "1", "finalizers": [FINALIZER, "example.com/keep"] } });
        let saved = without_finalizer(registry.clone());
        assert_eq!(
            saved,
            json!({ "metadata": { "name": "web", "finalizers": ["example.com/keep"] } })
        );
        registry["metadata"]["finalizers"] = json!([FINALIZER]);
        assert_eq!(
            without_finalizer(registry),
            json!({ "metadata": { "name": "web" } })
        );
    }
}
