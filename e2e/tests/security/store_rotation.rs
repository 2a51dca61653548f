//! Credentials of a store that are rotated, wrong or withdrawn: queries and writes always have the
//! same ones, and no result is stale without a warning.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{OpenSearchServer, unique},
    objects::Objects,
    operator::Operator,
    query_api::{bare_names_of, request},
    scenario::{Registry, SECRETS, Stage, secret_path, until},
    test_result::Tested,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{
    aws_domain::{ACCESS_KEY_ID, AwsDomain, REGION, SECRET_ACCESS_KEY, SESSION_TOKEN},
    dashboards_roles::secured,
    store_credentials::write_secret,
};

const ROLES: [&str; 1] = ["all_access"];
const PASSWORDS: [&str; 3] = [
    "1st-Gymnopedie-in-D",
    "2nd-Gymnopedie-in-C",
    "3rd-Gymnopedie-in-A",
];
const CONFIG_MAPS: &str = "search/api/v1/namespaces/default/configmaps";
/// An object that is older than this is in every result without a warning, however busy the machine
/// is. A change that waits is known as stale after some seconds.
const FRESH: Duration = Duration::from_secs(20);

/// What the query API answered.
struct Answer {
    status: u16,
    body: Value,
    warnings: usize,
}

impl Answer {
    fn has(&self, name: &str) -> bool {
        bare_names_of(&self.body).is_ok_and(|names| names.iter().any(|found| found == name))
    }
}

async fn ask(operator: &Operator) -> Result<Answer> {
    let response = request(operator, CONFIG_MAPS)?.send().await?;
    Ok(Answer {
        status: response.status().as_u16(),
        warnings: response.headers().get_all("warning").iter().count(),
        body: response.json().await?,
    })
}

/// One object a second, and one list a second that has to show it or to say that it is stale.
struct Watcher {
    failures: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<Vec<u16>>>,
    _task: AbortOnDropHandle<()>,
}

