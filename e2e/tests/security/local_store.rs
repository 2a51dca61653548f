//! `fleetdex local` with a secured OpenSearch.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;

use anyhow::ensure;
use e2e::{
    fleet::{Fleet, unique, unique_prefix},
    local::{Local, kubeconfig},
    objects::Objects,
    poll::eventually,
    scenario::DEADLINE,
};
use serde_json::json;

use super::dashboards_roles::secured;

#[tokio::test]
async fn local_stores_objects_in_a_secured_opensearch() {
    let fleet = Fleet::shared(secured()).await.unwrap();
    let server = fleet.opensearch().unwrap();
    let namespace = unique("local");
    let member = Objects::of(fleet.member(1).unwrap()).unwrap();
    member.create_namespace(&namespace).await.unwrap();
    let folder = fleet.dir().join("local");
    fs::create_dir_all(&folder).unwrap();
    let (config, password) = (folder.join("kubeconfig.json"), folder.join("password"));
    fs::write(&config, kubeconfig(&fleet).to_string()).unwrap();
    fs::write(&password, format!("{}\n", server.password().unwrap())).unwrap();
    let prefix = unique_prefix("local");
    let flags = [
        "--context=east".to_owned(),
        "--resource=namespaces".to_owned(),
        format!("--opensearch={}", server.url()),
        format!("--opensearch-user={}", server.username().unwrap()),
        format!("--opensearch-password-file={}", password.display()),
        format!(
            "--opensearch-ca-file={}",
            server.ca_path().unwrap().display()
        ),
        format!("--index-prefix={prefix}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let local = Local::start(&folder, &config, &flags).unwrap();
    local.until_logged(&["east: in sync"]).await.unwrap();
    let shown = local.get(&["namespaces", "-o", "name"]).await.unwrap();
    assert!(shown.contains(&namespace), "{shown}");
    let client = server.client().unwrap();
    eventually("the namespace is in OpenSearch", DEADLINE, || async {
        let query = json!({ "term": { "metadata.name": namespace } });
        let found = client.count(&prefix, &query).await?;
        ensure!(found == 1, "{found} documents");
        Ok(())
    })
    .await
    .unwrap();
}
