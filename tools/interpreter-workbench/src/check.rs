//! `--check`: says of each customization which rules it has, whether their scripts compile, and
//! what else a control plane would not accept.
//!
//! Source of the texts and the layout: `pkg/karmadactl/interpret/check.go` of
//! <https://github.com/karmada-io/karmada>. It looks at targets and scripts only.

use fleetdex_cli::documents::SourceDocument;
use fleetdex_core::terminal::escaped_line;
use fleetdex_interpreter::{
    Operation,
    customization::{self, Customization, CustomizationSet, ScriptConflict},
    field_problem::FieldProblem,
};
use serde_json::{Map, Value};

use super::rules::{CustomizationRule, RULES, check_type};

const SEPARATOR: &str = "-----------------------------------";
/// Spaces after the widest cell of a column, and the least width of a column, as in kubectl.
const GAP: usize = 3;
const MIN_WIDTH: usize = 6;

/// What a check prints, and whether it found nothing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The text.
    pub text: String,
    /// Whether every document is a customization that a control plane accepts.
    pub is_valid: bool,
}

/// Checks customizations. `compile` returns why a script does not compile.
pub fn check(
    documents: &[SourceDocument],
    compile: &dyn Fn(Operation, &str) -> Result<(), String>,
) -> CheckReport {
    let mut lines = Vec::new();
    let mut is_valid = true;
    let all = AppliedTogether::new(documents);
    for document in documents {
        lines.push(vec![SEPARATOR.to_owned()]);
        lines.push(vec![format!("SOURCE: {}", source(document))]);
        match target(&document.content) {
            Ok(target) => {
                // The cell ends there, so that the next column begins no further to the left.
                lines.push(vec![format!("TARGET: {target}"), String::new()]);
                lines.push(vec!["RULERS:".to_owned()]);
                for rule in &RULES {
                    let (result, is_passed) = result(rule, &document.content, compile);
                    is_valid &= is_passed;
                    let mut cells = vec![format!("    {}:", rule.operation.name())];
                    cells.extend(result);
                    lines.push(cells);
                }
                for problem in problems(document, &all) {
                    is_valid = false;
                    lines.push(vec![format!("ERROR: {problem}")]);
                }
            }
            Err(problem) => {
                is_valid = false;
                lines.push(vec![problem]);
            }
        }
    }
    CheckReport {
        text: aligned(&lines),
        is_valid,
    }
}

/// The name of the object; that of its file if it has none.
fn source(document: &SourceDocument) -> &str {
    match name(&document.content) {
        "" => &document.source,
        name => name,
    }
}

/// The version and kind of a customization's target, or what is wrong.
fn target(customization: &Value) -> Result<String, String> {
    check_type(customization)?;
    let text = |key: &str| {
        customization["spec"]["target"][key]
            .as_str()
            .unwrap_or_default()
    };
    if text("kind").is_empty() {
        return Err("target.kind no set".to_owned());
    }
    if text("apiVersion").is_empty() {
        return Err("target.apiVersion no set".to_owned());
    }
    Ok(format!("{} {}", text("apiVersion"), text("kind")))
}

/// What is wrong with a customization beside its scripts: its members, and what others define.
fn problems(document: &SourceDocument, all: &AppliedTogether) -> Vec<FieldProblem> {
    let content = &document.content;
    let mut problems = all.problems(name(content));
    problems.extend(customization::validate(content));
    let spec = &content["spec"];
    let customizations = &spec["customizations"];
    let members = customization::MEMBERS.map(|(member, _)| member);
    for (object, path, known) in [
        (spec, "spec", &["target", "customizations"][..]),
        (&spec["target"], "spec.target", &["apiVersion", "kind"]),
        (customizations, "spec.customizations", &members),
    ] {
        problems.extend(unknown_members(object, path, known));
    }
    for member in members {
        let path = format!("spec.customizations.{member}");
        problems.extend(unknown_members(
            &customizations[member],
            &path,
            &["luaScript"],
        ));
    }
    problems
}

fn unknown_members(object: &Value, path: &str, known: &[&str]) -> Vec<FieldProblem> {
    let names = object.as_object().into_iter().flat_map(Map::keys);
    names
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| {
            let message = format!("is not known: use {}", known.join(", "));
            FieldProblem::new(format!("{path}.{name}"), message)
        })
        .collect()
}

fn name(content: &Value) -> &str {
    content["metadata"]["name"].as_str().unwrap_or_default()
}

/// The documents as if all of them were applied.
struct AppliedTogether {
    names: Vec<String>,
    /// The scripts that would not be used.
    conflicts: Vec<ScriptConflict>,
}

impl AppliedTogether {
    fn new(documents: &[SourceDocument]) -> Self {
        let contents = documents.iter().map(|document| &document.content);
        let parsed: Vec<Customization> = contents.filter_map(Customization::parse).collect();
        Self {
            names: parsed
                .iter()
                .map(|parsed| parsed.name.to_string())
                .collect(),
            conflicts: CustomizationSet::new(&parsed).conflicts().to_vec(),
        }
    }

    /// What is wrong with a name, and with the scripts of the document that has it.
    fn problems(&self, name: &str) -> Vec<FieldProblem> {
        let wrong_name = |message: &str| vec![FieldProblem::new("metadata.name", message)];
        if name.is_empty() {
            return wrong_name("is empty: a control plane accepts no customization without a name");
        }
        if self.names.iter().filter(|known| *known == name).count() > 1 {
            return wrong_name(
                "is that of another document, too: the last one would replace the others",
            );
        }
        let conflicts = self.conflicts.iter();
        conflicts
            .filter(|conflict| *conflict.unused == *name)
            .map(ScriptConflict::problem)
            .collect()
    }
}

