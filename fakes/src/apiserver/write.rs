//! Requests that create, replace and delete objects.

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

use super::{
    body::{self, Body},
    name::Name,
    request::ObjectRequest,
    resource::{key, split_key},
    respond::object_response,
    state::State,
    status::Status,
};

fn parse(object_request: &ObjectRequest, body: &Bytes) -> Result<Value, Status> {
    let mut object: Value =
        serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?;
    if !object["metadata"].is_object() {
        return Err(Status::bad_request("the object has no metadata"));
    }
    if let Some(namespace) = &object_request.namespace {
        let given = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or(namespace);
        if given != namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        object["metadata"]["namespace"] = namespace.clone().into();
    }
    Ok(object)
}

pub(super) fn create(
    state: &mut State,
    object_request: &ObjectRequest,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let object = parse(object_request, body)?;
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let namespaces = Name::from("namespaces");
    if let Some(namespace) = &object_request.namespace
        && state.etcd.table(&namespaces)?.get(namespace).is_none()
    {
        return Err(Status::not_found(&namespaces, namespace));
    }
    if state
        .etcd
        .table(&object_request.resource)?
        .get(&key(object_request.namespace.as_deref(), &name))
        .is_some()
    {
        return Err(Status::already_exists(&object_request.resource, &name));
    }
    state.apply(&object_request.resource, object)?;
    object_after_write(state, object_request, &name, 201)
}

pub(super) fn update(
    state: &mut State,
    object_request: &ObjectRequest,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let object = parse(object_request, body)?;
    let metadata = &object["metadata"];
    let name = object_request.name.clone().unwrap_or_default();
    let given = metadata["name"].as_str().unwrap_or_default();
    if given != name {
        let message =
            format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(Status::bad_request(message));
    }
    let (revision, existing) = state
        .etcd
        .table(&object_request.resource)?
        .get(&object_request.key())
        .ok_or_else(|| Status::not_found(&object_request.resource, &name))?;
    let conflict = |cause: &str| Err(Status::conflict(&object_request.resource, &name, cause));
    let uid = metadata["uid"].as_str().unwrap_or_default();
    let existing_uid = existing.identity().uid;
    if !uid.is_empty() && uid != existing_uid {
        return conflict(&format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: {uid}, UID in object meta: {existing_uid}",
            object_request.resource.plural,
            object_request.key(),
        ));
    }
    let version = metadata["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() && version != revision.to_string() {
        return conflict(
            "the object has been modified; please apply your changes to the latest version and try again",
        );
    }
    state.apply(&object_request.resource, object)?;
    object_after_write(state, object_request, &name, 200)
}

fn object_after_write(
    state: &State,
    object_request: &ObjectRequest,
    name: &str,
    code: u16,
) -> Result<Response<Body>, Status> {
    let table = state.etcd.table(&object_request.resource)?;
    let (revision, object) = table
        .get(&key(object_request.namespace.as_deref(), name))
        .ok_or_else(|| Status::not_found(&object_request.resource, name))?;
    Ok(object_response(
        code,
        &object_request.form,
        object,
        revision,
    ))
}

pub(super) fn delete(
    state: &mut State,
    object_request: &ObjectRequest,
) -> Result<Response<Body>, Status> {
    let key = object_request.key();
    let (_, name) = split_key(&key);
    let found = state
        .etcd
        .table(&object_request.resource)?
        .get(&key)
        .map(|(_, object)| object.identity().uid);
    let uid = found.ok_or_else(|| Status::not_found(&object_request.resource, name))?;
    state.write(&object_request.resource, key.clone(), None)?;
    let mut details = json!({ "name": name });
    if !object_request.resource.group.is_empty() {
        details["group"] = (*object_request.resource.group).into();
    }
    details["kind"] = (*object_request.resource.plural).into();
    details["uid"] = uid.into();
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
    Ok(body::json(200, status.to_string().into()))
}
