//! Handles requests.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use kube::client::Body as ClientBody;
use rand::RngExt;
use tokio::time::{Instant, sleep};
use tower::{BoxError, service_fn};

use super::{
    Server,
    body::{self, Body, Broken, Compressible, Ending},
    discovery,
    fault::{Fault, FaultKind},
    list::{Listing, Page},
    observer::{ClientWrite, Observer},
    patch,
    request::{ObjectRequest, Parameters, Verb},
    resource::Target,
    respond::object_response,
    reviews,
    state::State,
    status::{Status, plain},
    watch::Watch,
    write,
};

/// A response and its delay.
struct Reply {
    response: Response<Body>,
    delayed_by: Duration,
}

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Self {
        Self {
            response,
            delayed_by: Duration::ZERO,
        }
    }
}

impl Server {
    /// Creates a client without retries. It is bound to the current async runtime.
    pub fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<ClientBody>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                Ok::<_, BoxError>(server.respond(Request::from_parts(head, body)).await?)
            }
        });
        kube::Client::new(service, "default")
    }

    /// Handles a request; fails if the connection breaks.
    pub async fn respond(&self, request: Request<Bytes>) -> Result<Response<Body>, Broken> {
        let target = match Target::parse(request.uri().path()) {
            Some(Err(status)) => return Ok(status.response()),
            Some(Ok(target)) => Some(target),
            None => None,
        };
        let run = self.lock().run;
        self.delay().await;
        match self.disruption(&request, target.as_ref()) {
            Some(Disruption::Refused) => return Err(Broken::Refused),
            Some(Disruption::Hangs) => std::future::pending().await,
            Some(Disruption::Respond(response)) => return Ok(*response),
            None => {}
        }
        let Some(target) = target else {
            return Ok(discovery::respond(&self.lock().etcd, &request));
        };
        let is_known = {
            let mut state = self.lock();
            state.pod_requests += u64::from(&*target.resource.plural == "pods");
            state
                .etcd
                .tables()
                .any(|(_, table)| target.is_in_group_version_of(&table.resource))
        };
        if !is_known {
            return Ok(plain(404, "404 page not found\n"));
        }
        let reply = self
            .handle(target, &request)
            .unwrap_or_else(|status| status.response().into());
        let is_write = request.method() != Method::GET;
        if is_write && self.loses_answer() {
            return Err(Broken::Reset);
        }
        if !reply.delayed_by.is_zero() {
            sleep(reply.delayed_by).await;
        }
        if self.lock().run == run {
            Ok(reply.response)
        } else {
            Err(Broken::Reset)
        }
    }

    fn loses_answer(&self) -> bool {
        let mut state = self.lock();
        state
            .faults
            .strikes_as(FaultKind::LoseAnswer, Instant::now())
    }

    async fn delay(&self) {
        let delay = {
            let mut state = self.lock();
            let longest = state.options.latency;
            if longest.is_zero() {
                return;
            }
            state.random.random_range(Duration::ZERO..=longest)
        };
        sleep(delay).await;
    }

    fn disruption(&self, request: &Request<Bytes>, target: Option<&Target>) -> Option<Disruption> {
        let mut state = self.lock();
        if state.faults.is_empty() {
            return None;
        }
        let is_collection =
            request.method() == Method::GET && target.is_some_and(|target| target.name.is_none());
        let is_watch = is_collection && Parameters::of(request.uri()).is_true("watch");
        let fault = state.faults.strike(Instant::now(), |fault| match fault {
            Fault::Forbidden(resource) => target.is_some_and(|target| target.resource == *resource),
            Fault::ExpireWatch => is_watch,
            _ => Disruption::of(fault).is_some(),
        })?;
        Disruption::of(&fault)
    }

    fn handle(&self, target: Target, request: &Request<Bytes>) -> Result<Reply, Status> {
        let parameters = Parameters::of(request.uri());
        let verb = Verb::of(request.method(), &target, &parameters)?;
        let mut state = self.lock();
        if verb == Verb::Create && reviews::is_review(&target) {
            return reviews::answer(&state, request.body()).map(Reply::from);
        }
        let resource = state.etcd.table(&target.resource)?.resource.clone();
        let object_request = ObjectRequest::new(target, &resource, request.headers(), parameters)?;
        if object_request.is_status && !state.has_status(&object_request.resource) {
            return Err(Status::not_served());
        }
        if let Some(observer) = state.observer.clone()
            && !matches!(verb, Verb::Get | Verb::List | Verb::Watch)
        {
            return observed(&mut state, &observer, verb, &object_request, request);
        }
        match verb {
            Verb::Get => get(&state, &object_request).map(Reply::from),
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
                write(&mut state, verb, &object_request, request).map(Reply::from)
            }
            Verb::Watch => Watch::open(self.clone(), &mut state, object_request)
                .map(|watch| watch.response().into()),
            Verb::List => {
                let listing = state.listing(object_request)?;
                let State { etcd, counts, .. } = &mut *state;
                let page = listing.collect(etcd, counts)?;
                drop(state);
                Ok(self.deliver(page))
            }
        }
    }
}

