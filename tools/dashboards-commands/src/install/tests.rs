//! Installs into a fake of Dashboards' import API, which answers as 2.19.2 does.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};

use super::*;

/// What the fake holds, and how it behaves.
#[derive(Default)]
struct FakeDashboards {
    /// Ids of objects, by their types.
    objects: Mutex<BTreeSet<(String, String)>>,
    /// Tenant and workspace of each accepted request.
    places: Mutex<Vec<(String, String)>>,
    /// The only accepted value of `Authorization`; empty: none is needed.
    authorization: &'static str,
    /// The id of an object whose attributes do not fit.
    strict: &'static str,
    /// Requests that are answered with 503 first.
    starting: Mutex<usize>,
}

type Reply = (StatusCode, String);

fn reply(code: u16, body: &Value) -> Reply {
    (StatusCode::from_u16(code).unwrap(), body.to_string())
}

fn failure(code: u16, error: &str, message: &str) -> Reply {
    reply(
        code,
        &json!({ "statusCode": code, "error": error, "message": message }),
    )
}

/// The lines of the uploaded file; `None` if the form is not as Dashboards wants it.
fn lines(headers: &HeaderMap, body: &[u8]) -> Option<Vec<Value>> {
    let content_type = headers.get("content-type")?.to_str().ok()?;
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=")?;
    let text = std::str::from_utf8(body).ok()?;
    let part = text.strip_prefix(&format!("--{boundary}\r\n"))?;
    let part = part.strip_suffix(&format!("\r\n--{boundary}--\r\n"))?;
    let (head, file) = part.split_once("\r\n\r\n")?;
    let is_file = head.contains("name=\"file\"") && head.contains(".ndjson\"");
    let objects = file.lines().map(|line| serde_json::from_str(line).ok());
    is_file.then(|| objects.collect())?
}

async fn import(
    fake: State<Arc<FakeDashboards>>,
    workspace: Option<Path<String>>,
    query: RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    let header = |name: &str| {
        headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    };
    {
        let mut starting = fake.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if *starting > 0 {
            *starting -= 1;
            return (
                StatusCode::SERVICE_UNAVAILABLE,
                "OpenSearch Dashboards server is not ready yet".to_owned(),
            );
        }
    }
    if !fake.authorization.is_empty() && header("authorization") != fake.authorization {
        return failure(401, "Unauthorized", "Authentication required");
    }
    if header("osd-xsrf").is_empty() {
        return failure(
            400,
            "Bad Request",
            "Request must contain the osd-xsrf header.",
        );
    }
    let Some(lines) = lines(&headers, &body) else {
        return failure(400, "Bad Request", "Invalid file extension .");
    };
    let place = (
        header("securitytenant").to_owned(),
        workspace.map_or_else(String::new, |id| id.0),
    );
    fake.places.lock().unwrap().push(place);
    let overwrite = query.0.as_deref() == Some("overwrite=true");
    reply(200, &fake.imported(&lines, overwrite))
}

impl FakeDashboards {
    fn imported(&self, lines: &[Value], overwrite: bool) -> Value {
        let mut objects = self.objects.lock().unwrap();
        let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
        let (mut results, mut errors) = (Vec::new(), Vec::new());
        for line in lines {
            let key = (text(line, "type"), text(line, "id"));
            let title = &line["attributes"]["title"];
            let mut result = json!({ "type": key.0, "id": key.1, "meta": { "title": title } });
            let exists = objects.contains(&key);
            if exists && !overwrite {
                errors.push(json!({ "type": key.0, "id": key.1, "title": title, "meta": {}, "error": { "type": "conflict" } }));
                continue;
            }
            if key.1 == self.strict {
                let message = "mapping set to strict, dynamic introduction of [grid] within [search] is not allowed";
                errors.push(
                    json!({ "type": key.0, "id": key.1, "title": title, "meta": {},
                    "error": { "type": "unknown", "message": message } }),
                );
                continue;
            }
            if exists {
                result["overwrite"] = true.into();
            }
            results.push((key, result));
        }
        let is_blocked = errors
            .iter()
            .any(|error| error["error"]["type"] == "conflict");
        if !is_blocked {
            objects.extend(results.iter().map(|(key, _)| key.clone()));
        }
        let results: Vec<Value> = results.into_iter().map(|(_, result)| result).collect();
        let mut response = json!({ "successCount": results.len(), "success": errors.is_empty() });
        if !results.is_empty() {
            response["successResults"] = results.into();
        }
        if !errors.is_empty() {
            response["errors"] = errors.into();
        }
        response
    }

    /// Serves it until the end of the test; returns its URL.
    async fn serve(self) -> (Arc<Self>, String) {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let fake = Arc::new(self);
        let app = Router::new()
            .route("/base/api/saved_objects/_import", post(import))
            .route(
                "/base/w/{workspace}/api/saved_objects/_import",
                post(import),
            )
            .with_state(Arc::clone(&fake));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/base/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (fake, url)
    }
}

fn arguments(url: &str) -> InstallArgs {
    InstallArgs {
        login: LoginArgs {
            url: url.to_owned(),
            user: None,
            password_file: None,
            ca_file: None,
        },
        tenant: "global".to_owned(),
        workspace: None,
        no_overwrite: false,
        wait: 0,
        objects: ObjectArgs::default(),
    }
}

