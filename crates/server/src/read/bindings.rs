//! Bindings of the control plane: what is distributed, and what has become of it.
//!
//! Guarantee: a caller is shown no binding that the control plane would not show, in whatever mode
//! objects of members are authorized. The client of this process reads them, after the control
//! plane has decided that the caller may `list` them in the namespace, or `get` the one; so a
//! binding names clusters also to those who may not see these clusters here.

use std::{fmt, time::Duration};

use fleetdex_clusters::{
    request::{RequestError, send_within},
    watch::ListPage,
};
use fleetdex_core::{
    model::{Namespace, is_dns_label, is_dns_subdomain},
    query::ResourceName,
};
use fleetdex_crds::{
    binding::{cluster_resource_bindings, resource_bindings},
    distribution::Distribution,
};
use fleetdex_distribution::{
    binding_name::binding_name, placement_report::PlacementReport, sets::SET_UID_LABEL,
    template_name::TemplateName,
};
use fleetdex_limits::{
    intake::{Intake, IntakeError},
    parsed::{Parsed, ReservedJson},
    request::UserRequest,
};
use fleetdex_query_api::{percent::encode, rbac_attributes::Attributes};
use fleetdex_ui::{BindingsPage, BindingsQuestion};
use http::StatusCode;
use kube::{Client, CustomResourceExt as _, client::Body, core::ApiResource};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    api_error::ApiError,
    auth::{authentication_mode::AuthenticationMode, caller::Caller},
    limits::no_memory,
};

/// Bindings of a page.
const PAGE: u32 = 50;
/// A page that is too large is asked for again with a quarter of its bindings: from 50 to 1 in four
/// requests.
const SHRINKING: u32 = 4;
/// Bytes of a page. A binding of a thousand clusters has up to 100 kB, one of Karmada 3 MiB at
/// most.
const PAGE_BYTES: usize = 6 << 20;
/// Bytes of what the bindings of a page say: 7,000 clusters, whose rows have 7 MB of HTML. They are
/// within what a view reserves.
const REPORT_BYTES: usize = 1 << 20;
/// How long the control plane may take for a page.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Where more is shown than the page can.
const ELSEWHERE: &str = "ask with fleetdex distribute status";

/// Reads bindings of the control plane for callers that may read them.
#[derive(Clone)]
pub struct BindingReader(Client);

impl fmt::Debug for BindingReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BindingReader")
    }
}

impl BindingReader {
    /// Reads by this client, which must not retry by itself.
    pub fn new(control_plane: Client) -> Self {
        Self(control_plane)
    }

    /// What is asked for, if the caller may read it.
    pub async fn read(
        &self,
        authentication_mode: &AuthenticationMode,
        caller: &Caller,
        question: &BindingsQuestion,
    ) -> Result<BindingsPage, ApiError> {
        let request = BindingsRequest::of(question)?;
        check(authentication_mode, caller, &request.access()).await?;
        let memory = UserRequest::current().memory().clone();
        if request.name.is_some() {
            return self.one(&request, &memory).await;
        }
        let mut limit = PAGE;
        loop {
            if let Some(page) = self.page(&request, limit, &memory).await? {
                return Ok(page);
            }
            if limit == 1 {
                return Err(ApiError::Unprocessable(format!(
                    "a binding has more than {} MiB; {ELSEWHERE}",
                    PAGE_BYTES >> 20
                )));
            }
            limit = (limit / SHRINKING).max(1);
        }
    }

    /// A `Distribution`, if the caller may read it.
    pub async fn distribution(
        &self,
        authentication_mode: &AuthenticationMode,
        caller: &Caller,
        namespace: &str,
        name: &str,
    ) -> Result<Distribution, ApiError> {
        let problem = || ApiError::NotFound(format!("there is no Distribution {namespace}/{name}"));
        let in_namespace: Option<Namespace> = namespace.parse().ok();
        let in_namespace = in_namespace.filter(|_| is_dns_subdomain(name));
        let in_namespace = in_namespace.ok_or_else(problem)?;
        let request = BindingsRequest {
            resource: Distribution::api_resource(),
            namespace: Some(in_namespace),
            name: Some(name.to_owned()),
            object: None,
            selector: String::new(),
            continue_token: String::new(),
        };
        check(authentication_mode, caller, &request.access()).await?;
        let memory = UserRequest::current().memory().clone();
        let body = self.get(&request.path(), &memory).await;
        let body = body.map_err(|error| request.error(&error))?;
        let parsed = parsed(body, &memory).await?;
        Distribution::deserialize(&*parsed).map_err(|error| unreadable(&error))
    }

