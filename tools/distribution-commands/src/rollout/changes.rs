//! What changes a rollout: patches of a `Distribution`, and why there is none.

use fleetdex_crds::distribution::Distribution;
use fleetdex_distribution::{
    hooks::{HookState, RETRY_HOOKS},
    rollout::{RESUME, RolloutPhase, RolloutState, UNDO, short},
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Why nothing changes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RolloutError {
    #[error("it has not been rolled out yet: its condition Ready says what it waits for")]
    NotBegun,
    #[error(
        "it has no spec.rollout: all clusters get changes at once, and there is nothing to pause"
    )]
    NoWaves,
    #[error("it is paused already")]
    PausedAlready,
    #[error("it is not paused, and has not failed: {0}")]
    NotPaused(String),
    #[error(
        "its last wave has failed, and no other one waits: {0}. It is complete when this is \
         healthy; `fleetdex rollout undo` goes back"
    )]
    LastWave(String),
    #[error(
        "there is nothing stable to go back to: no other revision has been healthy in all clusters"
    )]
    NothingStable,
    #[error("it is undone already: all clusters have revision {0}")]
    UndoneAlready(String),
    #[error("revision {0} is not kept, so that it cannot be in force again")]
    NotKept(String),
    #[error("no hook of it has failed")]
    NoFailedHook,
}

/// A change, and what it does.
#[derive(Debug, PartialEq)]
pub(super) struct RolloutChange {
    /// The patch, to be merged.
    pub(super) patch: Value,
    /// Such as `paused`.
    pub(super) done: String,
}

/// How far a rollout is.
pub(super) fn state_of(object: &Distribution) -> Option<RolloutState> {
    let status = object.status.as_ref()?;
    RolloutState::read(status.rollout.as_ref()?)
}

/// Lets no further wave begin.
pub(super) fn pause(object: &Distribution) -> Result<RolloutChange, RolloutError> {
    let rollout = object.spec.rollout.as_ref().ok_or(RolloutError::NoWaves)?;
    if rollout.paused {
        return Err(RolloutError::PausedAlready);
    }
    Ok(RolloutChange {
        patch: json!({"spec": {"rollout": {"paused": true}}}),
        done: "paused".to_owned(),
    })
}

/// Lets the next wave begin.
pub(super) fn resume(object: &Distribution) -> Result<RolloutChange, RolloutError> {
    let rollout = object.spec.rollout.as_ref();
    let is_paused = rollout.is_some_and(|rollout| rollout.paused);
    if is_paused {
        return Ok(RolloutChange {
            patch: json!({"spec": {"rollout": {"paused": null}}}),
            done: "resumed".to_owned(),
        });
    }
    let state = state_of(object).ok_or(RolloutError::NotBegun)?;
    let annotated = |key: &str, value: Value, done: String| RolloutChange {
        patch: json!({"metadata": {"annotations": {key: value}}}),
        done,
    };
    match state.phase {
        RolloutPhase::Undone => {
            let done = format!(
                "resumed: revision {} is rolled out again",
                short(&state.revision)
            );
            Ok(annotated(UNDO, Value::Null, done))
        }
        RolloutPhase::Failed if state.wave >= state.waves => {
            Err(RolloutError::LastWave(state.message))
        }
        RolloutPhase::Paused | RolloutPhase::Failed => {
            let wave = format!("{}/{}", state.revision, state.wave);
            let done = format!("resumed: wave {} of {} begins", state.wave + 1, state.waves);
            Ok(annotated(RESUME, wave.into(), done))
        }
        RolloutPhase::Complete => {
            let message = "all clusters have its revision".to_owned();
            Err(RolloutError::NotPaused(message))
        }
        RolloutPhase::Progressing => Err(RolloutError::NotPaused(state.message)),
    }
}

/// Goes back to the last revision that was healthy in all clusters.
pub(super) fn undo(object: &Distribution) -> Result<RolloutChange, RolloutError> {
    let state = state_of(object).ok_or(RolloutError::NotBegun)?;
    let target = state.undone_to().ok_or(RolloutError::NothingStable)?;
    if state.phase == RolloutPhase::Undone {
        return Err(RolloutError::UndoneAlready(short(target).to_owned()));
    }
    let rollout = object
        .status
        .as_ref()
        .and_then(|status| status.rollout.as_ref());
    let mut kept = rollout.into_iter().flat_map(|rollout| &rollout.revisions);
    if !kept.any(|one| one.revision == target) {
        return Err(RolloutError::NotKept(short(target).to_owned()));
    }
    Ok(RolloutChange {
        patch: json!({"metadata": {"annotations": {UNDO: state.revision}}}),
        done: format!("undone: all clusters get revision {}", short(target)),
    })
}

