//! What a `Distribution` says, and what of it cannot be done.

use std::{sync::Arc, time::Duration};

use fleetdex_core::planted::{Bug, planted};
use fleetdex_crds::{
    distribution::{Distribution, DistributionSpec},
    policy::{
        OverrideRule, OverrideSpec, PropagationSpec, TemplateSelector,
        validation::{invalid_override, invalid_propagation},
    },
};
use fleetdex_distribution::{
    binding::{ALLOW_DELETION, COPIES_FINALIZER},
    hooks::RETRY_HOOKS,
    rollout::{RESUME, ResumedWave, UNDO, WaveRules},
    sets::{ObjectSet, SetContents, SetName, UnreachedContents},
};
use fleetdex_interpreter::value::text;
use jiff::SignedDuration;
use serde_json::Value;

use super::failure::SetFailure;

/// Keeps a `Distribution` until no cluster has an object of it.
pub const SET_FINALIZER: &str = COPIES_FINALIZER;
/// Sources are not fetched more often, whatever `interval` says.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of the annotation that runs hooks again, as far as they count.
const LONGEST_RETRY: usize = 100;
/// The account of a `Distribution` that names none.
const DEFAULT_ACCOUNT: &str = "default";

/// A `Distribution`, as it is read from the control plane.
#[derive(Clone, Debug)]
pub struct SetSpec {
    /// Its name.
    pub name: Arc<SetName>,
    /// Its generation.
    pub generation: i64,
    /// When it was made.
    pub created: String,
    /// Whether it is being deleted.
    pub is_ending: bool,
    /// Whether it has [`SET_FINALIZER`].
    pub has_finalizer: bool,
    /// Whether deletions are let go that would be held.
    pub allows_deletion: bool,
    /// The wave that a user resumes.
    pub resumed: Option<ResumedWave>,
    /// The revision that a user undoes.
    pub undone: Option<String>,
    /// What asks for another run of hooks that have failed.
    pub retried: String,
    /// What it says; an error: why that has no effect.
    pub spec: Result<Arc<DistributionSpec>, SetFailure>,
}

impl SetSpec {
    /// Reads a `Distribution`.
    pub fn of(object: &Value) -> Self {
        let metadata = |member: &str| text(object, &["metadata", member]).to_owned();
        let annotation = |key: &str| text(object, &["metadata", "annotations", key]);
        let finalizers = object["metadata"]["finalizers"].as_array();
        let mut finalizers = finalizers.into_iter().flatten();
        let parsed = serde_json::from_value::<Distribution>(object.clone());
        let spec = parsed.map_err(|error| SetFailure::invalid(error.to_string()));
        let spec = spec.and_then(|parsed| checked(parsed.spec).map(Arc::new));
        Self {
            name: Arc::new(SetName {
                namespace: metadata("namespace"),
                name: metadata("name"),
                uid: metadata("uid"),
            }),
            generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
            created: metadata("creationTimestamp"),
            is_ending: !metadata("deletionTimestamp").is_empty(),
            has_finalizer: finalizers.any(|one| *one == SET_FINALIZER),
            allows_deletion: annotation(ALLOW_DELETION) == "true",
            resumed: ResumedWave::parse(annotation(RESUME)),
            undone: Some(annotation(UNDO).to_owned()).filter(|text| !text.is_empty()),
            retried: bounded(annotation(RETRY_HOOKS)),
            spec,
        }
    }

    /// The set for a plan.
    pub fn object_set(
        &self,
        contents: SetContents,
        unreached: Option<UnreachedContents>,
    ) -> ObjectSet {
        let spec = self.spec.as_deref().ok();
        let placement = spec.and_then(|spec| spec.placement.clone());
        let rules = PropagationSpec {
            placement: placement.unwrap_or_default(),
            ..PropagationSpec::default()
        };
        let prunes = spec.and_then(|spec| spec.prune).unwrap_or(true);
        let prunes = prunes && !planted(Bug::SetKeepsPruned);
        ObjectSet {
            created: self.created.clone(),
            overrides: spec.map(|spec| spec.overrides.clone()).unwrap_or_default(),
            allows_deletion: self.allows_deletion,
            contents,
            unreached,
            ..ObjectSet::new((*self.name).clone(), &rules, prunes)
        }
    }
}

/// The beginning of an annotation, which a status keeps.
fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_RETRY);
    text.get(..end).unwrap_or_default().to_owned()
}

/// The account whose rights bound a set.
pub fn account(spec: &DistributionSpec) -> &str {
    let account = spec.service_account_name.as_deref();
    account.unwrap_or(DEFAULT_ACCOUNT)
}