    async fn one(
        &self,
        request: &BindingsRequest,
        memory: &Intake,
    ) -> Result<BindingsPage, ApiError> {
        let body = self.get(&request.path(), memory).await;
        let body = body.map_err(|error| request.error(&error))?;
        let mut report = report(body, memory).await?;
        report.keep_within(REPORT_BYTES);
        let is_it = request.object.as_ref().is_some_and(|object| {
            (&object.kind, &object.name) == (&report.object.kind, &report.object.name)
        });
        let reports = Some(report).filter(|report| is_it && !report.is_ignored);
        Ok(BindingsPage {
            reports: reports.into_iter().collect(),
            continue_token: String::new(),
        })
    }

    /// A page of at most `limit` bindings; `None` if these are too much.
    async fn page(
        &self,
        request: &BindingsRequest,
        limit: u32,
        memory: &Intake,
    ) -> Result<Option<BindingsPage>, ApiError> {
        let next = encode(&request.continue_token);
        let selector = match request.selector.as_str() {
            "" => String::new(),
            selector => format!("&labelSelector={}", encode(selector)),
        };
        let path = request.path();
        let path = format!("{path}?limit={limit}&continue={next}{selector}");
        let body = match self.get(&path, memory).await {
            Ok(body) => body,
            Err(error) if is_too_large(&error) => return Ok(None),
            Err(error) => return Err(request.error(&error)),
        };
        let listed = ListPage::parse(&body).and_then(|page| page.within(Some(limit)));
        let listed = listed.map_err(|error| unreadable(&error))?;
        let mut reports = Vec::new();
        let mut size = 0;
        for item in &listed.items {
            let mut report = report(body.slice_ref(item.as_bytes()), memory).await?;
            size += report.size();
            if size > REPORT_BYTES {
                if limit > 1 {
                    return Ok(None);
                }
                report.keep_within(REPORT_BYTES);
            }
            reports.push(report);
        }
        Ok(Some(BindingsPage {
            reports,
            continue_token: listed.continue_token.unwrap_or_default(),
        }))
    }

    async fn get(&self, path: &str, memory: &Intake) -> Result<bytes::Bytes, RequestError> {
        let request = http::Request::get(path).body(Body::empty());
        let request = request.map_err(|error| RequestError::Unreachable {
            request: "GET of bindings".to_owned(),
            cause: error.to_string(),
        })?;
        let sent = send_within(&self.0, request, TIMEOUT, memory, PAGE_BYTES);
        Ok(sent.await?.body)
    }
}

/// What a binding says.
async fn report(text: bytes::Bytes, memory: &Intake) -> Result<PlacementReport, ApiError> {
    Ok(PlacementReport::of(&*parsed(text, memory).await?))
}

/// An object whose text is parsed within the memory of the request.
async fn parsed(text: bytes::Bytes, memory: &Intake) -> Result<Parsed<Value>, ApiError> {
    let reserved = ReservedJson::reserve(memory, text, 1).await;
    let reserved = reserved.map_err(|error| match error {
        IntakeError::TooLarge(_) => ApiError::Unprocessable(format!(
            "an object takes more memory than a request may hold when it is parsed; {ELSEWHERE}"
        )),
        other => no_memory(&other),
    })?;
    let parsed: Result<Parsed<Value>, serde_json::Error> = reserved.parse();
    parsed.map_err(|error| unreadable(&error))
}

/// An error: the control plane does not let the caller do that.
async fn check(
    authentication_mode: &AuthenticationMode,
    caller: &Caller,
    access: &Attributes,
) -> Result<(), ApiError> {
    if let AuthenticationMode::Delegated(auth) = authentication_mode {
        auth.authorizer.check(caller, access).await?;
    }
    Ok(())
}