/// Runs the hooks again that have failed.
pub(super) fn retry(object: &Distribution) -> Result<RolloutChange, RolloutError> {
    let status = object.status.as_ref();
    let hooks = status.and_then(|status| HookState::read(status.hooks.as_ref()?));
    let hooks = hooks.ok_or(RolloutError::NoFailedHook)?;
    let failed = hooks.failed_since(None).len();
    if failed == 0 {
        return Err(RolloutError::NoFailedHook);
    }
    // Another value than before is what counts.
    let value = Timestamp::now().to_string();
    Ok(RolloutChange {
        patch: json!({"metadata": {"annotations": {RETRY_HOOKS: value}}}),
        done: format!("retried: hooks run again in {failed} clusters"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hooks_that_have_failed_run_again() {
        let distribution = |phase: &str| {
            let mut object = distribution(&Value::Null, &json!({"phase": "Progressing"}));
            let hook = json!({"name": "m1", "step": "pre-upgrade", "number": 1, "phase": phase,
                "hook": "Job shop/migrate", "beganAt": "2026-01-01T00:00:00Z"});
            let hooks = json!({"revision": "r2", "clusters": [hook]});
            let status = object.status.get_or_insert_default();
            status.hooks = serde_json::from_value(hooks).unwrap();
            object
        };
        let change = retry(&distribution("Failed")).unwrap();
        assert_eq!(change.done, "retried: hooks run again in 1 clusters");
        assert!(change.patch["metadata"]["annotations"][RETRY_HOOKS].is_string());
        let running = retry(&distribution("Running"));
        assert_eq!(running, Err(RolloutError::NoFailedHook));
    }

    fn distribution(spec: &Value, rollout: &Value) -> Distribution {
        let mut status = json!({
            "revision": "r2", "stable": "r1", "wave": 1, "waves": 2, "message": "why",
            "waveBeganAt": "2026-01-01T00:00:00Z",
            "revisions": [{"revision": "r2", "objects": 1}, {"revision": "r1", "objects": 1}],
        });
        for (name, value) in rollout.as_object().unwrap() {
            status[name] = value.clone();
        }
        serde_json::from_value(json!({
            "apiVersion": "distribute.fleetdex.io/v1alpha1", "kind": "Distribution",
            "metadata": {"name": "web"},
            "spec": {"source": {}, "rollout": spec}, "status": {"rollout": status},
        }))
        .unwrap()
    }

    fn waves(paused: bool) -> Value {
        json!({"paused": paused, "waves": [{}]})
    }

    #[test]
    fn a_rollout_is_paused_once() {
        let phase = json!({"phase": "Progressing"});
        let change = pause(&distribution(&waves(false), &phase)).unwrap();
        assert_eq!(change.patch["spec"]["rollout"]["paused"], true);
        let again = pause(&distribution(&waves(true), &phase));
        assert_eq!(again, Err(RolloutError::PausedAlready));
        let at_once = pause(&distribution(&Value::Null, &phase));
        assert_eq!(at_once, Err(RolloutError::NoWaves));
    }

    #[test]
    fn what_waits_is_resumed_and_nothing_else() {
        let resumed = |paused: bool, rollout: Value| {
            resume(&distribution(&waves(paused), &rollout)).map(|change| change.patch)
        };
        let annotations = |key: &str, value: Value| {
            Ok::<_, RolloutError>(json!({"metadata": {"annotations": {key: value}}}))
        };
        assert_eq!(
            resumed(true, json!({"phase": "Paused"})),
            Ok(json!({"spec": {"rollout": {"paused": null}}}))
        );
        for phase in ["Paused", "Failed"] {
            let found = resumed(false, json!({"phase": phase}));
            assert_eq!(found, annotations(RESUME, "r2/1".into()));
        }
        assert_eq!(
            resumed(false, json!({"phase": "Undone"})),
            annotations(UNDO, Value::Null)
        );
        let last = resumed(false, json!({"phase": "Failed", "wave": 2}));
        assert_eq!(last, Err(RolloutError::LastWave("why".to_owned())));
        let goes_on = resumed(false, json!({"phase": "Progressing"}));
        assert_eq!(goes_on, Err(RolloutError::NotPaused("why".to_owned())));
        assert_eq!(
            resumed(false, json!({"phase": ""})),
            Err(RolloutError::NotBegun)
        );
    }

    #[test]
    fn an_undo_needs_something_to_go_back_to() {
        let undone = |rollout: Value| undo(&distribution(&waves(false), &rollout));
        let change = undone(json!({"phase": "Failed"})).unwrap();
        assert_eq!(change.patch["metadata"]["annotations"][UNDO], "r2");
        assert_eq!(change.done, "undone: all clusters get revision r1");
        for (rollout, expected) in [
            (
                json!({"phase": "Failed", "stable": ""}),
                RolloutError::NothingStable,
            ),
            (
                json!({"phase": "Complete", "stable": "r2"}),
                RolloutError::NothingStable,
            ),
            (
                json!({"phase": "Undone"}),
                RolloutError::UndoneAlready("r1".to_owned()),
            ),
            (
                json!({"phase": "Failed", "revisions": []}),
                RolloutError::NotKept("r1".to_owned()),
            ),
        ] {
            assert_eq!(undone(rollout), Err(expected));
        }
        let older = json!({"phase": "Complete", "stable": "r2", "previous": "r1"});
        assert!(undone(older).is_ok());
    }
}
