//! Prints rollouts.

use fleetdex_cli::{
    console::{CommandError, Console},
    output::{OutputArgs, OutputFormat, columns::write_aligned, print_document},
};
use fleetdex_core::terminal::escaped_line;
use fleetdex_crds::{condition, distribution::Distribution};
use fleetdex_distribution::{
    hooks::HookState,
    rollout::{RolloutPhase, short},
};
use serde_json::json;

use super::changes::state_of;

/// Shown where nothing is known.
const NONE: &str = "-";

/// What is shown of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownRollout {
    name: String,
    /// `None`: the source as it is has not been rolled out yet.
    phase: Option<RolloutPhase>,
    progress: String,
    revision: String,
    stable: String,
    reached: String,
    message: String,
    /// What is to be said of hooks, and whether one has failed.
    hooks: Option<(bool, String)>,
}

impl ShownRollout {
    /// Of a `Distribution`.
    pub(super) fn of(object: &Distribution) -> Self {
        let metadata = &object.metadata;
        let mut shown = Self {
            name: metadata.name.clone().unwrap_or_default(),
            phase: None,
            progress: NONE.to_owned(),
            revision: NONE.to_owned(),
            stable: NONE.to_owned(),
            reached: NONE.to_owned(),
            message: String::new(),
            hooks: None,
        };
        let status = object.status.clone().unwrap_or_default();
        if let Some(state) = state_of(object) {
            shown.progress = format!("{}/{}", state.wave, state.waves);
            shown.revision.clone_from(&state.revision);
            shown.stable = state.stable.clone().unwrap_or(shown.stable);
            shown.reached = match state.phase {
                RolloutPhase::Complete => "all".to_owned(),
                _ => state.reached.len().to_string(),
            };
            shown.message.clone_from(&state.message);
            let is_current = status.observed_generation == metadata.generation
                && status.digest == state.revision;
            shown.phase = Some(state.phase).filter(|_| is_current);
            let hooks = status.hooks.as_ref().and_then(HookState::read);
            shown.hooks = hooks.and_then(|hooks| hooks.summary());
            let is_over = [RolloutPhase::Complete, RolloutPhase::Undone];
            if let Some((_, hooks)) = shown
                .hooks
                .as_ref()
                .filter(|_| is_over.contains(&state.phase))
            {
                // Before that the rollout says it.
                shown.message.clone_from(hooks);
            }
        }
        if shown.phase.is_none() {
            let rendered = condition::find(&status.conditions, "Rendered");
            let reason = rendered.map(|found| found.message.clone());
            shown.message = reason.unwrap_or_else(|| "not rendered yet".to_owned());
        }
        shown
    }

    /// Whether nothing happens any more by itself.
    pub(super) fn has_ended(&self) -> bool {
        let ended = [
            RolloutPhase::Complete,
            RolloutPhase::Failed,
            RolloutPhase::Undone,
        ];
        let runs_hooks = matches!(self.hooks, Some((false, _)));
        self.phase.is_some_and(|phase| ended.contains(&phase)) && !runs_hooks
    }

    /// Whether a wave was not healthy in time, or a hook has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.phase == Some(RolloutPhase::Failed) || matches!(self.hooks, Some((true, _)))
    }

    fn cells(&self, is_wide: bool) -> Vec<String> {
        let revision = |text: &String| {
            let shown = if is_wide { text } else { short(text) };
            shown.to_owned()
        };
        let phase = self.phase.map_or("NotRendered", RolloutPhase::as_str);
        vec![
            self.name.clone(),
            phase.to_owned(),
            self.progress.clone(),
            self.reached.clone(),
            revision(&self.revision),
            revision(&self.stable),
            self.message.clone(),
        ]
    }
}

/// Prints a status. `is_first`: of several lines the first one.
pub(super) fn status(
    shown: &ShownRollout,
    object: &Distribution,
    is_first: bool,
    output: &OutputArgs,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    let mut lines = Vec::new();
    match output.format {
        format @ (OutputFormat::Json | OutputFormat::Yaml) => {
            let rollout = object.status.as_ref().map(|status| &status.rollout);
            let document = json!({"name": shown.name, "rollout": rollout});
            return print_document(&document, format, console);
        }
        OutputFormat::Name => return print_name(&shown.name, console),
        OutputFormat::Table | OutputFormat::Wide => {}
    }
    if is_first && !output.no_headers {
        let headers = [
            "NAME", "PHASE", "WAVE", "REACHED", "REVISION", "STABLE", "MESSAGE",
        ];
        lines.push(headers.map(str::to_owned).to_vec());
    }
    lines.push(shown.cells(output.format == OutputFormat::Wide));
    write_aligned(console.out, &lines)?;
    Ok(())
}

