//! From karmada-search to Fleetdex.

use std::path::{Display, Path};

use fleetdex_checks::result::Checks;
use fleetdex_cli::crd::install_registries;
use fleetdex_core::model::causes;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::Value;

use super::{
    args::KarmadaSearchArgs,
    checks::{RightsFor, check_registries, check_rights, check_surroundings},
    compare::changed_fields,
    export::{RegistryExport, name_of},
    migration_start::{MigrationStart, find_start},
    report::{MigrationEnded, MigrationReport, StepFailed},
    target::{API_SERVICE, CRD, Creation, GroupServer, MigrationTarget, RequestFailed},
};

const EXPORT: &str = "write the export";
const REMOVE: &str = "remove the APIService";
const RELEASE: &str = "wait until the group is free";
const INSTALL: &str = "install the CRD";
const REVIEW: &str = "check the registries";
const CREATE: &str = "create the registries";
const COMPARE: &str = "compare";

/// What holds when a step fails.
const UNCHANGED: &str = "Nothing was changed.";
const RELEASED: &str = "The APIService is removed, and no registry is served; karmada-search still has its registries in its etcd.";
const INSTALLED: &str = "The CRD is installed, and not all registries are created; karmada-search still has its registries in its etcd.";

/// Migrates, or says what that would change; returns whether it was done, or can be. It is not done
/// while a registry is stored other than it was exported.
pub async fn run(
    args: &KarmadaSearchArgs,
    target: &MigrationTarget,
    report: &mut MigrationReport<'_>,
) -> Result<bool, MigrationEnded> {
    let mut checks = Checks::of("control plane");
    if args.apply && args.export.is_none() {
        let message = "--apply writes an export before it removes anything";
        checks.error("export", message, "name a new file with --export");
        return Ok(report.checked(checks.results)?);
    }
    let start = find_start(args, target, &mut checks).await;
    match start {
        MigrationStart::Impossible => Ok(report.checked(checks.results)?),
        MigrationStart::Nothing => {
            report.checked(checks.results)?;
            report.conclude("Nothing to do.")?;
            Ok(true)
        }
        MigrationStart::Registered(api_service, export) => {
            check_rights(&mut checks, target, RightsFor::Migration).await;
            check_surroundings(&mut checks, target).await;
            let mut results = checks.results;
            let registries = check_registries(target, &export.registries, &args.secret_hosts);
            results.extend(registries.await);
            let is_possible = report.checked(results)?;
            if !is_possible {
                report.conclude("The migration cannot be done yet, and nothing was changed.")?;
                return Ok(false);
            }
            Migration::new(args, target, report, &export)
                .migrate_registered(&api_service)
                .await
        }
        MigrationStart::Interrupted(export) => {
            check_rights(&mut checks, target, RightsFor::Migration).await;
            if !report.checked(checks.results)? {
                return Ok(false);
            }
            Migration::new(args, target, report, &export).resume().await
        }
    }
}

struct Migration<'m, 'o> {
    args: &'m KarmadaSearchArgs,
    target: &'m MigrationTarget,
    report: &'m mut MigrationReport<'o>,
    export: &'m RegistryExport,
}

impl<'m, 'o> Migration<'m, 'o> {
    fn new(
        args: &'m KarmadaSearchArgs,
        target: &'m MigrationTarget,
        report: &'m mut MigrationReport<'o>,
        export: &'m RegistryExport,
    ) -> Self {
        Self {
            args,
            target,
            report,
            export,
        }
    }

    async fn migrate_registered(
        mut self,
        api_service: &APIService,
    ) -> Result<bool, MigrationEnded> {
        if let Some(path) = &self.args.export {
            self.write_export(path)?;
        }
        if !self.args.apply {
            self.report.conclude(&format!(
                "Dry run: nothing was changed. To migrate: {}",
                self.command()
            ))?;
            return Ok(true);
        }
        let removed = self.target.delete_api_service(api_service).await;
        removed.map_err(|error| self.failed(REMOVE, error.to_string(), UNCHANGED))?;
        self.report.done(REMOVE, API_SERVICE)?;
        self.take_over().await
    }

    async fn resume(mut self) -> Result<bool, MigrationEnded> {
        if self.args.apply {
            return self.take_over().await;
        }
        let missing = self.missing().await;
        let missing = missing.map_err(|error| self.failed(COMPARE, error.to_string(), RELEASED))?;
        let sentence = match missing {
            0 => "Nothing to do: every registry of the export is there.".to_owned(),
            count => format!(
                "Dry run: {count} registries of the export are not there yet. To go on: {}",
                self.command()
            ),
        };
        self.report.conclude(&sentence)?;
        Ok(true)
    }

    fn write_export(&mut self, path: &Path) -> Result<(), MigrationEnded> {
        let count = self.export.registries.len();
        // What is there already has been compared.
        if !path.exists() {
            let written = self.export.write(path);
            written.map_err(|error| self.failed(EXPORT, error.to_string(), UNCHANGED))?;
        }
        let message = format!(
            "{count} registries, the APIService and its Service are in {}",
            path.display()
        );
        Ok(self.report.done(EXPORT, &message)?)
    }

