//! Clients against local listeners: what is sent on the wire.

use fleetdex_core::model::{Gvk, Resource, Scope};
use fleetdex_limits::intake::MemoryLimits;
use http::{Method, Request};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use kube::client::Body;

use super::*;
use crate::{
    credentials::Password,
    member::{ApiServerEndpoint, MemberAccess},
    request,
    watch::{Collection, FaultKind, ListerWatcher},
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn member() -> Member {
    Member {
        name: "a".parse().unwrap(),
        uid: String::new(),
        generation: None,
        labels: std::collections::BTreeMap::new(),
        provider: None,
        region: None,
        zones: Vec::new(),
        origin: "Cluster a".to_owned(),
        created: None,
        access: MemberAccess::Endpoint(ApiServerEndpoint::default()),
    }
}

fn credentials(endpoint: ApiServerEndpoint) -> Credentials {
    Credentials {
        server: endpoint.url,
        token: Some("hunter2".into()),
        trust: ServerTrust::Insecure,
        proxy_url: endpoint.proxy_url,
        proxy_header: endpoint.proxy_header,
        ..Credentials::default()
    }
}

async fn connect(credentials: &Credentials) -> Result<Client, ConnectError> {
    let bearer = Bearer::new(credentials.token.as_deref());
    Network::default()
        .connect(&member(), credentials, &bearer)
        .await
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Reads the head of a request, up to the empty line.
async fn head(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(read).unwrap().to_lowercase()
}

/// Answers one request, and returns its head.
async fn answered_once(listener: &TcpListener, answer: &[u8]) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let request = head(&mut stream).await;
    stream.write_all(answer).await.unwrap();
    request
}

fn at(url: String) -> ApiServerEndpoint {
    ApiServerEndpoint {
        url,
        ..ApiServerEndpoint::default()
    }
}

fn behind(proxy_url: String) -> ApiServerEndpoint {
    ApiServerEndpoint {
        proxy_url: Some(proxy_url),
        ..at("http://member.example:6443".into())
    }
}

/// Connects to `endpoint`, requests `/readyz`, and returns the text of the response.
async fn ask(endpoint: ApiServerEndpoint) -> Result<String, kube::Error> {
    let client = connect(&credentials(endpoint)).await.unwrap();
    let request = Request::builder()
        .method(Method::GET)
        .uri("/readyz")
        .body(Body::empty())
        .unwrap();
    let response = client.send(request).await?;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_request_carries_the_token_and_the_user_agent() {
    let (listener, address) = listener().await;
    let server = answered_once(&listener, ANSWER);
    let endpoint = at(format!("http://{address}/clusters/a/"));
    let (request, answer) = tokio::join!(server, ask(endpoint));
    assert!(
        request.starts_with("get /clusters/a/readyz http/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("authorization: bearer hunter2\r\n"),
        "{request}"
    );
    assert!(
        request.contains(&format!("user-agent: {AGENT}\r\n")),
        "{request}"
    );
    assert!(request.contains("accept-encoding: gzip\r\n"), "{request}");
    assert_eq!(answer.unwrap(), "ok");
}

#[tokio::test]
async fn a_kubeconfig_can_impersonate_and_use_a_password() {
    let (listener, address) = listener().await;
    let server = answered_once(&listener, ANSWER);
    let impersonation = Impersonation {
        user: Some("alice".into()),
        uid: Some("7".into()),
        groups: vec!["dev".into(), "ops".into()],
        extra: [("scopes".to_owned(), vec!["view".to_owned()])].into(),
    };
    let password = Some(Password {
        user: "root".into(),
        password: "hunter2".into(),
    });
    let credentials = Credentials {
        server: format!("http://{address}"),
        trust: ServerTrust::System,
        impersonation,
        password,
        ..Credentials::default()
    };
    let client = connect(&credentials).await.unwrap();
    let request = Request::builder()
        .uri("/readyz")
        .body(Body::empty())
        .unwrap();
    let (request, answer) = tokio::join!(server, client.send(request));
    assert!(answer.unwrap().status().is_success());
    assert!(request.contains("authorization: basic "), "{request}");
    for header in [
        "user: alice",
        "uid: 7",
        "group: dev",
        "group: ops",
        "extra-scopes: view",
    ] {
        assert!(
            request.contains(&format!("impersonate-{header}\r\n")),
            "{header} in {request}"
        );
    }
}

#[tokio::test]
async fn checklist_49_the_next_request_of_a_client_carries_the_replaced_token() {
    let (listener, address) = listener().await;
    let credentials = credentials(at(format!("http://{address}")));
    let bearer = Bearer::new(credentials.token.as_deref());
    let client = Network::default()
        .connect(&member(), &credentials, &bearer)
        .await
        .unwrap();
    let server = async {
        // A single connection, which stays open.
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut requests = Vec::new();
        for _ in 0..2 {
            requests.push(head(&mut stream).await);
            stream.write_all(ANSWER).await.unwrap();
        }
        requests
    };
    let asker = async {
        for token in ["hunter2", "correct-horse"] {
            bearer.replace(Some(token));
            let request = Request::get("/readyz").body(Body::empty()).unwrap();
            client
                .send(request)
                .await
                .unwrap()
                .into_body()
                .collect()
                .await
                .unwrap();
        }
    };
    let (requests, ()) = tokio::join!(server, asker);
    assert!(
        requests[0].contains("authorization: bearer hunter2\r\n"),
        "{}",
        requests[0]
    );
    assert!(
        requests[1].contains("authorization: bearer correct-horse\r\n"),
        "{}",
        requests[1]
    );
    let config = rest_config(&credentials, &bearer).unwrap();
    let token = config.auth_info.token.unwrap();
    assert_eq!(
        secrecy::ExposeSecret::expose_secret(&token),
        "correct-horse"
    );
}

#[tokio::test]
async fn proxy_headers_are_sent_only_with_connect() {
    let (listener, address) = listener().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let tunnel = head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let request = head(&mut stream).await;
        stream.write_all(ANSWER).await.unwrap();
        (tunnel, request)
    };
    let endpoint = ApiServerEndpoint {
        proxy_header: [("X-Tenant".to_owned(), "red,blue".to_owned())].into(),
        ..behind(format!("http://user:word@{address}"))
    };
    let ((tunnel, request), answer) = tokio::join!(server, ask(endpoint));
    assert!(
        tunnel.starts_with("connect member.example:6443 http/1.1\r\n"),
        "{tunnel}"
    );
    assert!(
        tunnel.contains("x-tenant: red\r\nx-tenant: blue\r\n"),
        "{tunnel}"
    );
    assert!(
        tunnel.contains("proxy-authorization: basic dxnlcjp3b3jk\r\n"),
        "{tunnel}"
    );
    assert!(!tunnel.contains("hunter2"), "{tunnel}");
    assert!(
        request.contains("bearer hunter2") && !request.contains("x-tenant"),
        "{request}"
    );
    assert!(!request.contains("proxy-authorization"), "{request}");
    assert_eq!(answer.unwrap(), "ok");
}

#[tokio::test]
async fn a_socks_proxy_resolves_the_members_name() {
    let (listener, address) = listener().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut greeting = [0; 3];
        stream.read_exact(&mut greeting).await.unwrap();
        stream.write_all(&[5, 0]).await.unwrap();
        let mut target = vec![0; 5 + "member.example".len() + 2];
        stream.read_exact(&mut target).await.unwrap();
        stream
            .write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 80])
            .await
            .unwrap();
        let request = head(&mut stream).await;
        stream.write_all(ANSWER).await.unwrap();
        (target, request)
    };
    let endpoint = behind(format!("socks5://{address}"));
    let ((target, request), answer) = tokio::join!(server, ask(endpoint));
    assert_eq!(&target[5..19], b"member.example");
    assert!(request.contains("bearer hunter2"), "{request}");
    assert_eq!(answer.unwrap(), "ok");
}

