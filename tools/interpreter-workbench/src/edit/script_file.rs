//! A customization as one Lua file: a line of comment for its name, its target and each rule, and
//! below each rule its script.
//!
//! Source of the layout: `pkg/karmadactl/interpret/edit.go` of
//! <https://github.com/karmada-io/karmada>

use std::collections::BTreeSet;

use fleetdex_interpreter::{customization::KIND, value::text, webhook::API_VERSION};
use serde_json::{Map, Value, json};

use crate::rules::{CustomizationRule, RULES};

const NAME: &str = "---@name:";
const TARGET_VERSION: &str = "---@apiVersion:";
const TARGET_KIND: &str = "---@kind:";
const RULE: &str = "---@rule:";
const HEADER: [&str; 2] = [
    "-- Edit the customization below, then save and close the editor. A rule without a script is",
    "-- left out. If something is wrong, the file is opened again, with the reasons here on top.",
];

/// The text that a user edits.
#[derive(Clone, Debug, Default)]
pub(super) struct ScriptFile {
    pub(super) text: String,
    /// The comments in it that belong to no script.
    guidance: BTreeSet<String>,
}

impl ScriptFile {
    /// The text of a customization. `with_documents`: each rule with what it is for.
    pub(super) fn of(customization: &Value, with_documents: bool) -> Self {
        let mut file = Self::default();
        for line in HEADER {
            file.guide(line);
        }
        let target = |key: &str| text(customization, &["spec", "target", key]);
        for (annotation, value) in [
            (NAME, text(customization, &["metadata", "name"])),
            (TARGET_VERSION, target("apiVersion")),
            (TARGET_KIND, target("kind")),
        ] {
            file.line(&format!("{annotation} {value}"));
        }
        for rule in &RULES {
            file.line(&format!("{RULE} {}", rule.operation));
            let document = rule.document.lines().filter(|_| with_documents);
            // A line without text would be guidance that a script may have, too.
            for line in document.filter(|line| !line.trim().is_empty()) {
                file.guide(&format!("-- {line}"));
            }
            for line in rule.script(customization).unwrap_or_default().lines() {
                file.line(line);
            }
        }
        file
    }

    /// The text that was edited, with the reasons on top why it cannot be saved.
    pub(super) fn again(&self, edited: &str, problem: &str) -> Self {
        let mut file = Self {
            text: String::new(),
            guidance: self.guidance.clone(),
        };
        for line in HEADER {
            file.guide(line);
        }
        let lines = problem.lines();
        for line in lines.filter(|line| !line.trim().is_empty()) {
            file.guide(&format!("-- {line}"));
        }
        for line in edited.lines().filter(|line| !self.is_guidance(line)) {
            file.line(line);
        }
        file
    }

    /// The customization that an edited text is, with the other fields of `original`, or what is
    /// wrong with the text.
    pub(super) fn read(&self, edited: &str, original: &Value) -> Result<Value, String> {
        let mut customization = original.clone();
        customization["apiVersion"] = API_VERSION.into();
        customization["kind"] = KIND.into();
        customization["spec"] = json!({ "target": {}, "customizations": {} });
        let mut rule: Option<&CustomizationRule> = None;
        let mut scripts: Map<String, Value> = Map::new();
        for line in edited.lines().filter(|line| !self.is_guidance(line)) {
            if let Some(name) = annotated(line, NAME) {
                customization["metadata"]["name"] = name.into();
            } else if let Some(version) = annotated(line, TARGET_VERSION) {
                customization["spec"]["target"]["apiVersion"] = version.into();
            } else if let Some(kind) = annotated(line, TARGET_KIND) {
                customization["spec"]["target"]["kind"] = kind.into();
            } else if let Some(name) = annotated(line, RULE) {
                rule = Some(rule_of(name)?);
            } else if let Some(rule) = rule {
                append(&mut scripts, rule, line);
            } else if !line.trim().is_empty() && !line.trim_start().starts_with("--") {
                return Err(format!("unexpected line {line:?} before the first rule"));
            }
        }
        scripts.retain(|_, script| !text(script, &["luaScript"]).trim().is_empty());
        customization["spec"]["customizations"] = scripts.into();
        Ok(customization)
    }

    /// Whether two texts differ in nothing but guidance.
    pub(super) fn is_same(&self, left: &str, right: &str) -> bool {
        let own = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !self.is_guidance(line));
            lines.map(str::to_owned).collect()
        };
        own(left) == own(right)
    }

    fn is_guidance(&self, line: &str) -> bool {
        self.guidance.contains(line.trim_end())
    }

    fn guide(&mut self, line: &str) {
        let line = line.trim_end();
        self.guidance.insert(line.to_owned());
        self.line(line);
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

fn annotated<'l>(line: &'l str, annotation: &str) -> Option<&'l str> {
    line.trim().strip_prefix(annotation).map(str::trim)
}

fn rule_of(name: &str) -> Result<&'static CustomizationRule, String> {
    let mut rules = RULES.iter();
    let found = rules.find(|rule| rule.operation.name() == name);
    found.ok_or_else(|| format!("there is no rule {name:?}"))
}

fn append(scripts: &mut Map<String, Value>, rule: &CustomizationRule, line: &str) {
    let customized = scripts
        .entry(rule.member())
        .or_insert_with(|| json!({ "luaScript": "" }));
    if let Some(Value::String(script)) = customized.get_mut("luaScript") {
        script.push_str(line);
        script.push('\n');
    }
}