    /// The steps after the `APIService` is removed.
    async fn take_over(&mut self) -> Result<bool, MigrationEnded> {
        let is_free = self.wait_until_free().await;
        is_free.map_err(|problem| self.failed(RELEASE, problem, RELEASED))?;
        self.report
            .done(RELEASE, "karmada-search answers no more")?;
        let installed = self.install_crd().await;
        let installed = installed.map_err(|problem| self.failed(INSTALL, problem, RELEASED))?;
        self.report.done(INSTALL, &format!("{CRD}: {installed}"))?;
        self.create(true, REVIEW).await?;
        let created = self.create(false, CREATE).await?;
        let is_equal = self.compare().await?;
        let sentence = match (created, is_equal) {
            (0, true) => "Nothing to do: every registry of the export is there.",
            (_, true) => {
                "The registries are Fleetdex's. fleetdex run indexes them; kubectl get resourceregistries shows when they are Ready."
            }
            (_, false) => "The registries are Fleetdex's, but not all are as in the export.",
        };
        self.report.conclude(sentence)?;
        Ok(is_equal)
    }

    async fn wait_until_free(&self) -> Result<(), String> {
        let target = self.target;
        let is_free = target.until(async || {
            let is_removed = target.aggregated(API_SERVICE).await?.is_none();
            Ok(is_removed && target.group_server().await? != GroupServer::Aggregated)
        });
        if is_free.await.map_err(|error| error.to_string())? {
            return Ok(());
        }
        Err(format!(
            "karmada-search still answers for search.karmada.io after {} s; if a program such as karmada-operator creates APIService {API_SERVICE} \
             again, disable karmada-search there",
            target.seconds
        ))
    }

    async fn install_crd(&self) -> Result<String, String> {
        let target = self.target;
        let (client, server) = (target.client.clone(), target.server.clone());
        let installed = install_registries(client, server, target.seconds).await;
        let installed = installed.map_err(|error| causes(&error))?;
        let is_served = target.until(async || {
            let is_served = target.group_server().await? == GroupServer::Crd;
            Ok(is_served && target.registries().await.is_ok())
        });
        if is_served.await.map_err(|error| error.to_string())? {
            return Ok(installed);
        }
        Err(format!(
            "it is applied, but not served after {} s; allow more time with --timeout",
            target.seconds
        ))
    }

    /// Creates the registries that are not there, or only has the API server check them; returns
    /// their number.
    async fn create(&mut self, dry_run: bool, step: &'static str) -> Result<usize, MigrationEnded> {
        let mut created = 0;
        for registry in &self.export.registries {
            let creation = self.target.create_registry(registry, dry_run).await;
            match creation.map_err(|error| self.failed(step, error.to_string(), INSTALLED))? {
                Creation::Created => {
                    created += 1;
                    if !dry_run {
                        self.report
                            .done(step, &format!("{} created", name_of(registry)))?;
                    }
                }
                Creation::Exists if !dry_run => {
                    self.report
                        .done(step, &format!("{} is there", name_of(registry)))?;
                }
                Creation::Exists => {}
            }
        }
        if dry_run {
            self.report.done(step, "the API server accepts them")?;
        }
        Ok(created)
    }

    /// Compares what is stored with the export.
    async fn compare(&mut self) -> Result<bool, MigrationEnded> {
        let mut is_equal = true;
        for wanted in &self.export.registries {
            let name = name_of(wanted);
            let stored = self.target.registry(name).await;
            let stored =
                stored.map_err(|error| self.failed(COMPARE, error.to_string(), INSTALLED))?;
            let changed = stored.map_or_else(
                || vec!["it was deleted".to_owned()],
                |stored| changed_fields(wanted, &stored),
            );
            if !changed.is_empty() {
                is_equal = false;
                self.report.differs(
                    COMPARE,
                    &format!(
                        "registry {name} is not as in the export: {}",
                        changed.join(", ")
                    ),
                    &format!(
                        "kubectl edit resourceregistry {name}; if it was edited after the migration, it is right as it is"
                    ),
                )?;
            }
        }
        if is_equal {
            let count = self.export.registries.len();
            self.report.done(
                COMPARE,
                &format!("{count} registries are stored as exported"),
            )?;
        }
        Ok(is_equal)
    }

    async fn missing(&self) -> Result<usize, RequestFailed> {
        if self.target.group_server().await? != GroupServer::Crd {
            return Ok(self.export.registries.len());
        }
        let stored = self.target.registries().await?;
        let is_missing = |wanted: &&Value| {
            !stored
                .iter()
                .any(|stored| name_of(stored) == name_of(wanted))
        };
        Ok(self.export.registries.iter().filter(is_missing).count())
    }

    fn file(&self) -> Display<'_> {
        let file = self.args.export.as_deref();
        file.unwrap_or_else(|| Path::new("FILE")).display()
    }

    fn command(&self) -> String {
        let file = self.file();
        format!("fleetdex migrate karmada-search --export {file} --apply")
    }

    fn failed(&self, step: &'static str, problem: String, holds: &'static str) -> StepFailed {
        let next = if holds == UNCHANGED {
            format!("Try again: {}", self.command())
        } else {
            format!(
                "To go on: {}. To go back: fleetdex migrate karmada-search --rollback {} --apply",
                self.command(),
                self.file()
            )
        };
        StepFailed {
            step,
            problem,
            holds,
            next,
        }
    }
}
