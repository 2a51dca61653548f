//! Routes requests to their handlers.

use http::Method;
use serde_json::json;

use super::{
    admin, aliases, bulk,
    call::Call,
    cluster::{Cluster, RequestContext},
    filter_path, point_in_time,
    response::{ApiResponse, Exception, invalid_name},
    search, template,
};

/// Handles a request.
pub(super) fn handle(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    call: &Call,
) -> ApiResponse {
    match dispatch(cluster, context, call) {
        Ok(response) => match call.parameters.get("filter_path") {
            Some(paths) => ApiResponse {
                status: response.status,
                body: filter_path::apply(response.body, paths),
            },
            None => response,
        },
        Err(exception) => ApiResponse {
            status: exception.status,
            body: exception.body(),
        },
    }
}

fn dispatch(
    cluster: &mut Cluster,
    context: &mut RequestContext<'_>,
    call: &Call,
) -> Result<ApiResponse, Exception> {
    let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    match (Verb::of(&call.method), segments.as_slice()) {
        (Verb::Put | Verb::Post, ["_bulk"]) => bulk::bulk(cluster, context, call, None),
        (Verb::Put | Verb::Post, [index, "_bulk"]) => {
            bulk::bulk(cluster, context, call, Some(index))
        }
        (Verb::Get | Verb::Post, ["_search"]) => search::search(cluster, context, call, None),
        (Verb::Get | Verb::Post, [target, "_search"]) => {
            search::search(cluster, context, call, Some(target))
        }
        (Verb::Get | Verb::Post, ["_count"]) => search::count(cluster, context, call, None),
        (Verb::Get | Verb::Post, [target, "_count"]) => {
            search::count(cluster, context, call, Some(target))
        }
        (Verb::Post, [target, "_search", "point_in_time"]) => {
            point_in_time::create(cluster, context, call, target)
        }
        (Verb::Delete, ["_search", "point_in_time"]) => point_in_time::close(cluster, call),
        (Verb::Get | Verb::Post, ["_refresh"]) => admin::refresh(cluster, call, "_all"),
        (Verb::Get | Verb::Post, [target, "_refresh"]) => admin::refresh(cluster, call, target),
        (Verb::Get | Verb::Post, ["_mget"]) => admin::get_documents(cluster, call),
        (Verb::Get, [index, "_doc", id]) => admin::get_document(cluster, call, index, id),
        (Verb::Put | Verb::Post, ["_index_template", name]) => template::put(cluster, call, name),
        (Verb::Delete, ["_index_template", name]) => template::delete(cluster, call, name),
        (Verb::Get, ["_cluster", "health"]) => admin::health(cluster, call),
        (Verb::Get, ["_cluster", "settings"]) => admin::cluster_settings(call),
        (Verb::Post, ["_aliases"]) => aliases::update(cluster, context, call),
        (Verb::Get, ["_alias"]) => aliases::get(cluster, call, "_all", None),
        (Verb::Get, ["_alias", names]) => aliases::get(cluster, call, "_all", Some(names)),
        (Verb::Get, [target, "_alias"]) => aliases::get(cluster, call, target, None),
        (Verb::Get, [target, "_alias", names]) => aliases::get(cluster, call, target, Some(names)),
        (Verb::Get, [target, "_mapping"]) => admin::get_mapping(cluster, call, target),
        (Verb::Put | Verb::Post, [target, "_mapping"]) => {
            admin::put_mapping(cluster, context, call, target)
        }
        (Verb::Get, [target, "_settings"]) => admin::get_settings(cluster, call, target),
        (Verb::Put, [target, "_settings"]) => admin::put_settings(cluster, context, call, target),
        (Verb::Get, [target]) if is_unknown(target) => {
            Err(invalid_name(target, "must not start with '_'."))
        }
        (Verb::Get, [target]) => admin::get(cluster, call, target),
        (Verb::Put, [index]) => admin::create(cluster, context, call, index),
        (Verb::Delete, [target]) => admin::delete(cluster, call, target),
        (Verb::Post, [target]) if !is_unknown(target) => Ok(wrong_method(call)),
        _ => Ok(no_handler(call)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Put,
    Post,
    Delete,
    Other,
}

impl Verb {
    fn of(method: &Method) -> Self {
        match *method {
            Method::GET => Self::Get,
            Method::PUT => Self::Put,
            Method::POST => Self::Post,
            Method::DELETE => Self::Delete,
            _ => Self::Other,
        }
    }
}

fn is_unknown(target: &str) -> bool {
    target.starts_with('_') && target != "_all"
}

fn no_handler(call: &Call) -> ApiResponse {
    let text = format!(
        "no handler found for uri [{}] and method [{}]",
        call.path, call.method
    );
    ApiResponse {
        status: 400,
        body: json!({ "error": text }),
    }
}

fn wrong_method(call: &Call) -> ApiResponse {
    let (path, method) = (&call.path, &call.method);
    let text = format!(
        "Incorrect HTTP method for uri [{path}] and method [{method}], allowed: [GET, DELETE, HEAD, PUT]"
    );
    ApiResponse {
        status: 405,
        body: json!({ "error": text, "status": 405 }),
    }
}
