//! The rules that configurations follow.
//!
//! Sources: `pkg/webhook/configuration/validating.go` of Karmada, and for `resources` and `scope`
//! the validation of admission webhooks in `pkg/apis/admissionregistration/validation` of
//! Kubernetes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    address::WebhookEndpoint,
    names::{is_qualified, is_version_label},
    timeout::MAX_TIMEOUT,
};
use crate::{
    field_problem::{FieldProblem, shown},
    value,
    webhook::dialect::{Dialect, REVIEW_VERSION},
};

/// The most problems that are listed.
const MAX_PROBLEMS: usize = 64;

/// Everything that is wrong with a configuration, at most 64 problems; nothing if it can work.
pub fn validate(object: &Value) -> Vec<FieldProblem> {
    let mut problems = FieldProblems::default();
    match Dialect::of_configuration(object) {
        Some(dialect) => check_webhooks(dialect, object, &mut problems),
        None => problems.add("kind", "must be that of a webhook configuration"),
    }
    problems.0
}

/// The problem of a webhook that accepts no version of the messages that is spoken here.
pub(super) fn version_needed(path: &str) -> FieldProblem {
    let message = format!("must include {REVIEW_VERSION}, the only version that is spoken");
    FieldProblem::new(path, message)
}

#[derive(Default)]
struct FieldProblems(Vec<FieldProblem>);

impl FieldProblems {
    fn add(&mut self, path: &str, message: impl Into<String>) {
        self.push(FieldProblem::new(path, message));
    }

    fn push(&mut self, problem: FieldProblem) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(problem);
        }
    }
}

fn check_webhooks(dialect: Dialect, object: &Value, problems: &mut FieldProblems) {
    if !value::at(object, &["webhooks"]).is_array() {
        problems.add("webhooks", "is needed: a list of webhooks");
    }
    let mut names = BTreeSet::new();
    for (index, webhook) in value::list(object, &["webhooks"]).iter().enumerate() {
        let path = format!("webhooks[{index}]");
        check_webhook(dialect, &path, webhook, problems);
        let name = value::text(webhook, &["name"]);
        if !names.insert(name) {
            let message = format!(
                "{} is taken: give each webhook a name of its own",
                shown(name)
            );
            problems.add(&format!("{path}.name"), message);
        }
    }
}

fn check_webhook(dialect: Dialect, path: &str, webhook: &Value, problems: &mut FieldProblems) {
    let name = value::text(webhook, &["name"]);
    if !is_qualified(name) {
        let message = format!(
            "{} must be a domain name of at least two labels, such as workloads.example.com",
            shown(name)
        );
        problems.add(&format!("{path}.name"), message);
    }
    check_client(&format!("{path}.clientConfig"), webhook, problems);
    for (index, rule) in value::list(webhook, &["rules"]).iter().enumerate() {
        check_rule(dialect, &format!("{path}.rules[{index}]"), rule, problems);
    }
    check_timeout(&format!("{path}.timeoutSeconds"), webhook, problems);
    check_versions(dialect, path, webhook, problems);
    let policy = value::at(webhook, &["failurePolicy"]);
    let policies = [Value::Null, "Fail".into(), "Ignore".into()];
    if dialect == Dialect::Proposal && !policies.contains(policy) {
        problems.add(&format!("{path}.failurePolicy"), "must be Fail or Ignore");
    }
}

fn check_client(path: &str, webhook: &Value, problems: &mut FieldProblems) {
    let client = value::at(webhook, &["clientConfig"]);
    let is_set = |member: &str| !value::at(client, &[member]).is_null();
    if is_set("url") && is_set("service") {
        problems.add(path, "set either url or service, not both");
        return;
    }
    if let Err(problem) = WebhookEndpoint::parse(path, client) {
        problems.push(problem);
    }
}

fn check_timeout(path: &str, webhook: &Value, problems: &mut FieldProblems) {
    let timeout = value::at(webhook, &["timeoutSeconds"]);
    let most = MAX_TIMEOUT.as_secs();
    let fits = value::as_integer(timeout)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .is_some_and(|seconds| (1..=most).contains(&seconds));
    if !timeout.is_null() && !fits {
        problems.add(path, format!("must be from 1 to {most}"));
    }
}

fn check_versions(dialect: Dialect, path: &str, webhook: &Value, problems: &mut FieldProblems) {
    let member = dialect.versions_member();
    let path = format!("{path}.{member}");
    let versions = value::list(webhook, &[member]);
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        let item = format!("{path}[{index}]");
        if !seen.insert(version) {
            problems.add(&item, format!("{} is listed twice", shown(version)));
        } else if !is_version_label(version) {
            problems.add(
                &item,
                format!("{} must be a version such as v1alpha1", shown(version)),
            );
        }
    }
    if !seen.contains(REVIEW_VERSION) {
        problems.push(version_needed(&path));
    }
}

fn check_rule(dialect: Dialect, path: &str, rule: &Value, problems: &mut FieldProblems) {
    let subjects = dialect.subjects_member();
    for member in ["operations", "apiGroups", "apiVersions", subjects] {
        check_names(
            &format!("{path}.{member}"),
            value::at(rule, &[member]),
            problems,
        );
    }
    // The core group is the empty text.
    for member in ["apiVersions", subjects] {
        for (index, name) in value::list(rule, &[member]).iter().enumerate() {
            if name.as_str().is_none_or(str::is_empty) {
                problems.add(&format!("{path}.{member}[{index}]"), "must not be empty");
            }
        }
    }
    check_operations(dialect, &format!("{path}.operations"), rule, problems);
    if dialect == Dialect::Proposal {
        check_resources(path, rule, problems);
    }
}

fn check_names(path: &str, names: &Value, problems: &mut FieldProblems) {
    let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
    if names.is_empty() {
        problems.add(path, "needs at least one entry; [\"*\"] stands for all");
    }
    if names.len() > 1 && names.iter().any(|name| name == "*") {
        problems.add(
            path,
            "must have no other entries beside \"*\", which stands for all",
        );
    }
}

fn check_operations(dialect: Dialect, path: &str, rule: &Value, problems: &mut FieldProblems) {
    let operations = value::list(rule, &["operations"]);
    for (index, operation) in operations.iter().enumerate() {
        let name = operation.as_str().unwrap_or_default();
        if name != "*" && dialect.operation(name).is_none() {
            let known = dialect.operation_names().collect::<Vec<_>>().join(", ");
            let message = format!("{} must be one of *, {known}", shown(name));
            problems.add(&format!("{path}[{index}]"), message);
        }
    }
}

fn check_resources(path: &str, rule: &Value, problems: &mut FieldProblems) {
    let resources = value::list(rule, &["resources"]);
    if resources.len() > 1 && resources.iter().any(|name| name == "*/*") {
        let message = "must have no other entries beside \"*/*\", which stands for all";
        problems.add(&format!("{path}.resources"), message);
    }
    let scope = value::at(rule, &["scope"]);
    let scopes = [
        Value::Null,
        "*".into(),
        "Cluster".into(),
        "Namespaced".into(),
    ];
    if !scopes.contains(scope) {
        problems.add(&format!("{path}.scope"), "must be *, Cluster or Namespaced");
    }
}
