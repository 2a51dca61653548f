//! What objects need goes where they go.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    rc::Rc,
    sync::Arc,
};

use fleetdex_core::selector::LabelSelector;
use fleetdex_interpreter::{request::DependentObject, value::map};
use serde_json::Value;

use super::values::{DistributionInputs, Requirer};
use crate::{
    claim::Policy,
    template_name::{NamedTemplate, TemplateName},
    templates::never_propagated,
};

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

    /// Whether an object of this kind and namespace may be needed.
    pub fn may_need(&self, name: &TemplateName) -> bool {
        let key = (
            name.api_version.clone(),
            name.kind.clone(),
            name.namespace.clone(),
        );
        self.0.contains_key(&key)
    }

    /// The objects that need an object, each once: where it is needed for several others, with the
    /// clusters of all of them.
    pub fn of(&self, name: &TemplateName, object: &Value) -> Vec<Rc<Requirer>> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let key = (
            name.api_version.clone(),
            name.kind.clone(),
            name.namespace.clone(),
        );
        let mut found: BTreeMap<&TemplateName, Rc<Requirer>> = BTreeMap::new();
        for one in self.0.get(&key).into_iter().flatten() {
            if is_required(&one.required, name, object) {
                match found.entry(&one.requirer.name) {
                    Entry::Vacant(entry) => {
                        entry.insert(Rc::clone(&one.requirer));
                    }
                    Entry::Occupied(mut entry) => {
                        let both = entry.get().united(&one.requirer);
                        entry.insert(Rc::new(both));
                    }
                }
            }
        }
        found.into_values().collect()
    }
}

/// The templates that others may need, by kind and namespace, and by name.
#[derive(Debug, Default)]
pub struct TemplatesByKind<'a>(BTreeMap<TemplateKey<'a>, BTreeMap<&'a str, &'a Arc<Value>>>);

/// Group and version, kind, namespace.
type TemplateKey<'a> = (&'a str, &'a str, &'a str);

impl<'a> TemplatesByKind<'a> {
    /// None if no policy propagates what objects need.
    pub fn of(inputs: &'a DistributionInputs) -> Self {
        let mut by_kind = Self::default();
        let mut policies = inputs.policies.iter();
        if !policies.any(|policy| policy.spec.propagate_deps) {
            return by_kind;
        }
        for NamedTemplate { name, object } in &inputs.templates {
            let key = (&*name.api_version, &*name.kind, &*name.namespace);
            let objects = by_kind.0.entry(key).or_default();
            objects.insert(&name.name, object);
        }
        by_kind
    }

    /// The templates that are required, and may be propagated.
    pub fn required(&self, required: &[DependentObject]) -> Vec<&'a Arc<Value>> {
        let mut found = Vec::new();
        for one in required {
            let key = (&*one.api_version, &*one.kind, &*one.namespace);
            let Some(objects) = self.0.get(&key) else {
                continue;
            };
            if one.name.is_empty() {
                let objects = objects.values().copied();
                found.extend(objects.filter(|object| is_selected(one, object)));
            } else {
                found.extend(objects.get(&*one.name).copied());
            }
        }
        found.retain(|object| never_propagated(object).is_none());
        found
    }
}

/// Whether a policy may bring what one of its objects needs to members. That of a namespace reaches
/// no other one: who writes it could have the Secrets of others sent.
pub fn may_need(policy: &Policy, required: &DependentObject) -> bool {
    let own = policy.namespace.as_deref();
    own.is_none_or(|own| required.namespace.is_empty() || required.namespace == own)
}

fn is_required(required: &DependentObject, name: &TemplateName, object: &Value) -> bool {
    if required.name.is_empty() {
        is_selected(required, object)
    } else {
        required.name == name.name
    }
}

/// Whether an object has the labels by which it is required.
fn is_selected(required: &DependentObject, object: &Value) -> bool {
    let selector = required.label_selector.as_ref();
    let selector = selector.and_then(|one| serde_json::from_value(one.clone()).ok());
    let selector = selector.and_then(|one| LabelSelector::from_api(&one).ok());
    let labels = map(object, &["metadata", "labels"]);
    selector.is_some_and(|selector| {
        selector.matches(|key| labels.and_then(|own| own.get(key)).and_then(Value::as_str))
    })
}
