//! Signatures against a second implementation, which is checked with vectors that AWS has
//! published; and every source of credentials.

use std::{collections::HashMap, sync::Arc};

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{Response, StatusCode};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use reqsign_core::{FileRead, HttpSend, StaticEnv};

use super::*;

/// Keys of AWS's examples.
const KEY_ID: &str = "AKIDEXAMPLE";
const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A request as it is sent.
struct Sent<'s> {
    method: &'s str,
    path: &'s str,
    query: &'s str,
    /// The signed headers, in order.
    headers: Vec<(&'s str, &'s str)>,
    body_hash: &'s str,
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn encoded(text: &str, set: &'static AsciiSet) -> String {
    utf8_percent_encode(text, set).to_string()
}

/// The steps of AWS's description, for every service but S3.
fn signature(sent: &Sent<'_>, date: &str, region: &str, service: &str) -> String {
    const VALUE: &AsciiSet = &PATH.add(b'/');
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let mut parameters: Vec<String> = sent
        .query
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
        .map(|(key, value)| {
            let [key, value] = [key, value].map(|text| encoded(&decoded(text), VALUE));
            format!("{key}={value}")
        })
        .collect();
    parameters.sort();
    let names: Vec<&str> = sent.headers.iter().map(|(name, _)| *name).collect();
    let mut headers = String::new();
    for (name, value) in &sent.headers {
        headers.extend([name, ":", value, "\n"]);
    }
    let canonical = [
        sent.method,
        &encoded(sent.path, PATH),
        &parameters.join("&"),
        &headers,
        &names.join(";"),
        sent.body_hash,
    ]
    .join("\n");
    let scope = format!("{}/{region}/{service}/aws4_request", &date[..8]);
    let canonical_hash = hex(&Sha256::digest(canonical));
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{canonical_hash}");
    let mut key = format!("AWS4{SECRET_KEY}").into_bytes();
    for part in [&date[..8], region, service, "aws4_request"] {
        key = mac(&key, part);
    }
    hex(&mac(&key, &to_sign))
}

