//! Managed fields: which client owns which fields of an object.

use serde_json::{Value, json};

use super::fields::FieldSet;

/// How fields were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// Who writes fields, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) subresource: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    writer: Writer,
    fields: FieldSet,
}

/// The owners of an object's fields. Without any, no client has written it in the name of a
/// manager, and nothing is tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ManagedFields(Vec<Entry>);

impl ManagedFields {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a writer owns.
    pub(super) fn of(&self, writer: &Writer) -> FieldSet {
        let mut entries = self.0.iter();
        let entry = entries.find(|entry| entry.writer == *writer);
        entry.map(|entry| entry.fields.clone()).unwrap_or_default()
    }

    /// What all other writers own.
    pub(super) fn of_others(&self, writer: &Writer) -> FieldSet {
        let mut fields = FieldSet::default();
        for entry in self.0.iter().filter(|entry| entry.writer != *writer) {
            fields.extend(&entry.fields);
        }
        fields
    }

    /// The managers, other than a writer, that own some of these fields.
    pub(super) fn owners(&self, writer: &Writer, fields: &FieldSet) -> Vec<String> {
        let others = self.0.iter().filter(|entry| entry.writer != *writer);
        let owners = others.filter(|entry| fields.iter().any(|path| entry.fields.contains(path)));
        owners.map(|entry| entry.writer.manager.clone()).collect()
    }

    /// A writer owns these fields from now on, and no others.
    pub(super) fn set(&mut self, writer: &Writer, fields: FieldSet) {
        self.0.retain(|entry| entry.writer != *writer);
        if !fields.is_empty() {
            self.0.push(Entry {
                writer: writer.clone(),
                fields,
            });
        }
        self.0.sort_by(|one, other| {
            let key = |entry: &Entry| {
                let writer = &entry.writer;
                (
                    writer.operation,
                    writer.manager.clone(),
                    writer.subresource.clone(),
                )
            };
            key(one).cmp(&key(other))
        });
    }

    /// All writers but this one lose these fields.
    pub(super) fn take_from_others(&mut self, writer: Option<&Writer>, fields: &FieldSet) {
        for entry in &mut self.0 {
            if Some(&entry.writer) != writer {
                entry.fields.remove_all(fields);
            }
        }
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// As `metadata.managedFields`, without times.
    pub(super) fn to_json(&self, api_version: &str) -> Value {
        let entries = self.0.iter().map(|entry| {
            let writer = &entry.writer;
            let operation = match writer.operation {
                Operation::Apply => "Apply",
                Operation::Update => "Update",
            };
            let mut json = json!({
                "manager": writer.manager, "operation": operation, "apiVersion": api_version,
                "fieldsType": "FieldsV1", "fieldsV1": entry.fields.to_json(),
            });
            if let Some(subresource) = &writer.subresource {
                json["subresource"] = subresource.as_str().into();
            }
            json
        });
        entries.collect()
    }
}
