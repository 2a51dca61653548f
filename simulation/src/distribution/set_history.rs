//! What is known of one set over time.

use std::collections::BTreeMap;

use fleetdex_crds::distribution::RolloutStatus;
use fleetdex_distribution::template_name::TemplateName;
use serde_json::Value;
use tokio::time::Instant;

use super::set_sources::mark;

/// Values with the time from which on each of them held.
#[derive(Default)]
pub struct Recorded<T>(Vec<(Instant, T)>);

impl<T> Recorded<T> {
    /// From now on this holds.
    pub fn push(&mut self, value: T) {
        self.0.push((Instant::now(), value));
    }

    /// What holds now.
    pub fn last(&self) -> Option<&T> {
        self.0.last().map(|(_, value)| value)
    }

    /// What has held at some time since then, the newest first.
    pub fn since(&self, since: Instant) -> impl Iterator<Item = &T> {
        let ends = self.0.iter().skip(1).map(|(at, _)| Some(*at));
        let ends: Vec<Option<Instant>> = ends.chain([None]).collect();
        let values = self.0.iter().zip(ends).rev();
        let values = values.filter(move |(_, end)| end.is_none_or(|end| end >= since));
        values.map(|((_, value), _)| value)
    }
}

/// The objects of a source or of a revision, by name.
pub type SetObjects = BTreeMap<TemplateName, Value>;

/// Objects by their names.
pub fn by_name(objects: &[Value]) -> SetObjects {
    let objects = objects.iter();
    objects
        .map(|one| (TemplateName::of(one), one.clone()))
        .collect()
}

/// What is known of one set over time.
#[derive(Default)]
pub struct SetHistory {
    /// As users have written it.
    pub objects: Recorded<Value>,
    /// What its source has; `None`: nothing that can be rendered.
    pub sources: Recorded<Option<SetObjects>>,
    /// What is written of its rollout.
    pub statuses: Recorded<RolloutStatus>,
    /// What was kept of it, by revision.
    pub revisions: BTreeMap<String, SetObjects>,
    /// Since when clusters are reached by the revision that is rolled out.
    pub reached: BTreeMap<String, Instant>,
    /// When its deletion was asked for.
    pub ended: Option<Instant>,
}

impl SetHistory {
    /// The revision that a cluster has by a status; `None`: it has none.
    pub fn revision_in<'s>(status: &'s RolloutStatus, cluster: &str) -> Option<&'s str> {
        let has_begun = status.waves > 0 && status.wave == status.waves;
        let is_reached = match status.phase.as_str() {
            "Undone" => false,
            "Complete" => true,
            _ => has_begun || status.reached.iter().any(|reached| reached == cluster),
        };
        let revision = if is_reached {
            &status.revision
        } else {
            &status.stable
        };
        Some(revision.as_str()).filter(|revision| !revision.is_empty())
    }

    /// The objects that a cluster has by a status; `None`: none of a revision.
    pub fn objects_in(&self, status: &RolloutStatus, cluster: &str) -> Option<&SetObjects> {
        self.revisions.get(Self::revision_in(status, cluster)?)
    }

    /// The mark that an object has in a cluster by a status.
    pub fn mark_in(
        &self,
        status: &RolloutStatus,
        cluster: &str,
        name: &TemplateName,
    ) -> Option<&str> {
        mark(self.objects_in(status, cluster)?.get(name)?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_has_held_since_then_includes_what_held_at_that_time() {
        let mut recorded = Recorded::default();
        let mut times = Vec::new();
        for value in 0..3 {
            recorded.push(value);
            advance(Duration::from_secs(1)).await;
            times.push(Instant::now());
            advance(Duration::from_secs(1)).await;
        }
        let since = |at: usize| recorded.since(times[at]).copied().collect::<Vec<_>>();
        assert_eq!(
            [since(0), since(1), since(2)],
            [vec![2, 1, 0], vec![2, 1], vec![2]]
        );
        assert_eq!(recorded.last(), Some(&2));
    }
}
