//! Stores objects and removes them, with the owners of their fields.

use std::sync::Arc;

use fleetdex_core::model::Resource;
use serde_json::{Map, Value};

use super::{
    fields::{FieldSet, Schema, value_at},
    generation,
    managed::{ManagedFields, Operation, Writer},
    name::Name,
    object::{Form, Object},
    resource::{is_built_in, key},
    state::{State, complete_namespace},
    status::Status,
};

/// Who changes an object, for its managed fields.
#[derive(Clone, Copy, Debug)]
pub struct Editor<'e> {
    /// The field manager, such as `kubectl-edit`.
    pub manager: &'e str,
    /// The subresource by which it writes, such as `scale`.
    pub subresource: Option<&'e str>,
}

impl Editor<'_> {
    pub(super) fn writer(self) -> Writer {
        Writer {
            manager: self.manager.to_owned(),
            operation: Operation::Update,
            subresource: self.subresource.map(str::to_owned),
        }
    }
}

/// What is known of the fields of a resource.
pub(super) fn schema(resource: &Resource) -> Schema {
    Schema {
        has_named_items: is_built_in(resource),
    }
}

/// An object as clients read it, with all of its metadata.
pub(super) fn rendered(resource: &Resource, object: &Object, revision: u64) -> Value {
    let mut text = String::new();
    Form::new(resource, false).object(object, revision, &mut text);
    serde_json::from_str(&text).unwrap_or_default()
}

impl State {
    /// Whether a resource has a status that is written apart.
    pub(super) fn has_status(&self, resource: &Name) -> bool {
        self.options.with_status.contains(resource)
    }

    /// Replaces an object, or creates it. A writer owns what it changes from then on. Nothing is
    /// written if nothing changes. An object that is being deleted is gone with its last finalizer.
    pub(super) fn put(
        &mut self,
        resource: &Name,
        key: Arc<str>,
        object: Map<String, Value>,
        writer: Option<&Writer>,
    ) -> Result<(u64, Object), Status> {
        let table = self.etcd.table(resource)?;
        let existing = table.get(&key);
        let before = existing.map(|(_, object)| object.managed());
        let mut managed = before.unwrap_or_default();
        if writer.is_some() || !managed.is_empty() {
            let now = Value::Object(object.clone());
            let before =
                existing.map(|(revision, object)| rendered(&table.resource, object, revision));
            let schema = schema(&table.resource);
            let (changed, gone) = changes(&before.unwrap_or_default(), &now, schema);
            managed.take_from_others(writer, &changed);
            managed.take_from_others(None, &gone);
            if let Some(writer) = writer {
                let mut fields = managed.of(writer);
                fields.extend(&changed);
                managed.set(writer, fields);
            }
        }
        self.store(resource, key, object, managed)
    }

    /// Stores an object with these owners of its fields.
    pub(super) fn store(
        &mut self,
        resource: &Name,
        key: Arc<str>,
        mut object: Map<String, Value>,
        managed: ManagedFields,
    ) -> Result<(u64, Object), Status> {
        if *resource == Name::from("namespaces") {
            complete_namespace(&key, &mut object);
        }
        let table = self.etcd.table(resource)?;
        let existing = table
            .get(&key)
            .map(|(revision, object)| (revision, object.clone()));
        let described = table.resource.clone();
        if self.options.counts_generations {
            let before = existing.as_ref();
            let before = before.map(|(revision, one)| rendered(&described, one, *revision));
            generation::count(&mut object, before.as_ref());
        }
        let identity = match &existing {
            Some((_, existing)) => existing.identity(),
            None => self.new_identity(),
        };
        if !managed.is_empty() {
            sort(&mut object);
        }
        let object = Object::from_value(&key, &identity, object)
            .managed_by(managed, &described.gvk.api_version());
        let before = existing.as_ref().map(|(revision, _)| *revision);
        if let Some((revision, existing)) = existing
            && existing.equals(&object)
        {
            return Ok((revision, existing));
        }
        let is_gone = identity.deleted.is_some() && !object.has_finalizers();
        let stored = (!is_gone).then(|| object.clone());
        let revision = self.write(resource, key, stored)?;
        // The version of the deletion is that of its event, and not of the answer.
        let shown = before.filter(|_| is_gone).unwrap_or(revision);
        Ok((shown, object))
    }

    /// Deletes an object. One with finalizers stays until these are gone. Returns it if it stays.
    pub(super) fn remove(
        &mut self,
        resource: &Name,
        key: &Arc<str>,
    ) -> Result<Option<(u64, Object)>, Status> {
        let table = self.etcd.table(resource)?;
        let Some((revision, object)) = table.get(key) else {
            return Ok(None);
        };
        let (mut identity, object) = (object.identity(), object.clone());
        if !object.has_finalizers() {
            self.write(resource, Arc::clone(key), None)?;
            return Ok(None);
        }
        if identity.deleted.is_some() {
            return Ok(Some((revision, object)));
        }
        let described = table.resource.clone();
        identity.deleted = Some(self.timestamp());
        let Value::Object(members) = rendered(&described, &object, revision) else {
            return Ok(None);
        };
        let object = Object::from_value(key, &identity, members)
            .managed_by(object.managed(), &described.gvk.api_version());
        let revision = self.write(resource, Arc::clone(key), Some(object.clone()))?;
        Ok(Some((revision, object)))
    }

    pub(super) fn edit(
        &mut self,
        resource: &Name,
        namespace: Option<&str>,
        name: &str,
        editor: Editor<'_>,
        change: impl FnOnce(&mut Value),
    ) -> Result<bool, Status> {
        let Some(mut object) = self.object(resource, namespace, name)? else {
            return Ok(false);
        };
        change(&mut object);
        let Value::Object(object) = object else {
            return Err(Status::bad_request("the object is no JSON object"));
        };
        let writer = editor.writer();
        self.put(resource, key(namespace, name), object, Some(&writer))?;
        Ok(true)
    }
}

/// Sorts the members of objects, as API servers do.
fn sort(members: &mut Map<String, Value>) {
    members.sort_keys();
    members.values_mut().for_each(sort_within);
}

fn sort_within(value: &mut Value) {
    match value {
        Value::Object(members) => sort(members),
        Value::Array(items) => items.iter_mut().for_each(sort_within),
        _ => {}
    }
}

/// The fields that are new or have another value, and those that are gone.
pub(super) fn changes(before: &Value, now: &Value, schema: Schema) -> (FieldSet, FieldSet) {
    let (fields_before, fields) = (FieldSet::of(before, schema), FieldSet::of(now, schema));
    let (mut changed, mut gone) = (FieldSet::default(), FieldSet::default());
    for path in fields.iter() {
        let is_item = path.last().is_some_and(|last| last.starts_with("k:"));
        let is_same = if is_item {
            fields_before.contains(path)
        } else {
            value_at(before, path) == value_at(now, path)
        };
        if !is_same {
            changed.insert(path.clone());
        }
    }
    for path in fields_before.iter() {
        if !fields.reaches(path) {
            gone.insert(path.clone());
        }
    }
    (changed, gone)
}
