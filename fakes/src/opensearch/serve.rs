//! Serves the server over HTTP/1.1, for separate processes.

use std::io;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, header::CONTENT_TYPE, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tower::{BoxError, ServiceExt};

use super::server::OpenSearch;

/// Serves on a listener until the future is dropped or accepting fails.
pub async fn serve(listener: TcpListener, server: OpenSearch) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // The task is detached; it ends with its connection.
        tokio::spawn(connection(stream, server.clone()));
    }
}

async fn connection(stream: TcpStream, server: OpenSearch) {
    let service = service_fn(|request| respond(server.clone(), request));
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection failed");
    }
}

/// A fault of the transport ends the connection.
async fn respond(
    server: OpenSearch,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let response = server
        .service()
        .oneshot(Request::from_parts(head, body))
        .await?;
    let (mut head, body) = response.into_parts();
    head.headers.insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("application/json; charset=UTF-8"),
    );
    Ok(Response::from_parts(head, Full::new(body)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn requests_over_a_socket_are_answered_as_by_the_service() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let server = OpenSearch::new(1);
        let serving = tokio::spawn(serve(listener, server.clone()));
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut received = String::new();
        stream.read_to_string(&mut received).await.unwrap();
        serving.abort();
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        let request = Request::get("/").body(Bytes::new()).unwrap();
        let direct = server.service().oneshot(request).await.unwrap();
        let status = format!("HTTP/1.1 {}", direct.status().as_u16());
        assert!(head.starts_with(&status), "{head}");
        assert_eq!(body.as_bytes(), &direct.body()[..]);
    }
}
