//! Reauthorizes open watches periodically, and ends those whose caller has lost a permission.
//!
//! Only permissions that were granted at the start are reviewed, through the cache that all
//! requests of the caller share: a hundred watches cost as much as one. Guarantee: a lost
//! permission ends the watch within the interval, the ten seconds of a cached decision and the time
//! of a review together; failing reviews end it within two minutes.

use std::{collections::BTreeSet, time::Duration};

use fleetdex_core::{
    model::{ClusterName, Namespace},
    query::{Grant, Permitted, ResourceName},
};
use fleetdex_query_api::rbac_attributes::{Attributes, WATCH_VERB};
use futures::future::try_join_all;
use tokio::time::{Instant, sleep};

use super::{
    authorize::{AuthorizationMode, Authorizer},
    caller::Caller,
    reviews::{ReviewError, Reviewer},
};
use crate::api_error::ApiError;

/// The interval of reauthorization: a thousand watches of as many users are 100 reviews a second.
const INTERVAL: Duration = Duration::from_secs(30);
/// What each review adds to it: a watch over a thousand namespaces sends 20 reviews a second.
const INTERVAL_PER_REVIEW: Duration = Duration::from_millis(50);
/// The longest interval, whatever the number of reviews.
const MAX_INTERVAL: Duration = Duration::from_mins(5);
/// Concurrent reviews of one watch: few, because requests wait for the same slots.
const CONCURRENT: usize = 4;
/// How long a watch stays open while reviews fail.
const FAILURE_TOLERANCE: Duration = Duration::from_mins(2);

/// The permissions on which a watch was opened.
#[derive(Debug)]
pub struct Reauthorization {
    /// Reviews the permissions.
    pub authorizer: Authorizer,
    /// The caller of the watch.
    pub caller: Caller,
    /// The attributes by which the request itself was authorized.
    pub outer: Attributes,
    /// The objects that the watch shows, of one resource or of several.
    pub objects: Vec<WatchedObjects>,
}

/// The objects of one resource that a watch shows.
#[derive(Debug)]
pub struct WatchedObjects {
    /// Group and plural.
    pub resource: ResourceName,
    /// Version of the group, from the request.
    pub version: String,
    /// The requested name, if there is one.
    pub name: Option<String>,
    /// What of the objects the watch shows.
    pub permitted: Permitted,
}

type ReviewedRequest<'s> = (Reviewer<'s>, Attributes);
type PendingReviews<'s> = Box<dyn Iterator<Item = ReviewedRequest<'s>> + Send + 's>;

impl Reauthorization {
    /// Reauthorizes until a permission is lost, and returns the error that ends the watch.
    pub async fn until_denied(self) -> ApiError {
        let reviews = self.objects.iter();
        let reviews = reviews.map(|objects| self.object_reviews(objects).count());
        let interval = interval(reviews.sum());
        let mut confirmed = Instant::now();
        loop {
            // With jitter, so that watches that began together spread their reviews.
            sleep(interval.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
            match self.is_still_allowed().await {
                Ok(true) => confirmed = Instant::now(),
                Ok(false) => {
                    return ApiError::VersionExpired("what you may see has changed".to_owned());
                }
                Err(error) if confirmed.elapsed() >= FAILURE_TOLERANCE => return error.into(),
                Err(error) => {
                    tracing::debug!(%error, caller = %self.caller.name, "cannot reauthorize a watch");
                }
            }
        }
    }

    async fn is_still_allowed(&self) -> Result<bool, ReviewError> {
        let outer = (Reviewer::ControlPlane, self.outer.clone());
        if !self.allows(outer).await? || !self.sees_clusters().await? {
            return Ok(false);
        }
        for objects in &self.objects {
            if !self.allows_all(self.object_reviews(objects)).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The permission to see all clusters includes each of them.
    async fn sees_clusters(&self) -> Result<bool, ReviewError> {
        if self
            .allows((Reviewer::ControlPlane, Attributes::of_cluster(None)))
            .await?
        {
            return Ok(true);
        }
        let Some(named) = self.named_clusters() else {
            return Ok(false);
        };
        let review = |name| (Reviewer::ControlPlane, Attributes::of_cluster(Some(name)));
        let reviews = named.into_iter().map(review);
        self.allows_all(Box::new(reviews)).await
    }

    /// The clusters that the watch shows; `None` if it shows all of them.
    fn named_clusters(&self) -> Option<BTreeSet<&ClusterName>> {
        let mut named = BTreeSet::new();
        for objects in &self.objects {
            let Permitted::Only(grants) = &objects.permitted else {
                return None;
            };
            for grant in grants {
                named.extend(grant.clusters.as_ref()?);
            }
        }
        Some(named)
    }

    fn object_reviews<'s>(&'s self, objects: &'s WatchedObjects) -> PendingReviews<'s> {
        match &objects.permitted {
            Permitted::Everything => Box::new(std::iter::once((
                Reviewer::ControlPlane,
                objects.attributes(None),
            ))),
            Permitted::Only(grants) => {
                let reviews = |grant| self.grant_reviews(objects, grant);
                Box::new(grants.iter().flat_map(reviews))
            }
        }
    }

    /// The reviews for one grant: by the control plane, or by each of its clusters.
    fn grant_reviews<'s>(
        &'s self,
        objects: &'s WatchedObjects,
        grant: &'s Grant,
    ) -> impl Iterator<Item = ReviewedRequest<'s>> + Send {
        let reviewers: Vec<Reviewer<'s>> = match (self.authorizer.mode, &grant.clusters) {
            (AuthorizationMode::Members, Some(clusters)) => {
                clusters.iter().map(Reviewer::Member).collect()
            }
            (AuthorizationMode::Members, None) | (AuthorizationMode::ControlPlane, _) => {
                vec![Reviewer::ControlPlane]
            }
        };
        let inside = move || grant.namespaces.iter().flatten().map(Some);
        let everywhere = grant.namespaces.is_none().then_some(None);
        reviewers.into_iter().flat_map(move |reviewer| {
            everywhere
                .into_iter()
                .chain(inside())
                .map(move |namespace| (reviewer, objects.attributes(namespace)))
        })
    }

    async fn allows_all(&self, mut reviews: PendingReviews<'_>) -> Result<bool, ReviewError> {
        loop {
            let batch: Vec<_> = reviews
                .by_ref()
                .take(CONCURRENT)
                .map(|review| self.allows(review))
                .collect();
            if batch.is_empty() {
                return Ok(true);
            }
            if try_join_all(batch).await?.contains(&false) {
                return Ok(false);
            }
        }
    }

    async fn allows(
        &self,
        (reviewer, attributes): ReviewedRequest<'_>,
    ) -> Result<bool, ReviewError> {
        let reviews = &self.authorizer.reviews;
        let decision = reviews.decide(reviewer, &self.caller, &attributes);
        Ok(decision.await?.is_allowed())
    }
}

impl WatchedObjects {
    fn attributes(&self, namespace: Option<&Namespace>) -> Attributes {
        Attributes::of_objects(
            WATCH_VERB,
            &self.resource,
            &self.version,
            namespace,
            self.name.as_deref(),
        )
    }
}

fn interval(reviews: usize) -> Duration {
    let reviews = u32::try_from(reviews).unwrap_or(u32::MAX);
    INTERVAL_PER_REVIEW
        .saturating_mul(reviews)
        .clamp(INTERVAL, MAX_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_grows_with_the_number_of_reviews() {
        assert_eq!(
            [1, 600, 1_000, 1_000_000].map(|count| interval(count).as_secs()),
            [30, 30, 50, 300]
        );
    }
}
