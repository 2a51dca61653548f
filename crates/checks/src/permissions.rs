//! Asks API servers what the caller may do, by `SelfSubjectAccessReview`s.

use std::{collections::BTreeMap, time::Duration};

use fleetdex_core::model::causes;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

/// How long an API server may take to answer a small request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Reviews of one API server at a time.
const REVIEWS: usize = 8;

/// A right on one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The verb.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural, with `/status` or another subresource.
    pub resource: String,
    /// The namespace; empty: all, or none.
    pub namespace: String,
    /// The name; empty: all.
    pub name: String,
}

impl Right {
    /// On all objects of a resource.
    pub fn on(verb: &str, group: &str, resource: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            ..Self::default()
        }
    }

    /// On one object.
    #[must_use]
    pub fn named(mut self, namespace: &str, name: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        name.clone_into(&mut self.name);
        self
    }

    /// The resource with its group and name, as `deployments.apps web`.
    fn objects(&self) -> String {
        let mut objects = self.resource.clone();
        if !self.group.is_empty() {
            objects.push('.');
            objects.push_str(&self.group);
        }
        if !self.name.is_empty() {
            objects.push(' ');
            objects.push_str(&self.name);
        }
        objects
    }

    fn attributes(&self) -> ResourceAttributes {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, some(subresource)),
            None => (self.resource.as_str(), None),
        };
        ResourceAttributes {
            verb: some(&self.verb),
            group: some(&self.group),
            resource: some(resource),
            subresource,
            namespace: some(&self.namespace),
            name: some(&self.name),
            ..ResourceAttributes::default()
        }
    }
}

impl std::fmt::Display for Right {
    /// As `list deployments.apps in namespace web`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", self.verb, self.objects())?;
        if !self.namespace.is_empty() {
            write!(out, " in namespace {}", self.namespace)?;
        }
        Ok(())
    }
}

/// Resources that one sentence names.
const MAX_NAMED: usize = 5;

/// The rights in few sentences, as
/// `list, watch deployments.apps, pods and 3 more in namespace web`.
pub fn summarized(rights: &[Right]) -> Vec<String> {
    let mut verbs: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for right in rights {
        let of_objects = verbs
            .entry((&right.namespace, right.objects()))
            .or_default();
        of_objects.push(&right.verb);
    }
    let mut objects: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for ((namespace, of_verbs), verbs) in verbs {
        let with_verbs = objects.entry((namespace, verbs.join(", "))).or_default();
        with_verbs.push(of_verbs);
    }
    let sentence = |((namespace, verbs), objects): ((&str, String), Vec<String>)| {
        let named = &objects[..objects.len().min(MAX_NAMED)];
        let more = match objects.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let place = match namespace {
            "" => String::new(),
            namespace => format!(" in namespace {namespace}"),
        };
        format!("{verbs} {}{more}{place}", named.join(", "))
    };
    objects.into_iter().map(sentence).collect()
}

/// Returns the rights that the caller does not have, or why that cannot be found out.
pub async fn missing(client: &Client, rights: Vec<Right>) -> Result<Vec<Right>, String> {
    let reviews = rights.into_iter().map(|right| async move {
        let is_allowed = is_allowed(client, &right).await?;
        Ok((right, is_allowed))
    });
    let answers: Vec<Result<(Right, bool), String>> =
        stream::iter(reviews).buffered(REVIEWS).collect().await;
    let mut missing = Vec::new();
    for answer in answers {
        let (right, is_allowed) = answer?;
        if !is_allowed {
            missing.push(right);
        }
    }
    Ok(missing)
}

async fn is_allowed(client: &Client, right: &Right) -> Result<bool, String> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(right.attributes()),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let parameters = PostParams::default();
    let created = api.create(&parameters, &review);
    match tokio::time::timeout(REQUEST_TIMEOUT, created).await {
        Ok(Ok(answer)) => Ok(answer.status.is_some_and(|status| status.allowed)),
        Ok(Err(error)) => Err(causes(&error)),
        Err(_) => Err(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_named_as_kubectl_names_it() {
        let right = Right::on("patch", "search.karmada.io", "resourceregistries/status");
        assert_eq!(
            right.to_string(),
            "patch resourceregistries/status.search.karmada.io"
        );
        let attributes = right.attributes();
        assert_eq!(attributes.subresource.as_deref(), Some("status"));
        let secret = Right::on("get", "", "secrets").named("search", "login");
        assert_eq!(secret.to_string(), "get secrets login in namespace search");
    }

    #[test]
    fn many_rights_are_few_sentences() {
        let mut rights: Vec<Right> = (0..8)
            .flat_map(|kind| {
                let resource = format!("kind{kind}s");
                ["list", "watch"].map(|verb| Right::on(verb, "example.com", &resource))
            })
            .collect();
        rights.push(Right::on("get", "", "secrets").named("search", "login"));
        assert_eq!(
            summarized(&rights),
            [
                "list, watch kind0s.example.com, kind1s.example.com, kind2s.example.com, kind3s.example.com, kind4s.example.com and 3 more",
                "get secrets login in namespace search",
            ]
        );
        assert_eq!(summarized(&[]), [""; 0]);
    }
}
