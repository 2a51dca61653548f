//! What of the changes of an override policy makes no sense.

use crate::{
    policy::{
        FieldOverrider, Overriders,
        override_schema::{ONE_LANGUAGE, OPERATIONS, OVERRIDERS, VALUE_NEEDED},
    },
    validation::InvalidFields,
};

const OPERATORS: [&str; 3] = ["add", "replace", "remove"];
const LIST_OPERATORS: [&str; 2] = ["add", "remove"];
const COMPONENTS: [&str; 3] = ["Registry", "Repository", "Tag"];

impl InvalidFields {
    pub(super) fn overriders(&mut self, path: &str, overriders: &Overriders) {
        let at = |list: &str, index: usize| format!("{path}.{list}[{index}]");
        for (list, entries) in [
            ("plaintext", overriders.plaintext.len()),
            ("imageOverrider", overriders.image_overrider.len()),
            ("commandOverrider", overriders.command_overrider.len()),
            ("argsOverrider", overriders.args_overrider.len()),
            ("labelsOverrider", overriders.labels_overrider.len()),
            (
                "annotationsOverrider",
                overriders.annotations_overrider.len(),
            ),
            ("fieldOverrider", overriders.field_overrider.len()),
        ] {
            self.count(&format!("{path}.{list}"), entries, OVERRIDERS);
        }
        for (index, one) in overriders.plaintext.iter().enumerate() {
            let path = at("plaintext", index);
            self.pointer(&format!("{path}.path"), &one.path);
            self.operation(&path, &one.operator, one.value.is_some());
        }
        for (index, one) in overriders.image_overrider.iter().enumerate() {
            let path = at("imageOverrider", index);
            self.one_of(
                &format!("{path}.component"),
                Some(&one.component),
                &COMPONENTS,
            );
            self.operation(&path, &one.operator, !one.value.is_empty());
            if let Some(predicate) = &one.predicate {
                self.pointer(&format!("{path}.predicate.path"), &predicate.path);
            }
        }
        for (list, changes) in [
            ("commandOverrider", &overriders.command_overrider),
            ("argsOverrider", &overriders.args_overrider),
        ] {
            for (index, one) in changes.iter().enumerate() {
                let path = format!("{}.operator", at(list, index));
                self.one_of(&path, Some(&one.operator), &LIST_OPERATORS);
            }
        }
        for (list, changes) in [
            ("labelsOverrider", &overriders.labels_overrider),
            ("annotationsOverrider", &overriders.annotations_overrider),
        ] {
            for (index, one) in changes.iter().enumerate() {
                let path = format!("{}.operator", at(list, index));
                self.one_of(&path, Some(&one.operator), &OPERATORS);
            }
        }
        for (index, one) in overriders.field_overrider.iter().enumerate() {
            self.field_overrider(&at("fieldOverrider", index), one);
        }
    }

    fn field_overrider(&mut self, path: &str, one: &FieldOverrider) {
        self.pointer(&format!("{path}.fieldPath"), &one.field_path);
        self.require(
            one.json.is_empty() != one.yaml.is_empty(),
            path,
            ONE_LANGUAGE,
        );
        for (list, changes) in [("json", &one.json), ("yaml", &one.yaml)] {
            self.count(&format!("{path}.{list}"), changes.len(), OPERATIONS);
            for (index, change) in changes.iter().enumerate() {
                let path = format!("{path}.{list}[{index}]");
                self.pointer(&format!("{path}.subPath"), &change.sub_path);
                self.operation(&path, &change.operator, change.value.is_some());
            }
        }
    }

    fn pointer(&mut self, path: &str, pointer: &str) {
        self.require(
            pointer.starts_with('/'),
            path,
            "it must be a JSON pointer, such as /spec/replicas",
        );
    }

    fn operation(&mut self, path: &str, operator: &str, has_value: bool) {
        self.one_of(&format!("{path}.operator"), Some(operator), &OPERATORS);
        self.require(has_value == (operator != "remove"), path, VALUE_NEEDED);
    }
}