/// Source:
/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html> and
/// the test suite that AWS has published with it, `aws-sig-v4-test-suite`.
#[test]
fn the_second_implementation_agrees_with_the_vectors_of_aws() {
    const DATE: &str = "20150830T123600Z";
    let host = ("host", "example.amazonaws.com");
    let date = ("x-amz-date", DATE);
    let form = ("content-type", "application/x-www-form-urlencoded");
    let body_hash = hex(&Sha256::digest("Param1=value1"));
    let sent = |method, path, query| Sent {
        method,
        path,
        query,
        headers: vec![host, date],
        body_hash: EMPTY,
    };
    for (name, request, expected) in [
        (
            "get-vanilla",
            sent("GET", "/", ""),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            "get-vanilla-query-order-key-case",
            sent("GET", "/", "Param2=value2&Param1=value1"),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "get-utf8",
            sent("GET", "/ሴ", ""),
            "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
        ),
        (
            "post-vanilla",
            sent("POST", "/", ""),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "post-x-www-form-urlencoded",
            Sent {
                headers: vec![form, host, date],
                body_hash: &body_hash,
                ..sent("POST", "/", "")
            },
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ] {
        let found = signature(&request, DATE, "us-east-1", "service");
        assert_eq!(found, expected, "{name}");
    }
    let iam = Sent {
        headers: vec![
            (
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8",
            ),
            ("host", "iam.amazonaws.com"),
            date,
        ],
        ..sent("GET", "/", "Action=ListUsers&Version=2010-05-08")
    };
    assert_eq!(
        signature(&iam, DATE, "us-east-1", "iam"),
        "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    );
}

fn keys(session_token: Option<&str>) -> AwsAuthentication {
    AwsAuthentication {
        region: "eu-central-1".to_owned(),
        service: "es".to_owned(),
        role_arn: None,
        keys: Some(AwsKeys {
            access_key_id: KEY_ID.to_owned(),
            secret_access_key: SECRET_KEY.to_owned(),
            session_token: session_token.map(str::to_owned),
        }),
    }
}

async fn signed(
    signer: &AwsSigner,
    method: &Method,
    url: &Url,
    body: &'static str,
) -> Result<HeaderMap, SigningError> {
    let mut headers = HeaderMap::new();
    let ndjson = HeaderValue::from_static("application/x-ndjson");
    headers.insert(CONTENT_TYPE, ndjson);
    signer
        .sign(
            method,
            url,
            &Bytes::from_static(body.as_bytes()),
            &mut headers,
        )
        .await?;
    Ok(headers)
}

/// Signs a request with keys, and compares with the second implementation.
async fn assert_signed(method: Method, url: &str, host: &str, session_token: Option<&str>) {
    let body = "{\"index\":{}}\n{}\n";
    let url = Url::parse(url).unwrap();
    let signer = AwsSigner::new(&keys(session_token));
    let headers = signed(&signer, &method, &url, body).await.unwrap();
    let text = |name: &HeaderName| headers[name].to_str().unwrap();
    let body_hash = hex(&Sha256::digest(body));
    let mut signed_headers = vec![
        ("content-type", "application/x-ndjson"),
        ("host", host),
        ("x-amz-content-sha256", &body_hash),
        ("x-amz-date", text(&DATE)),
    ];
    if let Some(token) = session_token {
        assert_eq!(text(&SESSION_TOKEN), token);
        signed_headers.push(("x-amz-security-token", token));
    }
    let names: Vec<&str> = signed_headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let sent = Sent {
        method: method.as_str(),
        path: url.path(),
        query: url.query().unwrap_or_default(),
        headers: signed_headers,
        body_hash: &body_hash,
    };
    let date = text(&DATE);
    let expected = format!(
        "AWS4-HMAC-SHA256 Credential={KEY_ID}/{}/eu-central-1/es/aws4_request, SignedHeaders={names}, Signature={}",
        &date[..8],
        signature(&sent, date, "eu-central-1", "es")
    );
    assert_eq!(text(&AUTHORIZATION), expected, "{url}");
    assert!(headers[AUTHORIZATION].is_sensitive());
}

#[tokio::test]
async fn a_request_is_signed_as_it_is_sent() {
    let host = "search-a.eu-central-1.es.amazonaws.com";
    for path in [
        "/",
        "/_bulk?require_alias=true&filter_path=errors,items.*.status",
        "/behind/a/proxy/%3Cfleetdex%3E-a_2fb/_search",
        "/fleetdex-*.g*,fleetdex.state/_mapping?filter_path=*.mappings._meta",
        "/a%20b/%2525/_doc/apps%2Fv1%2FDeployment%2F1?version=1&version_type=external_gte",
        "/a/_search?q=%2B1&flag&empty=&b=2&a=1&a=0",
    ] {
        assert_signed(Method::POST, &format!("https://{host}{path}"), host, None).await;
    }
    assert_signed(
        Method::GET,
        "http://[::1]:9200/_search",
        "[::1]:9200",
        Some("session"),
    )
    .await;
    assert_signed(Method::DELETE, "https://a:443/x", "a", None).await;
}

#[test]
fn a_path_is_encoded_once_more_than_it_is_sent() {
    let url = Url::parse("https://a/documents%20and%20settings/%3Cx%3E?a=b%20c").unwrap();
    assert_eq!(
        to_sign(&url),
        "https://a/documents%2520and%2520settings/%253Cx%253E?a=b%20c"
    );
}

#[test]
fn keys_are_not_shown() {
    let shown = format!("{:?}", keys(Some("session")));
    assert!(
        !shown.contains("wJal") && !shown.contains("session\""),
        "{shown}"
    );
}

/// What a Pod has: variables, files, and services that answer by method and URL.
#[derive(Clone, Debug, Default)]
struct Pod {
    files: HashMap<String, String>,
    answers: HashMap<String, (StatusCode, String)>,
    requests: Arc<Mutex<Vec<Request<Bytes>>>>,
}

impl FileRead for Pod {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        let missing = || reqsign_core::Error::config_invalid("no such file");
        Ok(self.files.get(path).ok_or_else(missing)?.clone().into())
    }
}

impl HttpSend for Pod {
    async fn http_send(&self, request: Request<Bytes>) -> reqsign_core::Result<Response<Bytes>> {
        let asked = format!("{} {}", request.method(), request.uri());
        self.requests.lock().push(request);
        let (status, body) = self
            .answers
            .get(&asked)
            .ok_or_else(|| reqsign_core::Error::unexpected(format!("no route to {asked}")))?
            .clone();
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = status;
        Ok(response)
    }
}

impl Pod {
    fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), text.to_owned());
        self
    }

    fn answer(mut self, asked: &str, status: u16, body: &str) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        self.answers
            .insert(asked.to_owned(), (status, body.to_owned()));
        self
    }

    fn signer(&self, authentication: &AwsAuthentication, variables: &[(&str, &str)]) -> AwsSigner {
        let envs = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let context = Context::new()
            .with_env(StaticEnv {
                home_dir: None,
                envs,
            })
            .with_file_read(self.clone())
            .with_http_send(self.clone());
        AwsSigner::with_context(authentication, context)
    }

    /// The session token of a signed request: each source here gives another one.
    async fn session(
        &self,
        authentication: &AwsAuthentication,
        variables: &[(&str, &str)],
    ) -> Result<String, SigningError> {
        let signer = self.signer(authentication, variables);
        let url = Url::parse("https://domain/_search").unwrap();
        let headers = signed(&signer, &Method::GET, &url, "").await?;
        let again = signed(&signer, &Method::GET, &url, "").await?;
        assert_eq!(headers.get(SESSION_TOKEN), again.get(SESSION_TOKEN));
        Ok(headers[SESSION_TOKEN].to_str().unwrap().to_owned())
    }

    fn asked(&self) -> Vec<String> {
        let requests = self.requests.lock();
        requests
            .iter()
            .map(|request| format!("{} {}", request.method(), request.uri()))
            .collect()
    }
}

