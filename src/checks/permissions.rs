//! Asks API servers what the caller may do, by `SelfSubjectAccessReview`s.

use std::time::Duration;

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
    pub verb: &'static str,
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
    pub fn on(verb: &'static str, group: &str, resource: &str) -> Self {
        Self {
            verb,
            group: group.to_owned(),
            resource: resource.to_owned(),
            ..Self::default()
        }
    }

    /// On one object.
    pub fn named(mut self, namespace: &str, name: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        name.clone_into(&mut self.name);
        self
    }

    fn attributes(&self) -> ResourceAttributes {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, some(subresource)),
            None => (self.resource.as_str(), None),
        };
        ResourceAttributes {
            verb: some(self.verb),
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
        write!(out, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(out, ".{}", self.group)?;
        }
        if !self.name.is_empty() {
            write!(out, " {}", self.name)?;
        }
        if !self.namespace.is_empty() {
            write!(out, " in namespace {}", self.namespace)?;
        }
        Ok(())
    }
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
}
