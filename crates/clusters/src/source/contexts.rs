//! The contexts of a kubeconfig as members.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use kube::config::Kubeconfig;

use super::super::member::{Access, KubeconfigFile, Member};

/// What the contexts of a kubeconfig come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contexts {
    /// One for each context, by the name of the context.
    pub members: Vec<Member>,
    /// Contexts that were asked for and are not there.
    pub absent: Vec<String>,
}

/// The contexts of a kubeconfig that was read from `path` (`None`: from where kubectl reads it), or those of them that are `wanted`.
/// A name that stands there twice counts once, as kubectl counts it.
pub fn contexts(kubeconfig: &Kubeconfig, path: Option<&Path>, wanted: &[String]) -> Contexts {
    let mut there: BTreeSet<&str> = kubeconfig
        .contexts
        .iter()
        .map(|context| context.name.as_str())
        .collect();
    let absent = wanted
        .iter()
        .filter(|name| !there.contains(name.as_str()))
        .cloned()
        .collect();
    if !wanted.is_empty() {
        there.retain(|name| wanted.iter().any(|wanted| wanted == name));
    }
    let members = there
        .into_iter()
        .filter_map(|name| member(name, path))
        .collect();
    Contexts { members, absent }
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
        access: Access::KubeconfigFile(file),
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

    fn names(contexts: &Contexts) -> Vec<&str> {
        contexts
            .members
            .iter()
            .map(|member| member.name.as_str())
            .collect()
    }

    #[test]
    fn every_context_is_a_member_or_only_those_that_are_wanted() {
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
