//! The contexts of a kubeconfig as members.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use kube::config::Kubeconfig;

use super::super::member::{KubeconfigFile, Member, MemberAccess};

/// The members that the contexts of a kubeconfig describe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeconfigContexts {
    /// One member per context, with the name of the context.
    pub members: Vec<Member>,
    /// Selected contexts that do not exist.
    pub absent: Vec<String>,
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
    let members = names
        .into_iter()
        .filter_map(|name| member(name, path))
        .collect();
    KubeconfigContexts { members, absent }
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
}
