//! The contexts of a kubeconfig as members.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use fleetdex_query_api::group::FLEET_PATH;
use kube::config::{Kubeconfig, NamedContext};

use super::super::member::{KubeconfigFile, Member, MemberAccess};

/// The members that the contexts of a kubeconfig describe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeconfigContexts {
    /// One member per context, with the name of the context.
    pub members: Vec<Member>,
    /// Selected contexts that do not exist.
    pub absent: Vec<String>,
    /// Contexts whose server is a fleet instead of a cluster, which are no members. Only selected
    /// ones, if some are selected.
    pub fleets: Vec<String>,
}

/// Whether this is the URL of the Kubernetes API over a fleet.
pub fn is_fleet_url(server: &str) -> bool {
    server.trim_end_matches('/').ends_with(FLEET_PATH)
}

/// Returns the contexts of a kubeconfig that was read from `path` (`None`: from the files that
/// kubectl reads), or only those in `selected`. A duplicate name counts once, as in kubectl.
pub fn contexts(
    kubeconfig: &Kubeconfig,
    path: Option<&Path>,
    selected: &[String],
) -> KubeconfigContexts {
    let mut names: BTreeSet<&str> = kubeconfig
        .contexts
        .iter()
        .map(|context| context.name.as_str())
        .collect();
    let absent = selected
        .iter()
        .filter(|name| !names.contains(name.as_str()))
        .cloned()
        .collect();
    if !selected.is_empty() {
        names.retain(|name| selected.iter().any(|selected| selected == name));
    }
    let (fleets, clusters): (Vec<_>, Vec<_>) = names
        .into_iter()
        .partition(|name| leads_to_fleet(kubeconfig, name));
    let members = clusters
        .into_iter()
        .filter_map(|name| member(name, path))
        .collect();
    KubeconfigContexts {
        members,
        absent,
        fleets: fleets.into_iter().map(str::to_owned).collect(),
    }
}

/// Whether the server of a context is a fleet, which would index itself as a member.
fn leads_to_fleet(kubeconfig: &Kubeconfig, name: &str) -> bool {
    let is_named = |entry: &&NamedContext| entry.name == name;
    let context = kubeconfig.contexts.iter().find(is_named);
    let Some(context) = context.and_then(|entry| entry.context.as_ref()) else {
        return false;
    };
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|entry| entry.name == context.cluster);
    cluster
        .and_then(|entry| entry.cluster.as_ref()?.server.as_deref())
        .is_some_and(is_fleet_url)
}

/// `None` for a context whose name is empty.
fn member(context: &str, path: Option<&Path>) -> Option<Member> {
    let file = KubeconfigFile {
        path: path.map(Path::to_owned),
        context: context.to_owned(),
    };
    Some(Member {
        name: context.parse().ok()?,
        uid: file.to_string(),
        generation: None,
        labels: BTreeMap::new(),
        provider: None,
        region: None,
        zones: Vec::new(),
        origin: file.to_string(),
        created: None,
        access: MemberAccess::KubeconfigFile(file),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(names: &[&str]) -> Kubeconfig {
        let contexts: Vec<_> = names
            .iter()
            .map(|name| serde_json::json!({ "name": name, "context": { "cluster": "c" } }))
            .collect();
        serde_json::from_value(serde_json::json!({ "contexts": contexts })).unwrap()
    }

    fn names(contexts: &KubeconfigContexts) -> Vec<&str> {
        contexts
            .members
            .iter()
            .map(|member| member.name.as_str())
            .collect()
    }

    #[test]
    fn every_context_is_a_member_unless_some_are_selected() {
        let config = kubeconfig(&["b", "arn:aws:eks:eu-west-1:1:cluster/Prod", "b", ""]);
        let all = contexts(&config, None, &[]);
        assert_eq!(names(&all), ["arn:aws:eks:eu-west-1:1:cluster/Prod", "b"]);
        let some = contexts(&config, Some(Path::new("/a/b")), &["b".into(), "c".into()]);
        assert_eq!(
            (names(&some), &some.absent),
            (vec!["b"], &vec!["c".to_owned()])
        );
        assert_eq!(some.members[0].origin, "context b of kubeconfig /a/b");
        assert_eq!(all.members[1].origin, "context b of your kubeconfig");
    }

    #[test]
    fn the_context_of_a_fleet_is_no_member_even_if_it_is_selected() {
        let context =
            |name: &str| serde_json::json!({ "name": name, "context": { "cluster": name } });
        let cluster = |name: &str, server: String| serde_json::json!({ "name": name, "cluster": { "server": server } });
        let config = serde_json::from_value(serde_json::json!({
            "contexts": [context("prod"), context("fleet"), context("eu")],
            "clusters": [
                cluster("prod", "https://prod:6443".to_owned()),
                cluster("fleet", format!("http://fleetdex:secret@127.0.0.1:8443{FLEET_PATH}")),
                cluster("eu", format!("https://control:6443{FLEET_PATH}/")),
            ],
        }));
        let config: Kubeconfig = config.unwrap();
        let all = contexts(&config, None, &[]);
        assert_eq!(names(&all), ["prod"]);
        assert_eq!(all.fleets, ["eu", "fleet"]);
        let selected = contexts(&config, None, &["fleet".into(), "prod".into()]);
        assert_eq!(names(&selected), ["prod"]);
        assert_eq!(selected.fleets, ["fleet"]);
        assert!(selected.absent.is_empty(), "{selected:?}");
    }
}
