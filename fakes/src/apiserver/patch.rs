//! Requests that change parts of objects: server-side apply, and merge patches.

use bytes::Bytes;
use http::{HeaderMap, Response, header};
use serde_json::{Map, Value};

use super::{
    body::Body,
    edit::{rendered, schema},
    fields::{FieldSet, Schema, remove_at, value_at},
    managed::{ManagedFields, Operation, Writer},
    merge,
    name::Name,
    request::ObjectRequest,
    resource::split_key,
    respond::object_response,
    state::State,
    status::Status,
};

/// Handles a `PATCH` request.
pub(super) fn patch(
    state: &mut State,
    object_request: &ObjectRequest,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let sent: Value =
        serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?;
    match content_type.unwrap_or_default() {
        "application/apply-patch+yaml" => apply(state, object_request, &sent),
        "application/merge-patch+json" => merge_patch(state, object_request, &sent),
        other => Err(Status::unsupported_media_type(other)),
    }
}

/// An object that is patched.
struct Target {
    revision: u64,
    object: Value,
    managed: ManagedFields,
}

impl Target {
    fn find(state: &State, object_request: &ObjectRequest) -> Result<Option<Self>, Status> {
        let table = state.etcd.table(&object_request.resource)?;
        let found = table
            .get(&object_request.key())
            .map(|(revision, object)| Self {
                revision,
                object: rendered(&table.resource, object, revision),
                managed: object.managed(),
            });
        Ok(found)
    }

