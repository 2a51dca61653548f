//! A timeout for every request with a finite response.

use std::time::Duration;

use http::{Method, Request, Response, header::UPGRADE};
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

/// A request timed out.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path} was not answered within {limit:?}")]
pub struct RequestTimedOut {
    method: Method,
    path: String,
    limit: Duration,
}

/// Returns a client whose requests fail if the whole response has not been received within `limit`.
/// Watches, followed logs and upgraded connections have no timeout.
pub fn with_request_timeout(client: Client, limit: Duration) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if is_long_running(&request) {
                return Ok::<_, BoxError>(client.send(request).await?);
            }
            let late = RequestTimedOut {
                method: request.method().clone(),
                path: request.uri().path().to_owned(),
                limit,
            };
            match tokio::time::timeout(limit, whole(&client, request)).await {
                Ok(response) => response,
                Err(_) => Err(late.into()),
            }
        }
    });
    Client::new(service, namespace)
}

async fn whole(client: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let (head, body) = client.send(request).await?.into_parts();
    let bytes = body.collect_bytes().await?;
    Ok(Response::from_parts(head, Body::from(bytes)))
}

fn is_long_running(request: &Request<Body>) -> bool {
    let parameters = request.uri().query().unwrap_or_default().split('&');
    let mut endless = parameters
        .filter(|text| matches!(*text, "watch=true" | "watch=1" | "follow=true" | "follow=1"));
    endless.next().is_some() || request.headers().contains_key(UPGRADE)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::time::Instant;

    use super::*;

    /// Answers at once, but the body comes only in part.
    fn stuck() -> Client {
        let service = service_fn(|_: Request<Body>| async {
            let part = stream::iter([Ok::<_, Infallible>(Frame::data(bytes::Bytes::from_static(
                b"{",
            )))]);
            let body = StreamBody::new(futures::StreamExt::chain(part, stream::pending()));
            Ok::<_, BoxError>(Response::new(body))
        });
        with_request_timeout(Client::new(service, "team"), Duration::from_secs(10))
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_stops_half_way_times_out() {
        let started = Instant::now();
        let request = Request::get("/api/v1/nodes?limit=5")
            .body(Body::empty())
            .unwrap();
        let error = stuck().send(request).await.err().unwrap();
        assert!(
            fleetdex_clusters::request::causes(&error)
                .contains("GET /api/v1/nodes was not answered within 10s"),
            "{error}"
        );
        assert_eq!(
            (started.elapsed().as_secs(), stuck().default_namespace()),
            (10, "team")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn endless_responses_have_no_timeout() {
        for uri in [
            "/api/v1/nodes?watch=true",
            "/api/v1/nodes?limit=1&watch=1",
            "/api/v1/namespaces/a/pods/b/log?follow=true",
        ] {
            let request = Request::get(uri).body(Body::empty()).unwrap();
            assert!(stuck().send(request).await.is_ok(), "{uri}");
        }
    }
}
