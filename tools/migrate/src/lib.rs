//! `fleetdex migrate karmada-search`: takes the registries of a Karmada control plane over from
//! karmada-search, or gives them back.
//!
//! Without `--apply` it changes nothing on the control plane. Each step looks at what is there, so
//! that an interrupted migration goes on where it ended when it is started again with the same
//! export.

mod args;
mod checks;
mod compare;
mod export;
mod forward;
mod indices;
mod migration_start;
mod report;
mod rollback;
mod rollback_start;
mod target;

use std::process::ExitCode;

use fleetdex_cli::ControlPlaneArgs;

pub use self::args::{KarmadaSearchArgs, MigrateArgs, MigrateCommand};
use self::{report::MigrationReport, target::MigrationTarget};

/// Migrates, or says what that would change.
pub async fn run(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let MigrateCommand::KarmadaSearch(args) = &args.from;
    let config = args.control_plane.config().await?;
    let server = config.cluster_url.to_string();
    let target = MigrationTarget::new(
        ControlPlaneArgs::client(&config)?,
        server.trim_end_matches('/').to_owned(),
        args.timeout,
    );
    let out = &mut std::io::stdout().lock();
    let mut report = MigrationReport::new(args.output, out);
    let done = match &args.rollback {
        Some(path) => rollback::run(args, path, &target, &mut report).await,
        None => forward::run(args, &target, &mut report).await,
    };
    report.finish(done)
}