/// Signs with the role of the Pod.
fn without_keys() -> AwsAuthentication {
    AwsAuthentication {
        keys: None,
        ..keys(None)
    }
}

fn sts_answer(action: &str, token: &str) -> String {
    format!(
        "<{action}Response><{action}Result><Credentials><AccessKeyId>ASIAEXAMPLE012345678</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
         <SessionToken>{token}</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></{action}Result></{action}Response>"
    )
}

fn json_answer(token: &str) -> String {
    format!(
        r#"{{"Code":"Success","AccessKeyId":"ASIAEXAMPLE012345678","SecretAccessKey":"s","Token":"{token}","Expiration":"2999-01-01T00:00:00Z"}}"#
    )
}

const STS: &str = "POST https://sts.eu-west-1.amazonaws.com/";
const WEB_IDENTITY: [(&str, &str); 3] = [
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
    ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/fleetdex"),
    ("AWS_REGION", "eu-west-1"),
];

#[tokio::test]
async fn a_pod_has_credentials_of_its_environment() {
    let variables = [
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ("AWS_SESSION_TOKEN", "of-the-environment"),
    ];
    let pod = Pod::default();
    let session = pod.session(&without_keys(), &variables).await.unwrap();
    assert_eq!(session, "of-the-environment");
    assert!(pod.asked().is_empty());
}