/// Prints the revisions that are kept.
pub(super) fn history(
    object: &Distribution,
    output: &OutputArgs,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let rollout = object
        .status
        .as_ref()
        .and_then(|status| status.rollout.clone());
    let rollout = rollout.unwrap_or_default();
    match output.format {
        format @ (OutputFormat::Json | OutputFormat::Yaml) => {
            let document = json!({"name": name, "revisions": rollout.revisions});
            return print_document(&document, format, console);
        }
        OutputFormat::Name => return print_name(&name, console),
        OutputFormat::Table | OutputFormat::Wide => {}
    }
    if rollout.revisions.is_empty() {
        writeln!(console.err, "No revisions are kept.")?;
        return Ok(());
    }
    let is_wide = output.format == OutputFormat::Wide;
    let mut lines = Vec::new();
    if !output.no_headers {
        let headers = ["REVISION", "STATE", "VERSION", "OBJECTS", "BEGAN"];
        lines.push(headers.map(str::to_owned).to_vec());
    }
    for one in &rollout.revisions {
        let states = [
            (&rollout.revision, "current"),
            (&rollout.stable, "stable"),
            (&rollout.previous, "previous"),
        ];
        let states = states
            .iter()
            .filter(|(revision, _)| **revision == one.revision);
        let states: Vec<&str> = states.map(|(_, state)| *state).collect();
        let filled = |text: String| {
            if text.is_empty() {
                NONE.to_owned()
            } else {
                text
            }
        };
        let revision = if is_wide {
            &one.revision
        } else {
            short(&one.revision)
        };
        let began = one.began_at.as_ref();
        lines.push(vec![
            revision.to_owned(),
            filled(states.join(",")),
            filled(one.version.clone()),
            one.objects.to_string(),
            began.map_or_else(|| NONE.to_owned(), |time| time.0.to_string()),
        ]);
    }
    write_aligned(console.out, &lines)?;
    Ok(())
}

fn print_name(name: &str, console: &mut Console<'_>) -> Result<(), CommandError> {
    let name = format!("distribution/{name}");
    writeln!(console.out, "{}", escaped_line(&name))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn distribution(generation: i64, digest: &str) -> Distribution {
        serde_json::from_value(json!({
            "apiVersion": "distribute.fleetdex.io/v1alpha1", "kind": "Distribution",
            "metadata": {"name": "web", "generation": generation},
            "spec": {"source": {}},
            "status": {
                "observedGeneration": 2, "digest": digest,
                "conditions": [{"type": "Rendered", "status": "Unknown", "reason": "Rendering",
                    "message": "not yet", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "rollout": {
                    "phase": "Failed", "revision": "sha256:0123456789abcdef", "stable": "sha256:1",
                    "wave": 1, "waves": 2, "reached": ["a", "b"], "message": "a: sick",
                    "waveBeganAt": "2026-01-01T00:00:00Z",
                    "revisions": [
                        {"revision": "sha256:0123456789abcdef", "version": "2", "objects": 3,
                         "beganAt": "2026-01-01T00:00:00Z"},
                        {"revision": "sha256:1", "objects": 4},
                    ],
                },
            },
        }))
        .unwrap()
    }

    fn printed(
        print: impl FnOnce(&OutputArgs, &mut Console<'_>) -> Result<(), CommandError>,
        format: OutputFormat,
    ) -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console {
            out: &mut out,
            err: &mut err,
            has_colours: false,
        };
        let output = OutputArgs {
            format,
            no_headers: false,
        };
        print(&output, &mut console).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_status_is_that_of_the_source_as_it_is() {
        for (generation, digest, phase, message, has_failed) in [
            (2, "sha256:0123456789abcdef", "Failed", "a: sick", true),
            (
                3,
                "sha256:0123456789abcdef",
                "NotRendered",
                "not yet",
                false,
            ),
            (2, "sha256:other", "NotRendered", "not yet", false),
        ] {
            let object = distribution(generation, digest);
            let shown = ShownRollout::of(&object);
            assert_eq!(
                (shown.has_failed(), shown.has_ended()),
                (has_failed, has_failed)
            );
            let text = printed(
                |output, console| status(&shown, &object, true, output, console),
                OutputFormat::Table,
            );
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines[0].starts_with("NAME"), "{text}");
            for part in [phase, message, "1/2", "sha256:0123456789ab ", "sha256:1 "] {
                assert!(lines[1].contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn a_history_says_what_each_revision_is() {
        let object = distribution(2, "");
        let of = |format| printed(|output, console| history(&object, output, console), format);
        let text = of(OutputFormat::Table);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1][1..], ["current", "2", "3", "2026-01-01T00:00:00Z"]);
        assert_eq!(lines[2], ["sha256:1", "stable", "-", "4", "-"]);
        let document: Value = serde_json::from_str(&of(OutputFormat::Json)).unwrap();
        assert_eq!(document["revisions"][1]["objects"], 4);
    }
}
