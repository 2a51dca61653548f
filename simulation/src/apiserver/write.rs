//! Creating, replacing and deleting objects by requests.

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

use super::{
    body::{self, Body},
    name::Name,
    request::Asked,
    resource::{key, split_key},
    respond::object_response,
    state::State,
    status::Status,
};

fn parse(asked: &Asked, body: &Bytes) -> Result<Value, Status> {
    let mut object: Value =
        serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?;
    if !object["metadata"].is_object() {
        return Err(Status::bad_request("the object has no metadata"));
    }
    if let Some(namespace) = &asked.namespace {
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
    asked: &Asked,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let object = parse(asked, body)?;
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let namespaces = Name::from("namespaces");
    if let Some(namespace) = &asked.namespace
        && state.etcd.table(&namespaces)?.get(namespace).is_none()
    {
        return Err(Status::not_found(&namespaces, namespace));
    }
    if state
        .etcd
        .table(&asked.resource)?
        .get(&key(asked.namespace.as_deref(), &name))
        .is_some()
    {
        return Err(Status::already_exists(&asked.resource, &name));
    }
    state.apply(&asked.resource, object)?;
    answer(state, asked, &name, 201)
}

pub(super) fn update(
    state: &mut State,
    asked: &Asked,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let object = parse(asked, body)?;
    let metadata = &object["metadata"];
    let name = asked.name.clone().unwrap_or_default();
    let given = metadata["name"].as_str().unwrap_or_default();
    if given != name {
        let message =
            format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(Status::bad_request(message));
    }
    let (revision, existing) = state
        .etcd
        .table(&asked.resource)?
        .get(&asked.key())
        .ok_or_else(|| Status::not_found(&asked.resource, &name))?;
    let conflict = |cause: &str| Err(Status::conflict(&asked.resource, &name, cause));
    let uid = metadata["uid"].as_str().unwrap_or_default();
    let known = existing.identity().uid;
    if !uid.is_empty() && uid != known {
        return conflict(&format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: {uid}, UID in object meta: {known}",
            asked.resource.plural,
            asked.key(),
        ));
    }
    let version = metadata["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() && version != revision.to_string() {
        return conflict(
            "the object has been modified; please apply your changes to the latest version and try again",
        );
    }
    state.apply(&asked.resource, object)?;
    answer(state, asked, &name, 200)
}

fn answer(state: &State, asked: &Asked, name: &str, code: u16) -> Result<Response<Body>, Status> {
    let table = state.etcd.table(&asked.resource)?;
    let (revision, object) = table
        .get(&key(asked.namespace.as_deref(), name))
        .ok_or_else(|| Status::not_found(&asked.resource, name))?;
    Ok(object_response(code, &asked.form, object, revision))
}

pub(super) fn delete(state: &mut State, asked: &Asked) -> Result<Response<Body>, Status> {
    let key = asked.key();
    let (_, name) = split_key(&key);
    let found = state
        .etcd
        .table(&asked.resource)?
        .get(&key)
        .map(|(_, object)| object.identity().uid);
    let uid = found.ok_or_else(|| Status::not_found(&asked.resource, name))?;
    state.write(&asked.resource, key.clone(), None)?;
    let mut details = json!({ "name": name });
    if !asked.resource.group.is_empty() {
        details["group"] = (*asked.resource.group).into();
    }
    details["kind"] = (*asked.resource.plural).into();
    details["uid"] = uid.into();
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
    Ok(body::json(200, status.to_string().into()))
}