/// What the command prints, or its error with its causes.
async fn run(args: &InstallArgs) -> Result<String, String> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        has_colours: false,
    };
    match install(args, &mut console).await {
        Ok(_) => Ok(String::from_utf8(out).unwrap()),
        Err(error) => Err(fleetdex_core::model::causes(&error)),
    }
}

#[tokio::test]
async fn a_second_install_replaces_the_objects_of_the_first() {
    let (fake, url) = FakeDashboards::default().serve().await;
    let total = ObjectArgs::default().objects().len();
    let first = run(&arguments(&url)).await.unwrap();
    assert!(
        first.contains(&format!("{total} are new, 0 replaced")),
        "{first}"
    );
    let second = run(&arguments(&url)).await.unwrap();
    assert!(
        second.contains(&format!("0 are new, {total} replaced")),
        "{second}"
    );
    assert_eq!(fake.objects.lock().unwrap().len(), total);
}

#[tokio::test]
async fn existing_objects_are_named_if_they_must_not_be_replaced() {
    let (fake, url) = FakeDashboards::default().serve().await;
    let there = ("dashboard".to_owned(), "fleetdex-fleet".to_owned());
    fake.objects.lock().unwrap().insert(there);
    let args = InstallArgs {
        no_overwrite: true,
        ..arguments(&url)
    };
    let error = run(&args).await.unwrap_err();
    let expected = "\n  dashboard \"fleetdex-fleet\" (Fleet overview): it exists already; without --no-overwrite it is replaced";
    assert!(error.ends_with(expected), "{error}");
    assert_eq!(fake.objects.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn success_false_is_a_failure_that_names_each_object() {
    let fake = FakeDashboards {
        strict: "fleetdex-nodes",
        ..FakeDashboards::default()
    };
    let (_, url) = fake.serve().await;
    let error = run(&arguments(&url)).await.unwrap_err();
    assert!(error.contains("refused 1 of"), "{error}");
    assert!(
        error.contains("search \"fleetdex-nodes\" (Nodes): mapping set to strict"),
        "{error}"
    );
}

#[tokio::test]
async fn credentials_are_sent_and_a_refusal_says_what_to_do() {
    let fake = FakeDashboards {
        authorization: "Basic YWRtaW46c2VjcmV0", // admin:secret
        ..FakeDashboards::default()
    };
    let (_, url) = fake.serve().await;
    let without = run(&arguments(&url)).await.unwrap_err();
    assert!(
        without.contains("answers 401: Authentication required; name a user"),
        "{without}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut args = arguments(&url);
    args.login.user = Some("admin".to_owned());
    args.login.password_file = Some(file.path().to_owned());
    let empty = run(&args).await.unwrap_err();
    assert!(
        empty.contains("there is no password for user \"admin\""),
        "{empty}"
    );
    std::fs::write(file.path(), "wrong\n").unwrap();
    let wrong = run(&args).await.unwrap_err();
    assert!(wrong.contains("check --user and the password"), "{wrong}");
    std::fs::write(file.path(), "secret\n").unwrap();
    run(&args).await.unwrap();
}

#[tokio::test]
async fn the_tenant_is_a_header_and_the_workspace_a_path() {
    let (fake, url) = FakeDashboards::default().serve().await;
    run(&arguments(&url)).await.unwrap();
    let args = InstallArgs {
        tenant: "team".to_owned(),
        workspace: Some("a b".to_owned()),
        ..arguments(&url)
    };
    run(&args).await.unwrap();
    let places = fake.places.lock().unwrap().clone();
    let expected = [("global", ""), ("team", "a b")];
    assert_eq!(
        places,
        expected.map(|(tenant, id)| (tenant.to_owned(), id.to_owned()))
    );
}

#[tokio::test]
async fn a_tenant_that_is_no_header_is_refused() {
    let args = InstallArgs {
        tenant: "a\nb".to_owned(),
        ..arguments("http://127.0.0.1:1")
    };
    assert!(run(&args).await.unwrap_err().contains("--tenant"));
}

#[tokio::test(start_paused = true)]
async fn it_waits_until_dashboards_is_ready() {
    let fake = || FakeDashboards {
        starting: Mutex::new(2),
        ..FakeDashboards::default()
    };
    let (_, url) = fake().serve().await;
    let error = run(&arguments(&url)).await.unwrap_err();
    assert!(
        error.contains("answers 503") && error.contains("--wait 120"),
        "{error}"
    );
    let (_, url) = fake().serve().await;
    let args = InstallArgs {
        wait: 60,
        ..arguments(&url)
    };
    run(&args).await.unwrap();
}

#[tokio::test]
async fn other_servers_and_urls_are_recognized() {
    let (_, url) = FakeDashboards::default().serve().await;
    let elsewhere = run(&arguments(url.trim_end_matches("base/")))
        .await
        .unwrap_err();
    assert!(
        elsewhere.contains("answers 404") && elsewhere.contains("base path"),
        "{elsewhere}"
    );
    let closed = run(&arguments("http://127.0.0.1:1")).await.unwrap_err();
    assert!(
        closed.contains("cannot reach Dashboards at http://127.0.0.1:1/api"),
        "{closed}"
    );
    for (url, problem) in [
        ("http://admin:secret@localhost", "use --user"),
        ("ftp://localhost", "http:// or https://"),
        ("localhost:5601", "http:// or https://"),
        ("http://localhost/?x=1", "end with the path"),
    ] {
        let error = run(&arguments(url)).await.unwrap_err();
        assert!(
            error.contains(problem) && !error.contains("secret"),
            "{url}: {error}"
        );
    }
}
