//! What objects need goes where they go.

use std::{collections::BTreeMap, rc::Rc};

use fleetdex_core::selector::LabelSelector;
use fleetdex_interpreter::{request::DependentObject, value::map};
use serde_json::Value;

use super::values::Requirer;
use crate::template_name::TemplateName;

/// What objects need, by kind and namespace.
#[derive(Debug, Default)]
pub struct Dependencies(BTreeMap<(String, String, String), Vec<Dependency>>);

#[derive(Debug)]
struct Dependency {
    required: DependentObject,
    requirer: Rc<Requirer>,
}

impl Dependencies {
    /// Adds what an object needs.
    pub fn add(&mut self, requirer: Requirer, required: Vec<DependentObject>) {
        let requirer = Rc::new(requirer);
        for required in required {
            let key = (
                required.api_version.clone(),
                required.kind.clone(),
                required.namespace.clone(),
            );
            self.0.entry(key).or_default().push(Dependency {
                required,
                requirer: Rc::clone(&requirer),
            });
        }
    }

    /// The objects that need an object, each once.
    pub fn of(&self, name: &TemplateName, object: &Value) -> Vec<Rc<Requirer>> {
        let key = (
            name.api_version.clone(),
            name.kind.clone(),
            name.namespace.clone(),
        );
        let mut found: BTreeMap<&TemplateName, &Rc<Requirer>> = BTreeMap::new();
        for one in self.0.get(&key).into_iter().flatten() {
            if is_required(&one.required, name, object) {
                found.insert(&one.requirer.name, &one.requirer);
            }
        }
        found.into_values().cloned().collect()
    }
}

fn is_required(required: &DependentObject, name: &TemplateName, object: &Value) -> bool {
    if !required.name.is_empty() {
        return required.name == name.name;
    }
    let selector = required.label_selector.as_ref();
    let selector = selector.and_then(|one| serde_json::from_value(one.clone()).ok());
    let selector = selector.and_then(|one| LabelSelector::from_api(&one).ok());
    let labels = map(object, &["metadata", "labels"]);
    selector.is_some_and(|selector| {
        selector.matches(|key| labels.and_then(|own| own.get(key)).and_then(Value::as_str))
    })
}