    /// Refuses a patch for another object, or for another version of it.
    fn check(&self, sent: &Value, resource: &Name, name: &str) -> Result<(), Status> {
        let given = |member: &str| sent["metadata"][member].as_str().unwrap_or_default();
        let existing = self.object["metadata"]["uid"].as_str().unwrap_or_default();
        let uid = given("uid");
        if !uid.is_empty() && uid != existing {
            let cause = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {existing}"
            );
            return Err(Status::conflict(resource, name, &cause));
        }
        let version = given("resourceVersion");
        if !version.is_empty() && version != self.revision.to_string() {
            return Err(Status::conflict(
                resource,
                name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        Ok(())
    }
}

fn merge_patch(
    state: &mut State,
    object_request: &ObjectRequest,
    sent: &Value,
) -> Result<Response<Body>, Status> {
    let resource = &object_request.resource;
    let key = object_request.key();
    let (_, name) = split_key(&key);
    let target = Target::find(state, object_request)?;
    let target = target.ok_or_else(|| Status::not_found(resource, name))?;
    target.check(sent, resource, name)?;
    let mut object = target.object.clone();
    merge::merge_patch(&mut object, sent);
    let object = with_status_of(state, object_request, &target.object, object);
    let writer = object_request.writer(Operation::Update);
    let (revision, object) = state.put(resource, key, members(object)?, writer.as_ref())?;
    Ok(object_response(
        200,
        &object_request.form,
        &object,
        revision,
    ))
}

/// Server-side apply.
fn apply(
    state: &mut State,
    object_request: &ObjectRequest,
    sent: &Value,
) -> Result<Response<Body>, Status> {
    let writer = object_request.writer(Operation::Apply);
    let writer = writer.ok_or_else(|| Status::bad_request("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"))?;
    let resource = &object_request.resource;
    let key = object_request.key();
    let (_, name) = split_key(&key);
    let target = Target::find(state, object_request)?;
    let schema = schema(&state.etcd.table(resource)?.resource);
    let sent = only_part(state, object_request, sent);
    let Some(target) = target else {
        if object_request.is_status {
            return Err(Status::not_found(resource, name));
        }
        return create(state, object_request, &sent, &writer, schema);
    };
    target.check(&sent, resource, name)?;
    let mut object = target.object.clone();
    let mut managed = target.managed;
    let fields = FieldSet::of(&sent, schema);
    let before = managed.of(&writer);
    let overwritten = overwritten(&object, &sent, &fields, schema);
    let owners = managed.owners(&writer, &overwritten);
    if !owners.is_empty() && !object_request.parameters.is_true("force") {
        return Err(Status::apply_conflict(&owners));
    }
    remove_given_up(&mut object, &before, &fields, &managed.of_others(&writer));
    merge::apply(&mut object, &without_identity(sent), "", schema);
    managed.take_from_others(Some(&writer), &overwritten);
    managed.set(&writer, fields);
    let (revision, object) = state.store(resource, key, members(object)?, managed)?;
    Ok(object_response(
        200,
        &object_request.form,
        &object,
        revision,
    ))
}

fn create(
    state: &mut State,
    object_request: &ObjectRequest,
    sent: &Value,
    writer: &Writer,
    schema: Schema,
) -> Result<Response<Body>, Status> {
    let namespaces = Name::from("namespaces");
    if let Some(namespace) = &object_request.namespace
        && state.etcd.table(&namespaces)?.get(namespace).is_none()
    {
        return Err(Status::not_found(&namespaces, namespace));
    }
    let uid = sent["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() {
        let cause = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        let name = object_request.name.as_deref().unwrap_or_default();
        return Err(Status::conflict(&object_request.resource, name, &cause));
    }
    let mut managed = ManagedFields::default();
    managed.set(writer, FieldSet::of(sent, schema));
    let mut object = Value::Object(Map::new());
    merge::apply(&mut object, sent, "", schema);
    let key = object_request.key();
    let resource = &object_request.resource;
    let (revision, object) = state.store(resource, key, members(object)?, managed)?;
    Ok(object_response(
        201,
        &object_request.form,
        &object,
        revision,
    ))
}

/// What of a configuration a request is about: its status, or the rest.
fn only_part(state: &State, object_request: &ObjectRequest, sent: &Value) -> Value {
    let mut part = sent.clone();
    let Some(members) = part.as_object_mut() else {
        return part;
    };
    if object_request.is_status {
        members.retain(|name, _| name == "status");
    } else if state.has_status(&object_request.resource) {
        members.shift_remove("status");
    }
    part
}

/// An object with the part that a request is not about as it was.
pub(super) fn with_status_of(
    state: &State,
    object_request: &ObjectRequest,
    before: &Value,
    now: Value,
) -> Value {
    if !state.has_status(&object_request.resource) {
        return now;
    }
    let (mut object, status) = if object_request.is_status {
        (before.clone(), &now["status"])
    } else {
        (now.clone(), &before["status"])
    };
    if let Some(members) = object.as_object_mut() {
        if status.is_null() {
            members.shift_remove("status");
        } else {
            members.insert("status".to_owned(), status.clone());
        }
    }
    object
}

/// The fields that the object has with other values, or does not have.
fn overwritten(object: &Value, sent: &Value, fields: &FieldSet, schema: Schema) -> FieldSet {
    let known = FieldSet::of(object, schema);
    let mut overwritten = FieldSet::default();
    for path in fields.iter() {
        let is_item = path.last().is_some_and(|last| last.starts_with("k:"));
        let is_same = if is_item {
            known.contains(path)
        } else {
            value_at(object, path) == value_at(sent, path)
        };
        if !is_same {
            overwritten.insert(path.clone());
        }
    }
    overwritten
}

/// Removes the fields that a writer has owned alone and does not apply any more.
fn remove_given_up(object: &mut Value, before: &FieldSet, now: &FieldSet, others: &FieldSet) {
    // An item of a list comes before its fields.
    for path in before.iter() {
        if !now.reaches(path) && !others.reaches(path) {
            remove_at(object, path);
        }
    }
}

fn without_identity(mut sent: Value) -> Value {
    if let Some(members) = sent.as_object_mut() {
        members.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    }
    sent
}

fn members(object: Value) -> Result<Map<String, Value>, Status> {
    match object {
        Value::Object(members) => Ok(members),
        _ => Err(Status::bad_request("the object is no JSON object")),
    }
}
