//! Serves the server over HTTP/1.1, and over HTTP/2 where TLS negotiates that, for separate
//! processes.
//!
//! Besides the API there is `/churn`: `GET` returns the totals of the writes. `POST ?rate=<n>` sets
//! the writes per second (0 stops) and returns the totals until then. `GET /churn/moments` returns
//! revision and time of each write since.

use std::io;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tower::{ServiceBuilder, service_fn};
use tower_http::{CompressionLevel, compression::CompressionLayer};

use super::{
    Server,
    body::{self, Body, Compressible},
    churn::Churn,
    request::Parameters,
    status::Status,
};

/// A body with an error type that the compression layer accepts.
type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// As kube-apiserver, which takes the default of Go.
const MAX_STREAMS: u32 = 100;

/// Serves on a listener until the future is dropped or accepting fails. `tls`: over TLS, with the
/// protocols that it offers.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    server: Server,
    churn: Churn,
) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (tls, server, churn) = (tls.clone(), server.clone(), churn.clone());
        // The task is detached; it ends with its connection.
        tokio::spawn(async move {
            let Some(tls) = tls else {
                return connection(stream, false, server, churn).await;
            };
            match tls.accept(stream).await {
                Ok(stream) => {
                    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    connection(stream, is_http2, server, churn).await;
                }
                Err(error) => tracing::debug!(%error, "TLS failed"),
            }
        });
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    is_http2: bool,
    server: Server,
    churn: Churn,
) {
    // As an API server: compresses only large lists, at the fastest level.
    let compression = CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(
            |_: http::StatusCode,
             _: http::Version,
             _: &http::HeaderMap,
             extensions: &http::Extensions| {
                extensions.get::<Compressible>().is_some()
            },
        );
    let service = ServiceBuilder::new().layer(compression).service(service_fn(
        move |request: Request<Incoming>| {
            let (server, churn) = (server.clone(), churn.clone());
            async move { respond(&server, &churn, request).await }
        },
    ));
    let (stream, service) = (TokioIo::new(stream), TowerToHyperService::new(service));
    let served = if is_http2 {
        http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(MAX_STREAMS)
            .serve_connection(stream, service)
            .await
    } else {
        http1::Builder::new()
            .serve_connection(stream, service)
            .await
    };
    if let Err(error) = served {
        tracing::debug!(%error, "connection failed");
    }
}

async fn respond(
    server: &Server,
    churn: &Churn,
    request: Request<Incoming>,
) -> io::Result<Response<ResponseBody>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?;
    let request = Request::from_parts(head, body.to_bytes());
    let response = match request.uri().path() {
        "/churn" => churn_response(churn, &request).unwrap_or_else(|status| status.response()),
        "/churn/moments" => {
            json_response(&churn.moments()).unwrap_or_else(|status| status.response())
        }
        _ => server.respond(request).await.map_err(io::Error::other)?,
    };
    Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
}

fn churn_response(churn: &Churn, request: &Request<Bytes>) -> Result<Response<Body>, Status> {
    let totals = if request.method() == Method::POST {
        let rate = Parameters::of(request.uri())
            .number("rate")?
            .and_then(|rate| u32::try_from(rate).ok());
        churn.set_rate(
            rate.ok_or_else(|| Status::bad_request("rate: the writes per second are missing"))?,
        )
    } else {
        churn.totals()
    };
    json_response(&totals)
}

fn json_response(value: &impl Serialize) -> Result<Response<Body>, Status> {
    let json = serde_json::to_vec(value).map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(body::json(200, json.into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetdex_clusters::{
        bearer::Bearer,
        connect::{Connect, Network},
        credentials::Credentials,
        member::{Member, MemberAccess},
    };
    use fleetdex_crds::cluster::{Cluster, LocalSecretReference};
    use k8s_openapi::api::core::v1::{Pod, Secret};
    use kube::{Api, api::ListParams};
    use serde_json::json;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;
    use crate::apiserver::{Extent, Fault, Options};

    /// Returns everything that a server sends on one connection.
    async fn exchange(faults: &[Fault], request: &str) -> String {
        let server = Server::new(Options::new(1));
        let churn = Churn::fill(&server, 100, 1).unwrap();
        for fault in faults {
            server.inject(fault.clone(), Extent::Times(1));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let serving = tokio::spawn(serve(listener, None, server, churn));
        stream
            .write_all(
                format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes(),
            )
            .await
            .unwrap();
        let mut received = Vec::new();
        tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut received))
            .await
            .unwrap()
            .unwrap();
        serving.abort();
        // One character per byte, as the response may be compressed.
        received
            .iter()
            .map(|byte| {
                if byte.is_ascii() {
                    char::from(*byte)
                } else {
                    '?'
                }
            })
            .collect()
    }

    #[tokio::test]
    async fn large_lists_are_compressed_on_request_and_watches_never() {
        let gzip = "HTTP/1.1\r\naccept-encoding: gzip\r\nx: ";
        let list = exchange(&[], &format!("GET /api/v1/pods {gzip}")).await;
        assert!(
            list.contains("content-encoding: gzip") && list.len() < 200_000,
            "{} bytes",
            list.len()
        );
        let list = exchange(&[], "GET /api/v1/pods").await;
        assert!(
            !list.contains("content-encoding") && list.len() > 450_000,
            "{} bytes",
            list.len()
        );
        let watch = exchange(
            &[],
            &format!("GET /api/v1/pods?watch=1&resourceVersion=500&timeoutSeconds=1 {gzip}"),
        )
        .await;
        assert!(
            watch.starts_with("HTTP/1.1 200") && !watch.contains("content-encoding"),
            "{watch}"
        );
    }

    #[tokio::test]
    async fn a_refused_connection_is_closed_without_a_response() {
        assert_eq!(exchange(&[Fault::Refuse], "GET /readyz").await, "");
    }

    #[tokio::test]
    async fn the_churn_rate_can_be_set_and_read() {
        let response = exchange(&[], "POST /churn?rate=7").await;
        assert!(
            response.starts_with("HTTP/1.1 200") && response.contains(r#""pods":100"#),
            "{response}"
        );
        assert!(
            exchange(&[], "POST /churn?rate=many")
                .await
                .starts_with("HTTP/1.1 400")
        );
        assert!(exchange(&[], "GET /churn/moments").await.ends_with("[]"));
    }

    #[tokio::test]
    async fn fleetdex_connects_to_it_as_a_member() {
        let server = Server::new(Options::new(1));
        let churn = Churn::fill(&server, 3, 1).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(serve(listener, None, server, churn));
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": { "name": "fake" },
            "spec": { "apiEndpoint": url, "insecureSkipTLSVerification": true },
        }))
        .unwrap();
        let secret: Secret =
            serde_json::from_value(json!({ "data": { "token": "dG9rZW4=" } })).unwrap();
        let reference = LocalSecretReference {
            namespace: "fleet".into(),
            name: "fake".into(),
        };
        let member = Member::try_from(&cluster).unwrap();
        let MemberAccess::Endpoint(endpoint) = &member.access else {
            panic!("{:?}", member.access)
        };
        let credentials = Credentials::from_secret(endpoint, &reference, &secret).unwrap();
        let client = Network::default()
            .connect(&member, &credentials, &Bearer::new(Some("token")))
            .await
            .unwrap();
        let pods: Api<Pod> = Api::all(client);
        assert_eq!(
            pods.list(&ListParams::default().limit(2))
                .await
                .unwrap()
                .metadata
                .remaining_item_count,
            Some(1)
        );
        serving.abort();
    }
}
