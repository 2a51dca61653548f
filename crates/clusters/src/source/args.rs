//! The flags that choose the sources of clusters.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Where members come from.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// Karmada's Cluster objects.
    Karmada,
    /// Cluster API's Cluster objects with their kubeconfig Secrets.
    ClusterApi,
    /// Secrets with the label fleetdex.io/cluster that hold a kubeconfig.
    Secrets,
    /// The contexts of a kubeconfig file.
    Kubeconfig,
}

/// The flags that choose the sources of clusters.
#[derive(Args, Clone, Debug)]
pub struct SourceArgs {
    /// Where member clusters come from; may be given several times.
    #[arg(
        long,
        env = "FLEETDEX_CLUSTER_SOURCE",
        value_enum,
        value_delimiter = ',',
        default_value = "karmada"
    )]
    pub cluster_source: Vec<SourceKind>,

    /// Namespace to look in for Cluster API's Clusters and for labelled Secrets; may be given
    /// several times. Without it Clusters are looked for in all namespaces, and Secrets in that of
    /// the control plane's context or of the Pod.
    #[arg(
        long,
        env = "FLEETDEX_CLUSTER_NAMESPACE",
        value_delimiter = ',',
        value_name = "NAMESPACE"
    )]
    pub cluster_namespace: Vec<String>,

    /// Only Cluster API Clusters whose label cluster.x-k8s.io/watch-filter has this value.
    #[arg(long, env = "FLEETDEX_CLUSTER_API_WATCH_FILTER", value_name = "VALUE")]
    pub cluster_api_watch_filter: Option<String>,

    /// Kubeconfig whose contexts are member clusters; without it those that kubectl reads.
    #[arg(long, env = "FLEETDEX_KUBECONFIG_CLUSTERS", value_name = "FILE")]
    pub kubeconfig_clusters: Option<PathBuf>,

    /// Context of that kubeconfig to make a member; may be given several times. Without it all of
    /// them.
    #[arg(
        long,
        env = "FLEETDEX_CLUSTER_CONTEXT",
        value_delimiter = ',',
        value_name = "CONTEXT"
    )]
    pub cluster_context: Vec<String>,

    /// Index a cluster under each of its names when it is registered several times; otherwise only
    /// the oldest registration counts.
    #[arg(long, env = "FLEETDEX_ALLOW_SAME_CLUSTER")]
    pub allow_same_cluster: bool,
}

/// A flag for a source that is not selected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{flag} has no effect without --cluster-source {source_name}: add that, or leave the flag out"
)]
pub struct UselessFlag {
    /// The flag.
    pub flag: &'static str,
    /// The source that the flag belongs to.
    pub source_name: &'static str,
}

impl SourceArgs {
    /// Whether this source is selected.
    pub fn has(&self, kind: SourceKind) -> bool {
        self.cluster_source.contains(&kind)
    }

    /// Rejects flags of sources that are not selected: a flag without effect is a mistake of the
    /// user.
    pub fn check(&self) -> Result<(), UselessFlag> {
        let of_namespaces = self.has(SourceKind::ClusterApi) || self.has(SourceKind::Secrets);
        let (of_api, of_file) = (
            self.has(SourceKind::ClusterApi),
            self.has(SourceKind::Kubeconfig),
        );
        let flags = [
            (
                "--cluster-namespace",
                "cluster-api or secrets",
                !self.cluster_namespace.is_empty() && !of_namespaces,
            ),
            (
                "--cluster-api-watch-filter",
                "cluster-api",
                self.cluster_api_watch_filter.is_some() && !of_api,
            ),
            (
                "--kubeconfig-clusters",
                "kubeconfig",
                self.kubeconfig_clusters.is_some() && !of_file,
            ),
            (
                "--cluster-context",
                "kubeconfig",
                !self.cluster_context.is_empty() && !of_file,
            ),
        ];
        match flags.into_iter().find(|(_, _, useless)| *useless) {
            Some((flag, source_name, _)) => Err(UselessFlag { flag, source_name }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        sources: SourceArgs,
    }

    fn parse(arguments: &[&str]) -> SourceArgs {
        TestCommand::try_parse_from([&["fleetdex"], arguments].concat())
            .unwrap()
            .sources
    }

    #[test]
    fn sources_are_any_mix_and_karmada_by_default() {
        assert_eq!(parse(&[]).cluster_source, [SourceKind::Karmada]);
        let mixed = parse(&[
            "--cluster-source=cluster-api,secrets",
            "--cluster-source",
            "kubeconfig",
        ]);
        assert_eq!(
            mixed.cluster_source,
            [
                SourceKind::ClusterApi,
                SourceKind::Secrets,
                SourceKind::Kubeconfig
            ]
        );
        assert!(!mixed.has(SourceKind::Karmada));
        assert_eq!(
            parse(&["--cluster-namespace=a,b", "--cluster-namespace=c"]).cluster_namespace,
            ["a", "b", "c"]
        );
    }

    #[test]
    fn a_flag_of_a_source_that_is_not_selected_is_refused() {
        for (flag, source) in [
            ("--cluster-namespace=a", "secrets"),
            ("--cluster-api-watch-filter=a", "cluster-api"),
            ("--kubeconfig-clusters=a", "kubeconfig"),
            ("--cluster-context=a", "kubeconfig"),
        ] {
            assert!(flag.starts_with(parse(&[flag]).check().unwrap_err().flag));
            assert_eq!(
                parse(&[flag, &format!("--cluster-source={source}")]).check(),
                Ok(())
            );
        }
    }
}
