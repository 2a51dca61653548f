//! Loading from a control plane that is a mock service, and from files.

use std::path::PathBuf;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

/// A control plane with one Secret, `fleet/a`.
fn control_plane(code: u16, data: Value) -> Loader {
    let service = service_fn(move |request: Request<Body>| {
        let data = data.clone();
        async move {
            assert!(
                request
                    .uri()
                    .path()
                    .ends_with("/namespaces/fleet/secrets/a"),
                "{}",
                request.uri()
            );
            let body = match code {
                200 => json!({ "metadata": { "name": "a" }, "data": data }),
                _ => {
                    json!({ "kind": "Status", "code": code, "status": "Failure", "reason": "x", "message": "planted" })
                }
            };
            let mut answer = Response::new(Body::from(serde_json::to_vec(&body)?));
            *answer.status_mut() = StatusCode::from_u16(code)?;
            Ok::<_, BoxError>(answer)
        }
    });
    Client::new(service, "default").into()
}

fn in_secret() -> MemberAccess {
    let secret = LocalSecretReference {
        namespace: "fleet".into(),
        name: "a".into(),
    };
    MemberAccess::KubeconfigSecret(KubeconfigSecret {
        secret,
        keys: &["kubeconfig", "value"],
    })
}

fn kubeconfig(user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://a'}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    )
}

async fn loaded(loader: &Loader, access: &MemberAccess) -> Result<Credentials, ConnectError> {
    loader
        .load(access, PluginCachePolicy::Bypass, TIMEOUT)
        .await
}

async fn reason(loader: &Loader, access: &MemberAccess) -> &'static str {
    loaded(loader, access).await.unwrap_err().reason()
}

#[tokio::test]
async fn a_kubeconfig_in_a_secret_is_read_from_either_key() {
    for key in ["kubeconfig", "value"] {
        let loader = control_plane(
            200,
            json!({ key: STANDARD.encode(kubeconfig("token: abc")) }),
        );
        let credentials = loader
            .load(&in_secret(), PluginCachePolicy::Use, TIMEOUT)
            .await
            .unwrap();
        assert_eq!(
            (credentials.server(), credentials.token.as_deref()),
            ("https://a", Some("abc"))
        );
    }
}

#[tokio::test]
async fn an_unusable_secret_has_a_reason_that_names_the_problem() {
    for (code, data, expected) in [
        (404, json!({}), "SecretNotFound"),
        (403, json!({}), "SecretForbidden"),
        (500, json!({}), "SecretUnreadable"),
        (200, json!({ "other": "" }), "SecretInvalid"),
    ] {
        let found = reason(&control_plane(code, data), &in_secret()).await;
        assert_eq!(found, expected, "{code}");
    }
    let found = reason(&Loader::without_control_plane(), &in_secret()).await;
    assert_eq!(found, "SecretUnreadable");
    for (content, expected) in [
        ("hunter2: [".to_owned(), "KubeconfigInvalid"),
        ("hunter2".to_owned(), "KubeconfigInvalid"),
        (String::new(), "SecretInvalid"),
        (kubeconfig("exec: {command: sh}"), "ExecRefused"),
        (kubeconfig("tokenFile: /etc/passwd"), "FileRefused"),
        (
            kubeconfig("auth-provider: {name: oidc}"),
            "AuthProviderRefused",
        ),
    ] {
        let loader = control_plane(200, json!({ "value": STANDARD.encode(&content) }));
        let error = loaded(&loader, &in_secret()).await.unwrap_err();
        assert_eq!(error.reason(), expected, "{content}");
        let texts = format!("{} {error:?}", causes(&error));
        assert!(
            texts.contains("fleet/a") || expected == "SecretInvalid",
            "{texts}"
        );
        assert!(!texts.contains("hunter2"), "{texts}");
    }
}

#[tokio::test]
async fn a_member_that_is_not_ready_to_be_connected_has_a_reason() {
    let access = MemberAccess::Awaited {
        reason: "InfrastructureNotReady",
        message: "it is being made".into(),
    };
    assert_eq!(
        reason(&Loader::without_control_plane(), &access).await,
        "InfrastructureNotReady"
    );
}

#[tokio::test]
async fn the_files_that_a_relative_kubeconfig_names_are_absolute() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("config"),
        "clusters: [{name: a, cluster: {certificate-authority: ca.crt}}]",
    )
    .unwrap();
    let current = std::env::current_dir().unwrap();
    let mut relative: PathBuf = current.components().skip(1).map(|_| "..").collect();
    relative.push(folder.path().strip_prefix("/").unwrap());
    relative.push("config");
    let read = read_kubeconfig(Some(&relative)).await.unwrap();
    let cluster = read.clusters[0].cluster.as_ref().unwrap();
    let authority = PathBuf::from(cluster.certificate_authority.as_deref().unwrap());
    assert!(authority.is_absolute(), "{}", authority.display());
}

