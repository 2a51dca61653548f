//! Requests that create, replace and delete whole objects.

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

use super::{
    body::{self, Body},
    edit::rendered,
    managed::Operation,
    name::Name,
    patch::with_status_of,
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
    let writer = object_request.writer(Operation::Update);
    state.apply_as(&object_request.resource, object, writer.as_ref())?;
    object_after_write(state, object_request, &name, 201)
}

/// The name of the object in a body; empty if it has none.
pub(super) fn name_in(body: &Bytes) -> String {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
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
    let before = rendered(
        &state.etcd.table(&object_request.resource)?.resource,
        existing,
        revision,
    );
    let object = with_status_of(state, object_request, &before, object);
    let writer = object_request.writer(Operation::Update);
    let Value::Object(object) = object else {
        return Err(Status::bad_request("the object is no JSON object"));
    };
    let (revision, object) = state.put(
        &object_request.resource,
        object_request.key(),
        object,
        writer.as_ref(),
    )?;
    Ok(object_response(
        200,
        &object_request.form,
        &object,
        revision,
    ))
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
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let resource = &object_request.resource;
    let key = object_request.key();
    let (_, name) = split_key(&key);
    let table = state.etcd.table(resource)?;
    let found = table.get(&key);
    let (revision, object) = found.ok_or_else(|| Status::not_found(resource, name))?;
    let (uid, version) = (object.identity().uid, revision.to_string());
    for (what, member, found) in [
        ("UID", "uid", &uid),
        ("ResourceVersion", "resourceVersion", &version),
    ] {
        if let Some(wanted) = precondition(body, member)?.filter(|wanted| wanted != found) {
            let kind = &table.resource.gvk.kind;
            let cause = other_object(what, &wanted, found);
            return Err(Status::other_object(kind, &resource.group, name, &cause));
        }
    }
    if let Some((revision, object)) = state.remove(resource, &key)? {
        return Ok(object_response(
            200,
            &object_request.form,
            &object,
            revision,
        ));
    }
    let mut details = json!({ "name": name });
    if !resource.group.is_empty() {
        details["group"] = (*resource.group).into();
    }
    details["kind"] = (*resource.plural).into();
    details["uid"] = uid.into();
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
    Ok(body::json(200, status.to_string().into()))
}

fn other_object(what: &str, wanted: &str, found: &str) -> String {
    let end = match what {
        "UID" => "deleted and then recreated",
        _ => "modified",
    };
    format!(
        "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The \
         object might have been {end}"
    )
}

/// What the options of a deletion require.
fn precondition(body: &Bytes, member: &str) -> Result<Option<String>, Status> {
    if body.is_empty() {
        return Ok(None);
    }
    let options: Value =
        serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?;
    let wanted = options["preconditions"][member].as_str();
    Ok(wanted.map(str::to_owned))
}
