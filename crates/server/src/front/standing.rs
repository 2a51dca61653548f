//! Whether what a watch was allowed when it began still is: asked again while it lasts.
//!
//! Only what was allowed is asked about, and the answers are the ones that are remembered for every request of the same caller: a hundred watches
//! cost as much as one. Guarantee: what is not allowed any more is seen no longer than the interval, the ten seconds of a remembered answer and the
//! time of a review together; what nobody can tell, no longer than two minutes.

use std::time::Duration;

use fleetdex_core::{
    model::Namespace,
    query::{Grant, Permitted, ResourceName},
};
use futures::future::try_join_all;
use tokio::time::{Instant, sleep};

use super::{
    attributes::Attributes,
    authorize::{Authorizer, Mode},
    reviews::{Place, ReviewError},
};
use crate::{caller::Caller, status::ApiError};

/// How often somebody is asked again: a thousand watches of as many users are 100 questions a second.
const INTERVAL: Duration = Duration::from_secs(30);
/// Time for one question more: a watch over a thousand namespaces asks 20 a second.
const INTERVAL_PER_QUESTION: Duration = Duration::from_millis(50);
/// The longest interval, however many questions there are.
const MAX_INTERVAL: Duration = Duration::from_mins(5);
/// Questions of one watch that are asked at the same time: few, as requests wait for the same places.
const CONCURRENT: usize = 4;
/// How long a watch goes on while nobody can tell.
const PATIENCE: Duration = Duration::from_mins(2);

/// What a watch was allowed.
#[derive(Debug)]
pub struct Standing {
    /// Who decides.
    pub authorizer: Authorizer,
    /// Whose watch it is.
    pub caller: Caller,
    /// What the request does, as it was let in.
    pub outer: Attributes,
    /// Group and plural of the objects.
    pub resource: ResourceName,
    /// Version of the group, as the request has it.
    pub version: String,
    /// The one object, if it is one.
    pub name: Option<String>,
    /// What of the objects it shows.
    pub permitted: Permitted,
}

/// What an API server is asked.
type Question<'s> = (Place<'s>, Attributes);
type Questions<'s> = Box<dyn Iterator<Item = Question<'s>> + Send + 's>;

impl Standing {
    /// Waits until something is not allowed any more, and says so.
    pub async fn lost(self) -> ApiError {
        let interval = interval(self.about_objects().count());
        let mut confirmed = Instant::now();
        loop {
            // Not exactly, so that watches that began together do not go on asking together.
            sleep(interval.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
            match self.stands().await {
                Ok(true) => confirmed = Instant::now(),
                Ok(false) => {
                    return ApiError::VersionExpired("what you may see has changed".to_owned());
                }
                Err(error) if confirmed.elapsed() >= PATIENCE => return error.into(),
                Err(error) => {
                    tracing::debug!(%error, caller = %self.caller.name, "the rights of a watch could not be confirmed");
                }
            }
        }
    }

    async fn stands(&self) -> Result<bool, ReviewError> {
        let outer = (Place::ControlPlane, self.outer.clone());
        Ok(self.allows(outer).await?
            && self.sees_clusters().await?
            && self.allows_all(self.about_objects()).await?)
    }

    /// Whoever may ask about every cluster needs no right to each of them.
    async fn sees_clusters(&self) -> Result<bool, ReviewError> {
        if self
            .allows((Place::ControlPlane, Attributes::of_cluster(None)))
            .await?
        {
            return Ok(true);
        }
        let Permitted::Only(grants) = &self.permitted else {
            return Ok(false);
        };
        let Some(named) = grants
            .iter()
            .map(|grant| grant.clusters.as_deref())
            .collect::<Option<Vec<_>>>()
        else {
            return Ok(false);
        };
        let questions = named
            .into_iter()
            .flatten()
            .map(|name| (Place::ControlPlane, Attributes::of_cluster(Some(name))));
        self.allows_all(Box::new(questions)).await
    }

    fn about_objects(&self) -> Questions<'_> {
        match &self.permitted {
            Permitted::Everything => {
                Box::new(std::iter::once((Place::ControlPlane, self.reading(None))))
            }
            Permitted::Only(grants) => Box::new(grants.iter().flat_map(|grant| self.about(grant))),
        }
    }

    /// What has to be allowed for one grant: by the control plane, or by each of its clusters.
    fn about<'s>(&'s self, grant: &'s Grant) -> impl Iterator<Item = Question<'s>> + Send {
        let places: Vec<Place<'s>> = match (self.authorizer.mode(), &grant.clusters) {
            (Mode::Members, Some(clusters)) => clusters.iter().map(Place::Member).collect(),
            (Mode::Members, None) | (Mode::ControlPlane, _) => vec![Place::ControlPlane],
        };
        let inside = move || grant.namespaces.iter().flatten().map(Some);
        let everywhere = grant.namespaces.is_none().then_some(None);
        places.into_iter().flat_map(move |place| {
            everywhere
                .into_iter()
                .chain(inside())
                .map(move |namespace| (place, self.reading(namespace)))
        })
    }

    fn reading(&self, namespace: Option<&Namespace>) -> Attributes {
        Attributes::of_objects(
            "watch",
            &self.resource,
            &self.version,
            namespace,
            self.name.as_deref(),
        )
    }

    async fn allows_all(&self, mut questions: Questions<'_>) -> Result<bool, ReviewError> {
        loop {
            let some: Vec<_> = questions
                .by_ref()
                .take(CONCURRENT)
                .map(|question| self.allows(question))
                .collect();
            if some.is_empty() {
                return Ok(true);
            }
            if try_join_all(some).await?.contains(&false) {
                return Ok(false);
            }
        }
    }

    async fn allows(&self, (place, attributes): Question<'_>) -> Result<bool, ReviewError> {
        Ok(self
            .authorizer
            .reviews()
            .decide(place, &self.caller, &attributes)
            .await?
            .is_allowed())
    }
}

fn interval(questions: usize) -> Duration {
    let questions = u32::try_from(questions).unwrap_or(u32::MAX);
    INTERVAL_PER_QUESTION
        .saturating_mul(questions)
        .clamp(INTERVAL, MAX_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sees_many_namespaces_is_asked_about_more_seldom() {
        assert_eq!(
            [1, 600, 1_000, 1_000_000].map(|count| interval(count).as_secs()),
            [30, 30, 50, 300]
        );
    }
}
