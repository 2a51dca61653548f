//! The contexts of the kubeconfig.

use anyhow::{Context as _, bail};
use fleetdex_clusters::{
    Member,
    source::{contexts, read_kubeconfig},
};

use super::args::LocalArgs;

/// The contexts that are read, or why there are none.
pub(super) async fn members(args: &LocalArgs) -> anyhow::Result<Vec<Member>> {
    let path = args.kubeconfig.as_deref();
    let file = || {
        path.map_or_else(
            || "your kubeconfig".to_owned(),
            |path| path.display().to_string(),
        )
    };
    let kubeconfig = read_kubeconfig(path)
        .await
        .with_context(|| format!("cannot read {}", file()))?;
    let found = contexts(&kubeconfig, path, &args.contexts);
    if !found.absent.is_empty() {
        let existing: Vec<&str> = kubeconfig
            .contexts
            .iter()
            .map(|context| context.name.as_str())
            .collect();
        bail!(
            "{} has no context {}; it has {}",
            file(),
            found.absent.join(", "),
            existing.join(", ")
        );
    }
    if !found.fleets.is_empty() {
        let fleets = found.fleets.join(", ");
        if !args.contexts.is_empty() {
            bail!(
                "the server of context {fleets} of {} is a fleet instead of a cluster; name other contexts with --context",
                file()
            );
        }
        tracing::debug!(contexts = %fleets, "skipped contexts whose server is a fleet");
    }
    if found.members.is_empty() {
        bail!(
            "{} has no context of a cluster; name another file with --kubeconfig",
            file()
        );
    }
    Ok(found.members)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fleetdex_query_api::group::FLEET_PATH;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: LocalArgs,
    }

    #[tokio::test]
    async fn a_fleet_is_refused_by_name_and_skipped_otherwise() {
        let name = format!("fleetdex-local-{}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        let kubeconfig = format!(
            "clusters:\n- {{name: prod, cluster: {{server: 'https://prod:6443'}}}}\n\
             - {{name: fleet, cluster: {{server: 'https://prod:6443{FLEET_PATH}'}}}}\n\
             contexts:\n- {{name: prod, context: {{cluster: prod}}}}\n\
             - {{name: fleet, context: {{cluster: fleet}}}}\n"
        );
        std::fs::write(&path, kubeconfig).unwrap();
        let file = path.display().to_string();
        let mut args = Command::parse_from(["local", "--kubeconfig", &file]).args;
        args.contexts = Vec::new();
        let all = members(&args).await.unwrap();
        args.contexts = vec!["fleet".to_owned()];
        let refused = members(&args).await.unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        let names: Vec<&str> = all.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["prod"]);
        assert!(
            refused.starts_with("the server of context fleet of") && refused.contains("--context"),
            "{refused}"
        );
    }
}
