//! The rules that interpreter configurations hold, and what is wrong with each of them.
//!
//! Reading is lenient: what is wrong with one part of an object does not take its other parts away.

use fleetdex_interpreter::{
    customization::{self, Customization, CustomizationSet},
    field_problem::{FieldProblem, shown},
    rules::RuleSet,
    script::{ArgoHealth, ScriptCompiler, ScriptError},
    webhook::configuration::{self, Webhook, WebhookConfiguration},
};
use serde_json::Value;

pub mod acceptance;

/// The rules of several objects together.
#[derive(Debug, Default)]
pub struct AssembledRules {
    /// The scripts of all customizations.
    pub customizations: CustomizationSet,
    /// Argo CD's health scripts.
    pub argocd: ArgoHealth,
    /// The webhooks of all configurations.
    pub webhooks: Vec<Webhook>,
    /// What is wrong with each object, in the order of the objects.
    pub problems: Vec<Vec<RuleProblem>>,
    /// Has compiled the scripts of the customizations.
    compiler: ScriptCompiler,
}

/// A part of an object that is not in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// Why.
    pub reason: ProblemReason,
    /// Where it is, and what to do about it.
    pub field: FieldProblem,
}

/// Why a part of an object is not in use. The first one is the reason of an object with several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemReason {
    /// A field has a value that cannot work.
    InvalidField,
    /// A script does not compile, or lacks its function.
    InvalidScript,
    /// Another object defines the same.
    DefinedElsewhere,
}

impl ProblemReason {
    /// The `reason` of a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidField => "InvalidField",
            Self::InvalidScript => "InvalidScript",
            Self::DefinedElsewhere => "DefinedElsewhere",
        }
    }
}

/// The rules of customizations, webhook configurations and the `ConfigMap` of an Argo CD. Compiling
/// hostile scripts takes up to a second each.
pub fn assemble<'v>(objects: impl IntoIterator<Item = &'v Value>) -> AssembledRules {
    let mut assembled = AssembledRules::default();
    let mut customizations: Vec<(usize, Customization)> = Vec::new();
    for (index, object) in objects.into_iter().enumerate() {
        let problems = if let Some(customization) = Customization::parse(object) {
            let problems = customization_problems(object, &customization, &mut assembled.compiler);
            customizations.push((index, customization));
            problems
        } else if let Some(configuration) = WebhookConfiguration::parse(object) {
            assembled.webhooks.extend(configuration.webhooks);
            invalid_fields(configuration::validate(object)).collect()
        } else {
            assembled.read_config_map(object)
        };
        assembled.problems.push(problems);
    }
    assembled.unite(&customizations);
    assembled
}

impl AssembledRules {
    /// The rules, without what is wrong with them.
    pub fn into_rules(mut self) -> RuleSet {
        RuleSet::compiled_by(
            &mut self.compiler,
            self.customizations,
            self.argocd,
            self.webhooks,
        )
    }

    fn read_config_map(&mut self, object: &Value) -> Vec<RuleProblem> {
        match ArgoHealth::from_config_map(object) {
            Ok(argocd) => {
                let problems = argocd.problems().iter();
                let problems = problems
                    .map(|(key, error)| health_script_problem(key, error))
                    .collect();
                self.argocd = argocd;
                problems
            }
            Err(error) => {
                let message = format!(
                    "{error}; no health script is in use until this is corrected, as in Argo CD"
                );
                vec![RuleProblem {
                    reason: ProblemReason::InvalidField,
                    field: FieldProblem::new("data", message),
                }]
            }
        }
    }

    /// Puts customizations together; each has the index of its object.
    fn unite(&mut self, customizations: &[(usize, Customization)]) {
        self.customizations = CustomizationSet::new(
            customizations
                .iter()
                .map(|(_, customization)| customization),
        );
        for conflict in self.customizations.conflicts() {
            let unused = customizations
                .iter()
                .find(|(_, customization)| customization.name == conflict.unused);
            let problems = unused.and_then(|(index, _)| self.problems.get_mut(*index));
            if let Some(problems) = problems {
                problems.push(RuleProblem {
                    reason: ProblemReason::DefinedElsewhere,
                    field: conflict.problem(),
                });
            }
        }
    }
}

fn invalid_fields(problems: Vec<FieldProblem>) -> impl Iterator<Item = RuleProblem> {
    problems.into_iter().map(|field| RuleProblem {
        reason: ProblemReason::InvalidField,
        field,
    })
}

fn customization_problems(
    object: &Value,
    customization: &Customization,
    compiler: &mut ScriptCompiler,
) -> Vec<RuleProblem> {
    let scripts = customization
        .scripts
        .iter()
        .filter_map(|(operation, text)| {
            let error = compiler.compile(*operation, text).err()?;
            let member = customization::member(*operation)?;
            Some(script_problem(member, &error))
        });
    invalid_fields(customization::validate(object))
        .chain(scripts)
        .collect()
}

fn script_problem(member: &str, error: &ScriptError) -> RuleProblem {
    let message = format!(
        "{error}; correct the script, or remove {member} to leave the operation to the next level"
    );
    RuleProblem {
        reason: ProblemReason::InvalidScript,
        field: FieldProblem::new(format!("spec.customizations.{member}.luaScript"), message),
    }
}

fn health_script_problem(key: &str, error: &ScriptError) -> RuleProblem {
    let message = format!(
        "the health script of {} does not compile: {error}; the health of its objects is Unknown until it is corrected",
        shown(key)
    );
    RuleProblem {
        reason: ProblemReason::InvalidScript,
        field: FieldProblem::new("data", message),
    }
}

#[cfg(test)]
mod tests;