#[tokio::test]
async fn a_context_of_a_file_is_read_with_the_files_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(folder.path().join("secret"), "abc").unwrap();
    std::fs::write(&path, kubeconfig("tokenFile: secret")).unwrap();
    let loader = Loader::without_control_plane();
    let access = |path: PathBuf, context: &str| {
        MemberAccess::KubeconfigFile(KubeconfigFile {
            path: Some(path),
            context: context.into(),
        })
    };
    let credentials = loaded(&loader, &access(path.clone(), "x")).await.unwrap();
    assert_eq!(credentials.token.as_deref(), Some("abc"));
    assert_eq!(
        reason(&loader, &access(path.clone(), "y")).await,
        "ContextNotFound"
    );
    assert_eq!(
        reason(&loader, &access(folder.path().join("absent"), "x")).await,
        "FileUnreadable"
    );
    std::fs::write(&path, "hunter2: [").unwrap();
    let error = loaded(&loader, &access(path, "x")).await.unwrap_err();
    assert!(
        !format!("{} {error:?}", causes(&error)).contains("hunter2"),
        "{error:?}"
    );
}

/// A control plane whose Secret `fleet/a` may be sent to these hosts.
fn control_plane_with(hosts: &'static str) -> Client {
    let service = service_fn(move |_: Request<Body>| async move {
        let annotations = json!({ "fleetdex.io/allowed-hosts": hosts });
        let data = json!({ "token": STANDARD.encode("abc") });
        let body = json!({ "metadata": { "name": "a", "annotations": annotations }, "data": data });
        Ok::<_, BoxError>(Response::new(Body::from(serde_json::to_vec(&body)?)))
    });
    Client::new(service, "default")
}

fn endpoint(url: &str, proxy: Option<&str>) -> ApiServerEndpoint {
    ApiServerEndpoint {
        url: url.to_owned(),
        secret: Some(LocalSecretReference {
            namespace: "fleet".into(),
            name: "a".into(),
        }),
        insecure: true,
        proxy_url: proxy.map(str::to_owned),
        ..ApiServerEndpoint::default()
    }
}

#[tokio::test]
async fn a_token_is_sent_only_to_addresses_and_proxies_that_its_secret_allows() {
    let loader = Loader::from(control_plane_with(
        "member.example.com, proxy.example.com:1080",
    ));
    for case in [
        "allowed https://member.example.com:6443",
        "allowed https://member.example.com socks5://proxy.example.com",
        "HostNotAllowed https://attacker.example.net",
        "HostNotAllowed https://member.example.com.attacker.net",
        "HostNotAllowed https://member.example.com http://attacker.example.net:3128",
        "HostNotAllowed https://member.example.com http://proxy.example.com:1080@attacker.example.net",
        "EndpointInvalid https://member.example.com@attacker.example.net",
    ] {
        let mut words = case.split(' ');
        let expected = words.next().unwrap();
        let endpoint = endpoint(words.next().unwrap(), words.next());
        let result = loaded(&loader, &MemberAccess::Endpoint(endpoint)).await;
        let found = result.map_or_else(|error| error.reason(), |_| "allowed");
        assert_eq!(found, expected, "{case}");
    }
}

#[tokio::test]
async fn an_invalid_secret_name_never_becomes_part_of_a_request_path() {
    let secret = LocalSecretReference {
        namespace: "fleet".into(),
        name: "../../pods/x".into(),
    };
    let access = MemberAccess::Endpoint(ApiServerEndpoint {
        secret: Some(secret),
        ..endpoint("https://a", None)
    });
    assert_eq!(
        reason(&Loader::from(control_plane_with("*")), &access).await,
        "SecretNotFound"
    );
}

#[tokio::test]
async fn a_flag_allows_secrets_without_the_annotation() {
    let allowance = "fleet/*=attacker.example.net".parse().unwrap();
    let hosts = SecretHosts {
        allowances: vec![allowance],
        ..SecretHosts::default()
    };
    let access = MemberAccess::Endpoint(endpoint("https://attacker.example.net", None));
    assert!(
        loaded(&Loader::new(control_plane_with(""), hosts), &access)
            .await
            .is_ok()
    );
    assert!(
        loaded(
            &Loader::new(control_plane_with(""), SecretHosts::off()),
            &access
        )
        .await
        .is_ok()
    );
}