/// The waves of its rollout; none: all clusters at once.
pub fn waves(spec: &DistributionSpec) -> Result<Vec<WaveRules>, SetFailure> {
    let Some(rollout) = &spec.rollout else {
        return Ok(Vec::new());
    };
    WaveRules::read_all(rollout)
        .map_err(|error| SetFailure::invalid(format!("spec.rollout.{error}")))
}

/// How often the source is fetched; `None`: when the `Distribution` changes.
pub fn interval(spec: &DistributionSpec) -> Option<Duration> {
    let text = spec.interval.as_deref()?;
    let parsed: SignedDuration = text.parse().ok()?;
    let interval = Duration::try_from(parsed).ok()?;
    Some(interval.max(SHORTEST_INTERVAL))
}

/// Refuses what cannot be done.
fn checked(spec: DistributionSpec) -> Result<DistributionSpec, SetFailure> {
    waves(&spec)?;
    if spec.interval.is_some() && interval(&spec).is_none() {
        return Err(SetFailure::invalid(
            "spec.interval is no duration: write it as 10m".to_owned(),
        ));
    }
    // The rules of policies; these have to select something.
    let selector = TemplateSelector {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        ..TemplateSelector::default()
    };
    let placement = PropagationSpec {
        resource_selectors: vec![selector],
        placement: spec.placement.clone().unwrap_or_default(),
        ..PropagationSpec::default()
    };
    let rules = spec.overrides.iter().map(|rule| OverrideRule {
        target_cluster: rule.target_cluster.clone(),
        overriders: rule.overriders.clone(),
    });
    let overrides = OverrideSpec {
        override_rules: rules.collect(),
        ..OverrideSpec::default()
    };
    let problem = invalid_propagation(&placement, None);
    let problem = problem.first().map(ToString::to_string);
    let problem = problem.or_else(|| {
        let problems = invalid_override(&overrides, None);
        problems.first().map(ToString::to_string)
    });
    match problem {
        Some(problem) => Err(SetFailure::invalid(problem)),
        None => Ok(spec),
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_distribution::sets::SetObjects;
    use serde_json::json;

    use super::*;

    fn distribution(spec: &Value) -> Value {
        json!({
            "apiVersion": "distribute.fleetdex.io/v1alpha1", "kind": "Distribution",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "generation": 2,
                "creationTimestamp": "2026-11-30T00:00:00Z", "finalizers": [SET_FINALIZER],
            },
            "spec": spec,
        })
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_reason() {
        let source = json!({"manifests": {"inline": ""}});
        for (spec, expected) in [
            (json!({"source": source}), None),
            (json!({"source": source, "interval": "1h30m"}), None),
            (
                json!({"source": source, "rollout": {"waves": [{"percent": 50}]}}),
                None,
            ),
            (
                json!({"source": source, "rollout": {"waves": []}}),
                Some("InvalidSpec"),
            ),
            (
                json!({"source": source, "rollout": {"waves": [{"healthyFor": "soon"}]}}),
                Some("InvalidSpec"),
            ),
            (
                json!({"source": source, "interval": "soon"}),
                Some("InvalidSpec"),
            ),
            (
                json!({"source": source, "placement": {
                    "clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}],
                }}),
                Some("InvalidSpec"),
            ),
            (json!({"source": 1}), Some("InvalidSpec")),
        ] {
            let read = SetSpec::of(&distribution(&spec));
            let reason = read.spec.as_ref().err().map(|failure| failure.reason);
            assert_eq!(reason, expected, "{spec}");
            assert!(read.has_finalizer && !read.is_ending);
            assert_eq!((read.generation, &*read.name.uid), (2, "u"));
        }
    }

    #[test]
    fn intervals_are_read_as_go_writes_them_and_have_a_lower_bound() {
        for (text, seconds) in [("10m", 600), ("1h30m", 5_400), ("1s", 10)] {
            let spec = DistributionSpec {
                interval: Some(text.to_owned()),
                ..DistributionSpec::default()
            };
            assert_eq!(
                interval(&spec),
                Some(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        assert_eq!(interval(&DistributionSpec::default()), None);
    }

    #[test]
    fn without_prune_copies_are_kept() {
        for (prune, preserves) in [(None, None), (Some(true), None), (Some(false), Some(true))] {
            let mut spec = json!({"source": {"manifests": {"inline": ""}}});
            if let Some(prune) = prune {
                spec["prune"] = prune.into();
            }
            let set = SetSpec::of(&distribution(&spec));
            let set = set.object_set(SetContents::Known(SetObjects::default()), None);
            let found = set.policy.spec.preserve_resources_on_deletion;
            assert_eq!(found, preserves, "{prune:?}");
        }
    }
}
