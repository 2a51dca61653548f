//! Checks the programs that render charts and folders: whether they are there, start within their
//! limits, and have the version that Fleetdex is tested with.

use fleetdex_checks::result::{CheckResult, Checks};
use fleetdex_core::model::causes;
use fleetdex_crds::distribution::DistributionSpec;
use fleetdex_distribution_commands as distribution;
use fleetdex_rendering::{
    programs::{Programs, RenderProgram},
    renderer::{RenderLimits, Renderer},
};
use kube::Client;

/// Checks both programs, where this one runs.
pub async fn check(control_plane: &Client, programs: Programs) -> Vec<CheckResult> {
    let mut checks = Checks::of("renderers");
    // Without the right to list them, what is missing may be needed.
    let sets = distribution::sets(control_plane).await.ok();
    let renderer = Renderer::new(programs, RenderLimits::default());
    for program in [RenderProgram::Helm, RenderProgram::Kustomize] {
        let is_needed = sets.as_ref().is_none_or(|sets| {
            let mut specs = sets.specs.iter();
            specs.any(|spec| needs(spec, program))
        });
        let version = renderer.version(program).await;
        let version = version.map_err(|error| causes(&error));
        report(&mut checks, program, version, is_needed);
    }
    checks.results
}

fn needs(spec: &DistributionSpec, program: RenderProgram) -> bool {
    match program {
        RenderProgram::Helm => spec.source.helm.is_some(),
        RenderProgram::Kustomize => spec.source.kustomize.is_some(),
    }
}

/// `version`: what the program prints, or why it does not.
fn report(
    checks: &mut Checks,
    program: RenderProgram,
    version: Result<&str, String>,
    is_needed: bool,
) {
    let check = match program {
        RenderProgram::Helm => "helm",
        RenderProgram::Kustomize => "kustomize",
    };
    let tested = program.tested_version();
    let action = format!(
        "the image of Fleetdex has {program} {tested}; elsewhere install that version in a folder \
         of PATH, or name its file with --{program}. This is about where this command runs: run it \
         in the Pod of the operator"
    );
    match version {
        Ok(version) if version.trim_start_matches('v') == tested => checks.ok(check, tested),
        Ok(version) => checks.warning(
            check,
            format!("its version is {version}, and Fleetdex is tested with {tested}"),
            &action,
        ),
        Err(problem) if is_needed => checks.error(check, problem, &action),
        Err(problem) => checks.warning(
            check,
            format!("{problem}; no Distribution needs it yet"),
            &action,
        ),
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_checks::result::CheckStatus;

    use super::*;

    #[test]
    fn a_renderer_that_a_set_needs_and_that_is_missing_is_an_error() {
        let missing = || Err("helm was not found".to_owned());
        for (version, is_needed, status, part) in [
            (Ok("v4.3.1"), true, CheckStatus::Ok, "4.3.1"),
            (
                Ok("v3.9.0"),
                true,
                CheckStatus::Warning,
                "version is v3.9.0",
            ),
            (missing(), true, CheckStatus::Error, "not found"),
            (
                missing(),
                false,
                CheckStatus::Warning,
                "no Distribution needs it",
            ),
        ] {
            let mut checks = Checks::of("renderers");
            report(&mut checks, RenderProgram::Helm, version, is_needed);
            let found = &checks.results[0];
            assert_eq!(found.status, status, "{found:?}");
            assert!(found.message.contains(part), "{found:?}");
            assert_eq!(found.action.is_empty(), status == CheckStatus::Ok);
        }
    }
}