impl Server {
    /// Returns the response with a list page, complete or truncated. Rendering is the slowest part
    /// and needs no lock.
    fn deliver(&self, page: Page) -> Reply {
        let (delayed_by, is_cut) = self.lock().list_faults();
        let response = if is_cut {
            let text = Bytes::from(page.render());
            let mut state = self.lock();
            let length = state.random.random_range(0..text.len().max(1));
            body::json_of(body::cut(&text, length, state.ending()))
        } else if page.is_large() {
            let chunks = page.into_chunks().map(|chunk| Ok(Bytes::from(chunk)));
            let mut response = body::json_of(body::streamed(stream::iter(chunks)));
            response.extensions_mut().insert(Compressible);
            response
        } else {
            body::json(200, page.render().into())
        };
        Reply {
            response,
            delayed_by,
        }
    }
}

fn write(
    state: &mut State,
    verb: Verb,
    object_request: &ObjectRequest,
    request: &Request<Bytes>,
) -> Result<Response<Body>, Status> {
    let body = request.body();
    match verb {
        Verb::Create => write::create(state, object_request, body),
        Verb::Update => write::update(state, object_request, body),
        Verb::Patch => patch::patch(state, object_request, request.headers(), body),
        _ => write::delete(state, object_request, body),
    }
}

/// Writes, and tells the observer.
fn observed(
    state: &mut State,
    observer: &Observer,
    verb: Verb,
    object_request: &ObjectRequest,
    request: &Request<Bytes>,
) -> Result<Reply, Status> {
    let resource = &object_request.resource;
    let namespace = object_request.namespace.as_deref();
    let name = match &object_request.name {
        Some(name) => name.clone(),
        None => write::name_in(request.body()),
    };
    let before = state.object(resource, namespace, &name)?;
    let response = write(state, verb, object_request, request)?;
    let after = state.object(resource, namespace, &name)?;
    let agent = request.headers().get(http::header::USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok());
    (observer.0)(&ClientWrite {
        agent: agent.unwrap_or_default().to_owned(),
        method: request.method().to_string(),
        resource: resource.to_string(),
        subresource: if object_request.is_status {
            "status".to_owned()
        } else {
            String::new()
        },
        namespace: namespace.unwrap_or_default().to_owned(),
        name,
        before,
        after,
    });
    Ok(response.into())
}

fn get(state: &State, object_request: &ObjectRequest) -> Result<Response<Body>, Status> {
    let table = state.etcd.table(&object_request.resource)?;
    let name = object_request.name.as_deref().unwrap_or_default();
    let (revision, object) = table
        .get(&object_request.key())
        .ok_or_else(|| Status::not_found(&object_request.resource, name))?;
    Ok(object_response(200, &object_request.form, object, revision))
}

impl State {
    fn listing(&mut self, object_request: ObjectRequest) -> Result<Listing, Status> {
        let listing = Listing::new(object_request, &self.etcd, self.options.largest_page)?;
        if listing.is_continued
            && self
                .faults
                .strikes_as(FaultKind::ExpireContinue, Instant::now())
        {
            return Err(listing.expired());
        }
        Ok(listing)
    }

    /// Returns the delay of a list page, and whether it is truncated.
    fn list_faults(&mut self) -> (Duration, bool) {
        let now = Instant::now();
        let delayed_by = match self
            .faults
            .strike(now, |fault| fault.kind() == FaultKind::SlowList)
        {
            Some(Fault::SlowList(by)) => by,
            _ => Duration::ZERO,
        };
        (delayed_by, self.faults.strikes_as(FaultKind::CutList, now))
    }

    pub(super) fn ending(&mut self) -> Ending {
        if self.random.random_bool(0.5) {
            Ending::Reset
        } else {
            Ending::Clean
        }
    }
}

/// What a fault does to a request before the server handles it.
enum Disruption {
    Refused,
    Hangs,
    Respond(Box<Response<Body>>),
}

impl Disruption {
    fn of(fault: &Fault) -> Option<Self> {
        let response = match fault {
            Fault::Refuse => return Some(Self::Refused),
            Fault::Hang => return Some(Self::Hangs),
            Fault::Throttle(Some(seconds)) => Status::throttled(*seconds).response(),
            Fault::Throttle(None) => plain(429, "Too many requests, please try again later.\n"),
            Fault::InternalError => Status::internal().response(),
            Fault::Unavailable => plain(503, "no healthy upstream"),
            Fault::Timeout => Status::timeout().response(),
            Fault::Unauthorized => Status::unauthorized().response(),
            Fault::Forbidden(resource) => Status::forbidden(resource).response(),
            Fault::ExpireWatch => {
                Status::expired("The resourceVersion for the provided watch is too old.").response()
            }
            _ => return None,
        };
        Some(Self::Respond(Box::new(response)))
    }
}