impl Watcher {
    fn start(stage: &Stage) -> Self {
        let (failures, answers) = <(Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<u16>>>)>::default();
        let (member, operator) = (stage.member(1).unwrap(), Arc::clone(&stage.operator));
        let (noted, answered) = (Arc::clone(&failures), Arc::clone(&answers));
        let prefix = unique("tick");
        let task = tokio::spawn(async move {
            let mut written: Vec<(Instant, String)> = Vec::new();
            loop {
                let name = format!("{prefix}-{}", written.len());
                write(&member, &name).await.unwrap();
                written.push((Instant::now(), name));
                let asked = Instant::now();
                let answer = ask(&operator).await.unwrap();
                answered.lock().push(answer.status);
                let due = written
                    .iter()
                    .filter(|(at, _)| asked.duration_since(*at) > FRESH);
                for (_, name) in due.filter(|(_, name)| !answer.has(name)) {
                    if answer.status == 200 && answer.warnings == 0 {
                        noted
                            .lock()
                            .push(format!("{name} is missing without a warning"));
                    }
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        Self {
            failures,
            answers,
            _task: AbortOnDropHandle::new(task),
        }
    }

    fn check(&self) {
        let answers = self.answers.lock();
        eprintln!("answers, one a second: {answers:?}");
        assert_eq!(*self.failures.lock(), [""; 0]);
        assert!(answers.iter().all(|status| [200, 503].contains(status)));
    }
}

async fn write(member: &Objects, name: &str) -> Result<()> {
    let data = json!({ "a": "b" });
    member.apply_config_map("default", name, &data).await?;
    Ok(())
}

/// Writes an object and waits until a result without warnings shows it.
async fn until_current(stage: &Stage, what: &str) -> Tested {
    let name = unique("current");
    write(&stage.member(1)?, &name).await?;
    until(what, || async {
        let answer = ask(&stage.operator).await?;
        let is_current = answer.status == 200 && answer.warnings == 0 && answer.has(&name);
        ensure!(is_current, "{}: {}", answer.status, answer.body);
        Ok(())
    })
    .await?;
    Ok(())
}

async fn until_refused(stage: &Stage, part: &str) -> Tested {
    until(part, || async {
        let answer = ask(&stage.operator).await?;
        let message = answer.body["message"].as_str().unwrap_or_default();
        ensure!(
            answer.status == 503 && message.contains(part),
            "{}: {}",
            answer.status,
            answer.body
        );
        Ok(())
    })
    .await?;
    Ok(())
}

fn registry(stage: &Stage, name: &str) -> Registry {
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    Registry::new(stage, name, &["member1"], &kinds).unwrap()
}

/// A registry on the secured OpenSearch, whose Secret has its name.
fn secured_registry(stage: &Stage, name: &str) -> Tested<Registry> {
    let mut registry = registry(stage, name);
    let reference = json!({ "namespace": SECRETS, "name": registry.name });
    let authority = stage.fleet.opensearch()?.ca_pem().unwrap();
    let store = registry.store();
    store["caBundle"] = json!(authority);
    store["secretRef"] = reference;
    Ok(registry)
}

async fn allow_hosts(stage: &Stage, registry: &Registry, hosts: &str) -> Tested {
    let annotation =
        json!({ "metadata": { "annotations": { "fleetdex.io/allowed-hosts": hosts } } });
    let path = secret_path(&registry.name);
    stage.hub.merge(&path, &annotation).await?;
    Ok(())
}

async fn remove(stage: &Stage, registry: &Registry) -> Tested {
    registry.remove().await?;
    let secret = secret_path(&registry.name);
    Ok(stage.hub.delete(&secret).await?)
}

#[tokio::test]
async fn queries_follow_a_rotated_password_and_use_none_that_was_withdrawn() -> Tested {
    let stage = Stage::with(secured()).await?;
    let server = stage.fleet.opensearch()?;
    let login = |password: &str| json!({ "username": "rotated", "password": password });
    server.create_user("rotated", PASSWORDS[0], &ROLES).await?;
    let registry = secured_registry(&stage, "rotated-password")?;
    write_secret(&stage, &registry, &login(PASSWORDS[0])).await?;
    registry.apply_until_ready().await?;
    until_current(&stage, "the first password works").await?;
    let watcher = Watcher::start(&stage);

    for [old, new] in [[PASSWORDS[0], PASSWORDS[1]], [PASSWORDS[1], PASSWORDS[2]]] {
        server
            .change_password("rotated", [old, new], &ROLES)
            .await?;
        until_refused(&stage, "refuses the server's credentials").await?;
        write_secret(&stage, &registry, &login(new)).await?;
        until_current(&stage, "the new password works").await?;
        registry.until_ready().await?;
    }

    // OpenSearch would still take the last password.
    write_secret(&stage, &registry, &login("wrong")).await?;
    until_refused(&stage, "refuses the server's credentials").await?;
    write_secret(&stage, &registry, &login(PASSWORDS[2])).await?;
    until_current(&stage, "the right password works again").await?;
    for (hosts, reason) in [("elsewhere.example.com", "HostNotAllowed")] {
        allow_hosts(&stage, &registry, hosts).await?;
        until_refused(&stage, reason).await?;
        registry.until_store_fails(reason, "").await?;
        allow_hosts(&stage, &registry, "127.0.0.1").await?;
        until_current(&stage, "the Secret may be used again").await?;
    }
    let both = json!({ "username": "rotated", "password": PASSWORDS[2], "token": "x" });
    write_secret(&stage, &registry, &both).await?;
    until_refused(&stage, "InvalidSecret").await?;
    write_secret(&stage, &registry, &login(PASSWORDS[2])).await?;
    until_current(&stage, "the Secret is valid again").await?;
    watcher.check();
    remove(&stage, &registry).await
}

/// A token, and who it is of, are another way to the same roles.
#[tokio::test]
async fn queries_follow_tokens_and_certificates_that_replace_each_other() -> Tested {
    const DAY: u64 = 24 * 3600;
    let stage = Stage::with(secured()).await?;
    let server = stage.fleet.opensearch()?;
    let mut registry = secured_registry(&stage, "rotated-token")?;
    let certificates = format!("{}-certificate", registry.name);
    let token = |user: &str| json!({ "token": server.token(user, &["admin"], DAY).unwrap() });
    write_secret(&stage, &registry, &token("first")).await?;
    registry.apply_until_ready().await?;
    let watcher = Watcher::start(&stage);
    let powerless = json!({ "token": server.token("mallory", &["none"], DAY).unwrap() });
    write_secret(&stage, &registry, &powerless).await?;
    until_refused(&stage, "the server's user may not do").await?;
    write_secret(&stage, &registry, &token("second")).await?;
    until_current(&stage, "the second token works").await?;

    server.map_users("all_access", &["client-1"]).await?;
    write_certificate(&stage, server, &certificates, "client-1").await?;
    let store = registry.store();
    store["secretRef"] = Value::Null;
    store["clientCertSecretRef"] = json!({ "namespace": SECRETS, "name": certificates });
    registry.apply().await?;
    until_current(&stage, "the first certificate works").await?;
    server.map_users("all_access", &["client-2"]).await?;
    until_refused(&stage, "the server's user may not do").await?;
    write_certificate(&stage, server, &certificates, "client-2").await?;
    until_current(&stage, "the second certificate works").await?;

    // The CA that the registry trusts.
    let other = stage.fleet.control_plane().ca_pem().to_owned();
    let authority = server.ca_pem().unwrap();
    registry.store()["caBundle"] = json!(other);
    registry.apply().await?;
    registry.until_store_fails("Unreachable", "").await?;
    registry.store()["caBundle"] = json!(format!("{other}{authority}"));
    registry.apply().await?;
    until_current(&stage, "both authorities are trusted").await?;
    watcher.check();
    remove(&stage, &registry).await?;
    stage.hub.delete(&secret_path(&certificates)).await?;
    server.map_users("all_access", &[]).await?;
    Ok(())
}

async fn write_certificate(
    stage: &Stage,
    server: &OpenSearchServer,
    secret: &str,
    user: &str,
) -> Tested {
    let identity = server.authority().unwrap().client(user, None)?;
    let data = json!({ "tls.crt": identity.certificate, "tls.key": identity.key });
    let path = secret_path(secret);
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "stringData": data,
        "metadata": { "name": secret, "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } } });
    let written = match stage.hub.find(&path).await? {
        Some(_) => stage.hub.merge(&path, &json!({ "stringData": data })).await,
        None => stage.hub.apply(&path, &secret).await,
    };
    written.context(user.to_owned()).unwrap();
    Ok(())
}

#[tokio::test]
async fn queries_follow_rotated_keys_of_aws() -> Tested {
    let stage = Stage::enter().await?;
    let server = stage.fleet.opensearch()?;
    let domain = AwsDomain::start(server.url()).await?;
    let mut registry = registry(&stage, "rotated-keys");
    let reference = json!({ "namespace": SECRETS, "name": registry.name });
    let store = registry.store();
    store["addresses"] = json!([domain.address()]);
    store["aws"] = json!({ "region": REGION });
    store["secretRef"] = reference;
    let keys = |id: &str| json!({ "accessKeyID": id, "secretAccessKey": SECRET_ACCESS_KEY, "sessionToken": SESSION_TOKEN });
    write_secret(&stage, &registry, &keys(ACCESS_KEY_ID)).await?;
    registry.apply_until_ready().await?;
    let watcher = Watcher::start(&stage);
    for id in ["AKIAI44QH8DHBEXAMPLE", ACCESS_KEY_ID] {
        domain.set_access_key(id);
        until_refused(&stage, "refuses the server's credentials").await?;
        write_secret(&stage, &registry, &keys(id)).await?;
        until_current(&stage, "the new keys work").await?;
    }
    watcher.check();
    remove(&stage, &registry).await
}