fn is_too_large(error: &RequestError) -> bool {
    let RequestError::Unread { refused, .. } = error else {
        return false;
    };
    matches!(refused, IntakeError::TooLarge(_))
}

fn unreadable(error: &dyn std::error::Error) -> ApiError {
    ApiError::Internal(format!(
        "objects of the control plane cannot be read: {error}"
    ))
}

/// Which bindings are requested.
struct BindingsRequest {
    resource: ApiResource,
    namespace: Option<Namespace>,
    /// That of one binding.
    name: Option<String>,
    /// The object of that binding.
    object: Option<TemplateName>,
    /// By labels; empty: all.
    selector: String,
    continue_token: String,
}

impl BindingsRequest {
    fn of(question: &BindingsQuestion) -> Result<Self, ApiError> {
        let (resource, namespace, continue_token) = match question {
            BindingsQuestion::Namespaced {
                namespace,
                continue_token,
            } => (resource_bindings(), &**namespace, &**continue_token),
            BindingsQuestion::ClusterScoped { continue_token } => {
                (cluster_resource_bindings(), "", &**continue_token)
            }
            BindingsQuestion::OfSet {
                set,
                continue_token,
            } => (resource_bindings(), &*set.namespace, &**continue_token),
            BindingsQuestion::OfObject(object) if object.namespace.is_empty() => {
                (cluster_resource_bindings(), "", "")
            }
            BindingsQuestion::OfObject(object) => (resource_bindings(), &*object.namespace, ""),
        };
        let object = match question {
            BindingsQuestion::OfObject(object) => Some(object.clone()),
            _ => None,
        };
        let selector = match question {
            BindingsQuestion::OfSet { set, .. } => format!("{SET_UID_LABEL}={}", set.uid),
            _ => String::new(),
        };
        if !namespace.is_empty() && !is_dns_label(namespace) {
            let problem = format!("{namespace:?} is no name of a namespace");
            return Err(match object {
                Some(_) => ApiError::NotFound(problem),
                None => ApiError::BadRequest(problem),
            });
        }
        Ok(Self {
            resource,
            // An empty one is none.
            namespace: namespace.parse().ok(),
            name: object.as_ref().map(binding_name),
            object,
            selector,
            continue_token: continue_token.to_owned(),
        })
    }

    /// What the caller has to be allowed.
    fn access(&self) -> Attributes {
        let resource = ResourceName::new(&self.resource.group, &self.resource.plural);
        let verb = if self.name.is_some() { "get" } else { "list" };
        let (namespace, name) = (self.namespace.as_ref(), self.name.as_deref());
        Attributes::of_objects(verb, &resource, &self.resource.version, namespace, name)
    }

    fn path(&self) -> String {
        let ApiResource {
            api_version,
            plural,
            ..
        } = &self.resource;
        let namespace = self.namespace.as_ref();
        let namespace = namespace.map(|name| format!("/namespaces/{name}"));
        let name = self.name.as_ref().map(|name| format!("/{}", encode(name)));
        format!(
            "/apis/{api_version}{}/{plural}{}",
            namespace.unwrap_or_default(),
            name.unwrap_or_default()
        )
    }

    /// What a caller reads of a failure.
    fn error(&self, error: &RequestError) -> ApiError {
        let plural = &self.resource.plural;
        let text = format!("cannot read {plural} of the control plane: {error}");
        if let RequestError::Unread { refused, .. } = error {
            return match refused {
                IntakeError::TooLarge(_) => ApiError::Unprocessable(format!("{text}; {ELSEWHERE}")),
                other => no_memory(other),
            };
        }
        match error.status() {
            Some(StatusCode::NOT_FOUND) if self.name.is_some() => ApiError::NotFound(text),
            Some(StatusCode::NOT_FOUND) => ApiError::NotFound(format!(
                "the control plane does not serve {plural} of {}, so nothing is distributed; \
                 install the definitions with fleetdex crd apply --distribute",
                self.resource.group
            )),
            Some(StatusCode::GONE) => ApiError::Expired,
            Some(StatusCode::BAD_REQUEST) => ApiError::BadRequest(text),
            _ => ApiError::Unavailable(text),
        }
    }
}

#[cfg(test)]
mod tests;
