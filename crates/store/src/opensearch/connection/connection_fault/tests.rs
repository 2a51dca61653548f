use std::sync::Arc;

use http::Request;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use crate::opensearch::{Authentication, Settings, connect};

/// An authority, and a key pair that it has signed.
struct Signed {
    authority: String,
    server: Arc<ServerConfig>,
}

fn signed(name: &str, first_year: i32, last_year: i32) -> Signed {
    let _first = aws_lc_rs::default_provider().install_default();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(first_year, 1, 1);
    params.not_after = date_time_ymd(last_year, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    Signed {
        authority: pem,
        server: Arc::new(server),
    }
}

/// What a request to this address fails with.
async fn failure(address: String, ca_bundle: Option<&str>) -> String {
    let settings = Settings {
        addresses: vec![address],
        authentication: Authentication::None,
        client_certificate: None,
        ca_bundle: ca_bundle.map(|pem| pem.as_bytes().to_vec()),
        insecure: false,
        proxy: None,
    };
    let request = Request::builder().uri("/").body(bytes::Bytes::new());
    let answer = connect(&settings).unwrap().oneshot(request.unwrap()).await;
    answer.unwrap_err().to_string()
}

/// What a request fails with to a server that has this certificate; its address is `NODE` there.
async fn tls_failure(signed: &Signed, is_trusted: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = listener.local_addr().unwrap().to_string();
    let acceptor = TlsAcceptor::from(Arc::clone(&signed.server));
    let serving = async move {
        let (stream, _) = listener.accept().await.unwrap();
        let _refused = acceptor.accept(stream).await;
    };
    let ca_bundle = is_trusted.then_some(signed.authority.as_str());
    let asking = failure(format!("https://{node}"), ca_bundle);
    let (failure, ()) = tokio::join!(asking, serving);
    failure.replace(&node, "NODE")
}

#[tokio::test]
async fn an_authority_that_is_not_trusted_is_put_into_the_ca_bundle() {
    let signed = signed("127.0.0.1", 2020, 2060);
    assert_eq!(
        tls_failure(&signed, false).await,
        "https://NODE: the certificate of NODE is signed by an authority that is not trusted here: \
         set backendStore.openSearch.caBundle to the PEM certificate of that authority"
    );
}

#[tokio::test]
async fn a_certificate_out_of_date_is_shown_with_its_date() {
    let expired = tls_failure(&signed("127.0.0.1", 2020, 2021), true).await;
    assert_eq!(
        expired,
        "https://NODE: the certificate of NODE expired at 2021-01-01T00:00:00Z: \
         renew it on the nodes of OpenSearch"
    );
    let early = tls_failure(&signed("127.0.0.1", 2060, 2061), true).await;
    assert_eq!(
        early,
        "https://NODE: the certificate of NODE is not valid before 2060-01-01T00:00:00Z: \
         check the clocks of this machine and of the one that issued it, or wait"
    );
}

#[tokio::test]
async fn a_certificate_for_another_name_is_shown_with_its_names() {
    let other = tls_failure(&signed("search.example.com", 2020, 2060), true).await;
    assert_eq!(
        other,
        "https://NODE: the certificate of NODE is not valid for 127.0.0.1, only for search.example.com: \
         use a name that it has in backendStore.openSearch.addresses, or issue one that has this name as a subjectAltName"
    );
}

/// What a request to this scheme fails with if the server answers its first bytes so.
async fn plain_failure(scheme: &str, answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = listener.local_addr().unwrap().to_string();
    let serving = async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _asked = stream.read(&mut vec![0; 8 << 10]).await.unwrap();
        stream.write_all(answer).await.unwrap();
    };
    let asking = failure(format!("{scheme}://{node}"), None);
    let (failure, ()) = tokio::join!(asking, serving);
    failure.replace(&node, "NODE")
}

#[tokio::test]
async fn the_scheme_of_an_address_must_be_that_of_its_port() {
    const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    // The record of an alert.
    const ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 80];
    const GO: &[u8] =
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let to_http = "write http:// in backendStore.openSearch.addresses";
    let to_https = "write https:// in backendStore.openSearch.addresses";
    for (scheme, answer, expected) in [
        (
            "https",
            BAD_REQUEST,
            format!(
                "NODE does not speak TLS on this port: {to_http}, or enable TLS for HTTP in OpenSearch"
            ),
        ),
        (
            "https",
            b"",
            format!(
                "NODE closed the connection during the TLS handshake: if this port does not speak TLS, {to_http}"
            ),
        ),
        (
            "http",
            ALERT,
            format!("NODE does not answer in HTTP: if this port expects TLS, {to_https}"),
        ),
        (
            "http",
            b"",
            format!(
                "NODE closed the connection without an answer: if this port expects TLS, {to_https}"
            ),
        ),
        (
            "http",
            GO,
            format!("NODE expects TLS on this port: {to_https}"),
        ),
    ] {
        let failure = plain_failure(scheme, answer).await;
        assert_eq!(failure, format!("{scheme}://NODE: {expected}"));
    }
}
