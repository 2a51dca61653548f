//! What the account of a set may do at the control plane.

use std::{collections::BTreeSet, fmt, time::Duration};

use fleetdex_core::model::causes;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use super::failure::{SetFailure, named};

/// How long one review may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Reviews under way for one set.
const CONCURRENT_REVIEWS: usize = 8;
/// Rights of one set, at most: a chart has some ten kinds in a few namespaces.
const MOST_RIGHTS: usize = 1_000;
/// Rights that a message names, at most.
const NAMED: usize = 10;

/// A right that a set needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeededRight {
    /// The verb.
    pub verb: &'static str,
    /// The group; empty for the core group.
    pub group: String,
    /// The plural of the kind.
    pub resource: String,
    /// The namespace; empty: none, or all.
    pub namespace: String,
    /// The name; empty: all.
    pub name: String,
}

/// Such as `create deployments.apps in namespace shop`.
impl fmt::Display for NeededRight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// A `ServiceAccount` of the control plane.
#[derive(Clone, Debug)]
pub struct SetAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl SetAccount {
    /// An error: the account lacks one of these rights, or that is not known.
    pub async fn check(
        &self,
        client: &Client,
        needed: &BTreeSet<NeededRight>,
    ) -> Result<(), SetFailure> {
        if needed.len() > MOST_RIGHTS {
            return Err(SetFailure::forbidden(format!(
                "the set needs {} rights, and {MOST_RIGHTS} are looked at: use fewer namespaces",
                needed.len()
            )));
        }
        let reviews = stream::iter(needed.iter().cloned());
        let reviews = reviews.map(async |right| {
            let has = self.has(client, &right).await;
            (right, has)
        });
        let mut reviews = Box::pin(reviews.buffer_unordered(CONCURRENT_REVIEWS));
        let mut missing = BTreeSet::new();
        while let Some((right, has)) = reviews.next().await {
            if !has? {
                missing.insert(right);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(SetFailure::forbidden(format!(
            "ServiceAccount {}/{} may not {}: bind a role with these rights to it, or name \
             another one in spec.serviceAccountName",
            self.namespace,
            self.name,
            named(missing.iter(), NAMED)
        )))
    }

    async fn has(&self, client: &Client, right: &NeededRight) -> Result<bool, SetFailure> {
        let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
        let review = self.review(right);
        let parameters = PostParams::default();
        let answer = timeout(TIMEOUT, reviews.create(&parameters, &review)).await;
        let unknown = |reason: String| {
            SetFailure::new(
                "RightsNotKnown",
                format!("cannot find out whether the account of the set may {right}: {reason}"),
            )
        };
        match answer {
            Ok(Ok(review)) => Ok(review.status.is_some_and(|status| status.allowed)),
            Ok(Err(error)) => Err(unknown(causes(&error))),
            Err(_) => Err(unknown("no answer in time".to_owned())),
        }
    }

    fn review(&self, right: &NeededRight) -> SubjectAccessReview {
        let filled = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ];
        let attributes = ResourceAttributes {
            verb: Some(right.verb.to_owned()),
            group: Some(right.group.clone()),
            resource: Some(right.resource.clone()),
            namespace: filled(&right.namespace),
            name: filled(&right.name),
            ..ResourceAttributes::default()
        };
        SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!(
                    "system:serviceaccount:{}:{}",
                    self.namespace, self.name
                )),
                groups: Some(groups.to_vec()),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        }
    }
}
