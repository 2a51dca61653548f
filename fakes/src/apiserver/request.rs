//! Parsed requests: verb, resource and parameters.

use std::collections::HashMap;

use fleetdex_core::model::Resource;
use http::{HeaderMap, Method, Uri, header};
use percent_encoding::percent_decode_str;

use super::{
    managed::{Operation, Writer},
    name::Name,
    object::{Form, Selectors},
    resource::{Target, key},
    status::Status,
};

/// The parameters of a URI.
#[derive(Debug, Default)]
pub(super) struct Parameters(HashMap<String, String>);

impl Parameters {
    pub(super) fn of(uri: &Uri) -> Self {
        let pairs = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(decoded.collect())
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.0
            .get(name)
            .is_some_and(|value| !["0", "false"].contains(&value.as_str()))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }
        let number = text
            .parse()
            .map_err(|_| Status::bad_request(format!("invalid {name}: {text:?} is no number")));
        number.map(Some)
    }
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Watch,
    Get,
    Create,
    Update,
    Patch,
    Delete,
}

impl Verb {
    pub(super) fn of(
        method: &Method,
        target: &Target,
        parameters: &Parameters,
    ) -> Result<Self, Status> {
        if target.is_status && matches!(method.as_str(), "POST" | "DELETE") {
            return Err(Status::method_not_allowed());
        }
        match (method.as_str(), target.name.is_some()) {
            ("GET", false) if parameters.is_true("watch") => Ok(Self::Watch),
            ("GET", false) => Ok(Self::List),
            ("GET", true) => Ok(Self::Get),
            ("POST", false) => Ok(Self::Create),
            ("PUT", true) => Ok(Self::Update),
            ("PATCH", true) => Ok(Self::Patch),
            ("DELETE", true) => Ok(Self::Delete),
            _ => Err(Status::method_not_allowed()),
        }
    }
}

/// A request for objects of a served resource.
#[derive(Debug)]
pub(super) struct ObjectRequest {
    pub(super) resource: Name,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    /// Whether it is about the subresource `status`.
    pub(super) is_status: bool,
    pub(super) form: Form,
    pub(super) parameters: Parameters,
}

impl ObjectRequest {
    /// Checks the target against the resource that it names.
    pub(super) fn new(
        target: Target,
        resource: &Resource,
        headers: &HeaderMap,
        parameters: Parameters,
    ) -> Result<Self, Status> {
        let names_one_namespace = target.namespace.is_some() || target.name.is_none();
        let fits = if resource.namespaced {
            names_one_namespace
        } else {
            target.namespace.is_none()
        };
        if !fits || target.version != *resource.gvk.version {
            return Err(Status::not_served());
        }
        let form = Form::new(resource, wants_metadata_only(headers));
        Ok(Self {
            resource: target.resource,
            namespace: target.namespace,
            name: target.name,
            is_status: target.is_status,
            form,
            parameters,
        })
    }

    /// Returns the key of the requested object.
    pub(super) fn key(&self) -> std::sync::Arc<str> {
        key(
            self.namespace.as_deref(),
            self.name.as_deref().unwrap_or_default(),
        )
    }

    /// Returns the key prefix of the collection.
    pub(super) fn prefix(&self) -> String {
        self.namespace
            .as_ref()
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default()
    }

    /// The client as the owner of fields; `None`: it does not say who it is.
    pub(super) fn writer(&self, operation: Operation) -> Option<Writer> {
        let manager = self.parameters.text("fieldManager");
        (!manager.is_empty()).then(|| Writer {
            manager: manager.to_owned(),
            operation,
            subresource: self.is_status.then(|| "status".to_owned()),
        })
    }

    pub(super) fn selectors(&self) -> Result<Selectors, Status> {
        Selectors::parse(
            self.parameters.text("labelSelector"),
            self.parameters.text("fieldSelector"),
        )
    }
}

fn wants_metadata_only(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or_default();
    let first = accept.split(',').next().unwrap_or_default();
    first.contains("as=PartialObjectMetadata")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let uri = "/x?labelSelector=a%20in+%28b%2Cc%29&limit=5&watch=true&odd=x"
            .parse()
            .unwrap();
        let parameters = Parameters::of(&uri);
        assert_eq!(parameters.text("labelSelector"), "a in (b,c)");
        assert_eq!(parameters.number("limit").unwrap(), Some(5));
        assert!(parameters.is_true("watch") && !parameters.is_true("absent"));
        assert!(parameters.number("odd").is_err());
    }

    #[test]
    fn only_metadata_is_sent_if_the_first_media_type_requests_it() {
        let is_metadata_only = |accept: &'static str| {
            wants_metadata_only(&HeaderMap::from_iter([(
                header::ACCEPT,
                HeaderValue::from_static(accept),
            )]))
        };
        assert!(is_metadata_only(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        ));
        assert!(is_metadata_only(
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        ));
        assert!(!is_metadata_only("application/json"));
    }
}