#[tokio::test]
async fn the_client_does_not_retry_a_busy_member_by_itself() {
    let (listener, address) = listener().await;
    let busy = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\ncontent-length: 4\r\n\r\nbusy";
    let server = answered_once(&listener, busy);
    let endpoint = at(format!("http://{address}"));
    let (_, answer) = tokio::join!(server, ask(endpoint));
    assert_eq!(answer.unwrap(), "busy");
}

#[tokio::test]
async fn a_refusal_by_the_proxy_is_distinguished_from_one_by_the_member() {
    let (listener, address) = listener().await;
    let server = answered_once(
        &listener,
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
    );
    let endpoint = behind(format!("http://{address}"));
    let (_, answer) = tokio::join!(server, ask(endpoint));
    let causes = crate::request::causes(&answer.unwrap_err());
    assert!(causes.contains("proxy authorization required"), "{causes}");
}

#[tokio::test]
async fn a_member_without_a_usable_address_is_refused_with_advice() {
    for (url, reason) in [
        ("", "EndpointMissing"),
        ("10.0.0.1:6443", "EndpointInvalid"),
        ("ftp://a", "EndpointInvalid"),
        ("https://user:hunter2@a", "EndpointInvalid"),
        ("https://a?x=y", "EndpointInvalid"),
        ("https://a b", "EndpointInvalid"),
    ] {
        let endpoint = at(url.into());
        let error = connect(&credentials(endpoint)).await.err().unwrap();
        assert_eq!(error.reason(), reason, "{url}");
        assert!(error.to_string().contains("https://"), "{error}");
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
}

/// Answers the first request of every connection with this head, and then repeats this text as
/// long as the client reads.
async fn answering(head_lines: &'static str, text: Vec<u8>, times: usize) -> String {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let text = text.clone();
            tokio::spawn(async move {
                head(&mut stream).await;
                stream.write_all(head_lines.as_bytes()).await.unwrap();
                for _ in 0..times {
                    // The client disconnects before the end.
                    if stream.write_all(&text).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn gzip_bombs_and_endless_responses_stay_within_the_budget() {
    const MIB: usize = 1 << 20;
    let limits = MemoryLimits {
        page: MIB,
        line: MIB,
        answer: MIB,
        refusal: 1_000,
        small: 0,
        request: 0,
        share: 4 * MIB,
        shared: 4 * MIB,
    };
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packer, &vec![b' '; 64 * MIB]).unwrap();
    let bomb = packer.finish().unwrap();
    assert!(bomb.len() < MIB / 10);
    let chunk = [b"10000\r\n", &vec![b' '; 1 << 16][..], b"\r\n"].concat();
    let packed = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let refusal = "HTTP/1.1 503 Unavailable\r\ntransfer-encoding: chunked\r\n\r\n";
    let timeout = Duration::from_mins(1);
    for (head_lines, text, times) in [
        (packed, bomb, 1),
        (endless, chunk.clone(), usize::MAX),
        (refusal, chunk, usize::MAX),
    ] {
        let address = answering(head_lines, text, times).await;
        let budget = Budget::new(limits);
        let credentials = credentials(at(format!("http://{address}")));
        let network = Network {
            budget: budget.clone(),
            ..Network::default()
        };
        let client = network
            .connect(&member(), &credentials, &Bearer::new(None))
            .await
            .unwrap();
        let resource = Resource {
            gvk: Gvk::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced: true,
        };
        let collection = Collection {
            resource,
            scope: Scope::All,
            label_selector: None,
            field_selector: None,
        };
        let is_refusal = head_lines.contains("503");
        let listed = ListerWatcher::new(client.clone(), collection)
            .list(None, Some(500))
            .await
            .unwrap_err();
        assert_eq!(
            listed.kind,
            if is_refusal {
                FaultKind::Server
            } else {
                FaultKind::TooLarge
            },
            "{listed}"
        );
        let asked = request::get(&client, "/version", http::HeaderMap::new(), timeout)
            .await
            .unwrap_err();
        assert_eq!(
            asked.reason(),
            if is_refusal {
                "NotReady"
            } else {
                "AnswerTooLarge"
            },
            "{asked}"
        );
        assert_eq!(budget.held(), 0);
        assert!(budget.peak() <= 2 * MIB, "{}", budget.peak());
    }
}

/// The fault of a member at this scheme whose server answers the first bytes so.
async fn fault_of(scheme: &str, answer: &'static [u8]) -> String {
    let (listener, address) = listener().await;
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _asked = stream.read(&mut vec![0; 8 << 10]).await;
            let _closed = stream.write_all(answer).await;
        }
    });
    let server = format!("{scheme}://{address}");
    let credentials = credentials(at(server.clone()));
    let client = connect(&credentials).await.unwrap();
    let timeout = Duration::from_secs(5);
    let asked = request::get(&client, "/readyz", http::HeaderMap::new(), timeout).await;
    serving.abort();
    let access = member().access;
    let fault = crate::advice::fault(&asked.unwrap_err(), &server, &access);
    assert_eq!(fault.reason, "Unreachable");
    fault.message.replace(&address, "MEMBER")
}

#[tokio::test]
async fn the_scheme_of_an_address_must_be_that_of_its_port() {
    const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    // The record of an alert.
    const ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 80];
    const GO: &[u8] =
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    for (scheme, answer, expected) in [
        (
            "https",
            BAD_REQUEST,
            "the API server does not speak TLS on this port. Name its port for TLS in spec.apiEndpoint, or write http:// there",
        ),
        (
            "http",
            ALERT,
            "the API server does not answer in HTTP. If this port expects TLS, write https:// in spec.apiEndpoint",
        ),
        (
            "http",
            GO,
            "the API server expects TLS on this port. Write https:// in spec.apiEndpoint",
        ),
    ] {
        let expected = format!("{scheme}://MEMBER: GET /readyz did not get through: {expected}");
        assert_eq!(fault_of(scheme, answer).await, expected);
    }
}