/// The cells of a rule, and whether it is right.
fn result(
    rule: &CustomizationRule,
    customization: &Value,
    compile: &dyn Fn(Operation, &str) -> Result<(), String>,
) -> (Vec<String>, bool) {
    let Some(script) = rule.script(customization) else {
        return (vec!["UNSET".to_owned()], true);
    };
    match compile(rule.operation, script) {
        Ok(()) => (vec!["PASS".to_owned()], true),
        Err(error) => (
            vec![format!("ERROR: {}", error.trim()), String::new()],
            false,
        ),
    }
}

/// Aligns cells as `tabwriter` of kubectl does: only a cell that another one follows has a column,
/// a column of consecutive lines is as wide as its widest cell, and no less wide than the same
/// column of earlier lines.
fn aligned(lines: &[Vec<String>]) -> String {
    let lines: Vec<Vec<String>> = lines
        .iter()
        .map(|cells| {
            cells
                .iter()
                .map(|cell| escaped_line(cell).into_owned())
                .collect()
        })
        .collect();
    let mut widths: Vec<usize> = Vec::new();
    let mut text = String::new();
    for (position, cells) in lines.iter().enumerate() {
        let (last, columns) = cells
            .split_last()
            .map_or(("", &cells[..]), |(last, columns)| (last.as_str(), columns));
        for (column, cell) in columns.iter().enumerate() {
            if column == widths.len() {
                widths.push(MIN_WIDTH);
            }
            widths[column] = widths[column].max(block_width(&lines[position..], column));
            text.push_str(cell);
            text.extend(std::iter::repeat_n(
                ' ',
                widths[column].saturating_sub(cell.chars().count()),
            ));
        }
        text.push_str(last);
        text.push('\n');
    }
    text
}

/// The width of a column over the first lines that have it.
fn block_width(lines: &[Vec<String>], column: usize) -> usize {
    let widest = lines
        .iter()
        .take_while(|cells| cells.len() > column + 1)
        .map(|cells| cells[column].chars().count())
        .max();
    widest.unwrap_or_default() + GAP
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compile(_: Operation, script: &str) -> Result<(), String> {
        if script.contains("function") {
            Ok(())
        } else {
            Err("line 1: syntax error near\n'x' ".to_owned())
        }
    }

    fn checked(contents: &[Value]) -> CheckReport {
        let documents: Vec<SourceDocument> = contents
            .iter()
            .map(|content| SourceDocument {
                source: "folder/file.yaml".to_owned(),
                content: content.clone(),
            })
            .collect();
        check(&documents, &compile)
    }

    fn customization(name: &str, target: &Value, customizations: &Value) -> Value {
        json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": name},
            "spec": {"target": target, "customizations": customizations},
        })
    }

    #[test]
    fn what_is_no_customization_or_has_no_target_is_said() {
        let report = checked(&[
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "not-customization"}}),
            customization(
                "api-version-unset",
                &json!({"kind": "Deployment"}),
                &json!({}),
            ),
            customization("", &json!({"apiVersion": "apps/v1"}), &json!({})),
        ]);
        assert!(!report.is_valid);
        insta::assert_snapshot!(report.text);
    }

    #[test]
    fn each_rule_passes_fails_or_is_unset() {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        let rules = json!({
            "retention": {"luaScript": "function Retain(a, b) return a end"},
            "replicaResource": {"luaScript": "x"},
            "statusReflection": {"luaScript": ""},
            "healthInterpretation": null,
        });
        let report = checked(&[customization("customization-check", &target, &rules)]);
        assert!(!report.is_valid);
        insta::assert_snapshot!(report.text);
        let report = checked(&[customization("empty", &target, &json!({}))]);
        assert!(report.is_valid);
    }

    #[test]
    fn what_a_control_plane_would_not_accept_is_said() {
        let script = json!({"healthInterpretation": {"luaScript": "function InterpretHealth(o) return true end"}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        let any = json!({"apiVersion": "apps/v1", "kind": "*"});
        let other_type = json!({"healthInterpretation": {"luaScript": 5}});
        let misspelt = json!({"helthInterpretation": {"luaScript": "function"}});
        let with_more =
            json!({"healthInterpretation": {"luaScript": "function", "luaScripts": []}});
        let mut misspelt_spec = customization("spec", &deployment, &json!({}));
        misspelt_spec["spec"]["customization"] = script.clone();
        let mut errors = Vec::new();
        let mut check_all = |customizations: &[Value]| {
            let report = checked(customizations);
            assert!(!report.is_valid, "{}", report.text);
            let found = report.text.lines().filter(|line| line.starts_with("ERROR"));
            errors.extend(found.map(str::to_owned));
        };
        for wrong in [
            customization("wildcard", &any, &script),
            customization("type", &deployment, &other_type),
            customization("list", &deployment, &json!(["a"])),
            customization("misspelt", &deployment, &misspelt),
            customization("more", &deployment, &with_more),
            customization("", &deployment, &script),
            misspelt_spec,
        ] {
            check_all(&[wrong]);
        }
        let one = customization("a", &deployment, &script);
        let other = customization("b", &deployment, &script);
        assert!(checked(std::slice::from_ref(&one)).is_valid);
        check_all(&[one.clone(), other]);
        check_all(&[one.clone(), one]);
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn columns_are_those_of_kubectl() {
        let rows = [
            vec!["TARGET: apps/v1 Deployment".to_owned(), String::new()],
            vec!["RULERS:".to_owned()],
            vec!["    Retain:".to_owned(), "PASS".to_owned()],
        ];
        assert_eq!(
            aligned(&rows),
            "TARGET: apps/v1 Deployment   \nRULERS:\n    Retain:                  PASS\n"
        );
    }
}
