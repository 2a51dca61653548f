//! `fleetdex local` with a secured OpenSearch.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;

use anyhow::ensure;
use e2e::{
    fleet::{Fleet, unique, unique_prefix},
    local::{Local, kubeconfig},
    objects::Objects,
    scenario::until,
    test_result::Tested,
};
use serde_json::json;

use super::dashboards_roles::secured;

#[tokio::test]
async fn local_stores_objects_in_a_secured_opensearch() -> Tested {
    let fleet = Fleet::shared(secured()).await?;
    let server = fleet.opensearch()?;
    let namespace = unique("local");
    let member = Objects::of(fleet.member(1))?;
    member.create_namespace(&namespace).await?;
    let folder = fleet.dir().join("local");
    fs::create_dir_all(&folder)?;
    let (config, password) = (folder.join("kubeconfig.json"), folder.join("password"));
    fs::write(&config, kubeconfig(&fleet).to_string())?;
    fs::write(&password, format!("{}\n", server.password().unwrap()))?;
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
    local.until_logged(&["east: in sync"]).await?;
    let shown = local.get("namespaces -o name").await?;
    assert!(shown.contains(&namespace), "{shown}");
    let client = server.client()?;
    until("the namespace is in OpenSearch", || async {
        let query = json!({ "term": { "metadata.name": namespace } });
        let found = client.count(&prefix, &query).await?;
        ensure!(found == 1, "{found} documents");
        Ok(())
    })
    .await?;
    Ok(())
}