#[tokio::test]
async fn a_pod_exchanges_the_token_of_its_service_account() {
    let pod = Pod::default().file("/token", "jwt\n").answer(
        STS,
        200,
        &sts_answer("AssumeRoleWithWebIdentity", "of-the-account"),
    );
    let session = pod.session(&without_keys(), &WEB_IDENTITY).await.unwrap();
    assert_eq!(session, "of-the-account");
    // The second signature has the same credentials.
    assert_eq!(pod.asked(), [STS]);
    let requests = pod.requests.lock();
    let body = String::from_utf8_lossy(requests[0].body());
    for part in [
        "WebIdentityToken=jwt&",
        "RoleSessionName=fleetdex",
        "RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Ffleetdex",
    ] {
        assert!(body.contains(part), "{body}");
    }
}

#[tokio::test]
async fn a_role_that_is_refused_is_not_replaced_by_that_of_the_node() {
    let refusal = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>";
    let pod = Pod::default()
        .file("/token", "hunter2")
        .answer(STS, 403, refusal);
    let error = pod
        .session(&without_keys(), &WEB_IDENTITY)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("AccessDenied: Not authorized"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    assert_eq!(pod.asked(), [STS]);
}

#[tokio::test]
async fn a_pod_asks_the_agent_of_its_node() {
    let variables = [
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "http://169.254.170.23/v1/credentials",
        ),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/agent-token"),
    ];
    let asked = "GET http://169.254.170.23/v1/credentials";
    let pod = Pod::default().file("/agent-token", "agent").answer(
        asked,
        200,
        &json_answer("of-the-agent"),
    );
    let session = pod.session(&without_keys(), &variables).await.unwrap();
    assert_eq!(session, "of-the-agent");
    assert_eq!(pod.asked(), [asked]);
    assert_eq!(pod.requests.lock()[0].headers()[AUTHORIZATION], "agent");
}

#[tokio::test]
async fn without_anything_else_the_role_of_the_instance_is_used() {
    let metadata = "http://169.254.169.254/latest";
    let roles = format!("GET {metadata}/meta-data/iam/security-credentials/");
    let pod = Pod::default()
        .answer(&format!("PUT {metadata}/api/token"), 200, "session")
        .answer(&roles, 200, "node")
        .answer(
            &format!("{roles}node"),
            200,
            &json_answer("of-the-instance"),
        );
    let session = pod.session(&without_keys(), &[]).await.unwrap();
    assert_eq!(session, "of-the-instance");
    assert_eq!(pod.asked().len(), 3);

    let elsewhere = Pod::default();
    let error = elsewhere.session(&without_keys(), &[]).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with(
            "no AWS credentials: the environment of the Pod names none; put accessKeyID"
        ),
        "{error}"
    );
    assert!(error.contains("no route"), "{error}");
}

#[tokio::test]
async fn a_role_is_assumed_with_the_keys() {
    let authentication = AwsAuthentication {
        role_arn: Some("arn:aws:iam::123456789012:role/search".to_owned()),
        keys: Some(AwsKeys {
            access_key_id: "AKIAEXAMPLE012345678".to_owned(),
            secret_access_key: SECRET_KEY.to_owned(),
            session_token: None,
        }),
        ..keys(None)
    };
    let sts = "sts.eu-central-1.amazonaws.com";
    let mut pod = Pod::default();
    let answer = sts_answer("AssumeRole", "of-the-role");
    // The library puts the parameters into the query string.
    for method in ["GET", "POST"] {
        let query = "?Action=AssumeRole&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fsearch&Version=2011-06-15&RoleSessionName=fleetdex&DurationSeconds=3600";
        pod = pod.answer(&format!("{method} https://{sts}/{query}"), 200, &answer);
        pod = pod.answer(&format!("{method} https://{sts}/"), 200, &answer);
    }
    let session = pod.session(&authentication, &[]).await.unwrap();
    assert_eq!(session, "of-the-role");
    let requests = pod.requests.lock();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let signed = requests[0].headers()[AUTHORIZATION].to_str().unwrap();
    assert!(
        signed.contains("/eu-central-1/sts/aws4_request"),
        "{signed}"
    );
}
