//! The rules that files hold: customizations and Argo CD's health scripts.

use anyhow::bail;
use clap::Args;
use fleetdex_cli::documents::{DocumentReader, SourceDocument};
use fleetdex_interpreter::{customization, rules::RuleSet, value};
use fleetdex_operator::interpreter_rules::{acceptance::accepted, assemble};

/// The files with rules.
#[derive(Args, Clone, Debug, Default)]
pub struct RuleArgs {
    /// File with `ResourceInterpreterCustomization` objects, whose scripts say what objects mean
    /// (repeatable, or separated by commas).
    #[arg(
        long = "customization",
        value_name = "FILE",
        value_delimiter = ',',
        env = "FLEETDEX_CUSTOMIZATION"
    )]
    pub customizations: Vec<String>,

    /// File with a `ConfigMap` that has Argo CD's health scripts in its keys
    /// `resource.customizations`.
    #[arg(long, value_name = "FILE", env = "FLEETDEX_ARGOCD_HEALTH")]
    pub argocd_health: Option<String>,
}

/// Reads the rules. A part that cannot be used is an error.
pub async fn read(args: &RuleArgs) -> anyhow::Result<RuleSet> {
    let mut no_input = std::io::empty();
    let mut reader = DocumentReader::new(&mut no_input);
    let mut objects = reader.objects(&args.customizations, false).await?;
    check_kind(&objects, customization::KIND)?;
    let scripts: Vec<String> = args.argocd_health.iter().cloned().collect();
    let scripts = reader.objects(&scripts, false).await?;
    check_kind(&scripts, "ConfigMap")?;
    objects.extend(scripts);
    let assembled = assemble(objects.iter().map(|object| &object.content));
    for (object, problems) in objects.iter().zip(&assembled.problems) {
        if !problems.is_empty() {
            let name = value::text(&object.content, &["metadata", "name"]);
            bail!("{}: {name}: {}", object.source, accepted(problems).message);
        }
    }
    Ok(assembled.into_rules())
}

fn check_kind(objects: &[SourceDocument], expected: &str) -> anyhow::Result<()> {
    for object in objects {
        let kind = value::text(&object.content, &["kind"]);
        if kind != expected {
            bail!(
                "{} has an object of kind {kind:?} instead of {expected}",
                object.source
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn customization(script: &str) -> String {
        format!(
            "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {{name: workloads}}\n\
             spec:\n  target: {{apiVersion: example.io/v1, kind: Workload}}\n  \
             customizations: {{healthInterpretation: {{luaScript: \"{script}\"}}}}\n"
        )
    }

    async fn problem(name: &str, text: &str) -> Option<String> {
        let name = format!("fleetdex-local-rules-{}-{name}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let args = RuleArgs {
            customizations: vec![path.display().to_string()],
            argocd_health: None,
        };
        let read = read(&args).await;
        std::fs::remove_file(&path).unwrap();
        read.err().map(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_customization_that_cannot_be_used_is_refused() {
        let right = customization("function InterpretHealth(o) return true end");
        assert_eq!(problem("right", &right).await, None);
        let broken = customization("function InterpretHealth(");
        let broken = problem("broken", &broken).await.unwrap();
        assert!(
            broken.contains(
                "workloads: spec.customizations.healthInterpretation.luaScript: line 1: "
            ),
            "{broken}"
        );
        let other = problem("other", "apiVersion: v1\nkind: Pod\n")
            .await
            .unwrap();
        assert!(
            other.ends_with(
                "has an object of kind \"Pod\" instead of ResourceInterpreterCustomization"
            ),
            "{other}"
        );
    }
}
