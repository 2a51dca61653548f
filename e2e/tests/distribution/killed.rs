//! An operator that is killed in every phase of a set: while it renders, keeps, begins waves,
//! writes, undoes and deletes.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{
    scenario::{DEADLINE, until},
    test_result::Tested,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    fixture::{Distributing, clusters, config_map, path_of},
    sets::{CHART, DISTRIBUTIONS, SECRET, archive, distribution, start_with},
};

const SETTINGS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {value: "{{ .Values.value }}"}
"#;
const PASSWORD: &str = "api/v1/namespaces/default/secrets/password";
/// How long after a change the operator is killed: from before it knows of the change until it is
/// usually done.
const MOMENTS: [u64; 3] = [20, 120, 500];

/// A chart in two waves.
fn set(value: &str) -> Value {
    let source = json!({"helm": {
        "configMapRef": {"name": "chart", "key": "archive.tgz"}, "values": {"value": value},
    }});
    let mut set = distribution("web", &source, &clusters(&["member1", "member2"]));
    set["spec"]["rollout"] = json!({"waves": [{"clusterAffinity": {"clusterNames": ["member2"]}}]});
    set
}

async fn is_killed(fixture: &Distributing, moment: u64) -> Result<()> {
    sleep(Duration::from_millis(moment)).await;
    fixture.operator.kill();
    fixture.operator.restart_until_ready(DEADLINE).await
}

/// Waits until both members have a value, and returns their passwords.
async fn until_all_have(fixture: &Distributing, value: &str) -> Result<Vec<Value>> {
    let settings = path_of(&config_map("settings", value))?;
    let mut passwords = Vec::new();
    for member in [1, 2] {
        fixture
            .until_member(member, &settings, value, |found| {
                found["data"]["value"] == value
            })
            .await?;
        let found = fixture
            .until_member(member, PASSWORD, "it is there", |_| true)
            .await?;
        passwords.push(found["data"]["password"].clone());
    }
    Ok(passwords)
}

async fn until_phase(fixture: &Distributing, phase: &str) -> Result<Value> {
    let path = format!("{DISTRIBUTIONS}/web");
    let found = fixture
        .until_hub(&path, phase, |found| {
            found["status"]["rollout"]["phase"] == phase
        })
        .await?;
    Ok(found["status"]["rollout"].clone())
}

#[tokio::test]
async fn an_operator_that_is_killed_in_every_phase_ends_what_it_began() -> Tested {
    let fixture = start_with(2).await?;
    let files = [
        ("web/Chart.yaml", CHART),
        ("web/templates/settings.yaml", SETTINGS),
        ("web/templates/secret.yaml", SECRET),
    ];
    fixture.apply(&archive("chart", &files)).await?;
    for (round, moment) in MOMENTS.into_iter().enumerate() {
        let value = round.to_string();
        fixture.apply(&set(&value)).await?;
        is_killed(&fixture, moment).await?;
        // One rendering went to both: the values that it has by chance are the same.
        let passwords = until_all_have(&fixture, &value).await?;
        assert_eq!(passwords[0], passwords[1]);
        let rollout = until_phase(&fixture, "Complete").await?;
        assert_eq!(rollout["stable"], rollout["revision"]);
    }
    let last = MOMENTS.len() - 1;
    for (round, moment) in MOMENTS.into_iter().enumerate() {
        let value = format!("undone{round}");
        fixture.apply(&set(&value)).await?;
        until_all_have(&fixture, &value).await?;
        let rollout = until_phase(&fixture, "Complete").await?;
        let undo = json!({"metadata": {"annotations": {
            "distribute.fleetdex.io/undo": rollout["revision"],
        }}});
        fixture
            .hub
            .merge(&format!("{DISTRIBUTIONS}/web"), &undo)
            .await?;
        is_killed(&fixture, moment).await?;
        // What was undone is no revision to go back to.
        until_all_have(&fixture, &last.to_string()).await?;
        until_phase(&fixture, "Undone").await?;
    }
    for (round, moment) in MOMENTS.into_iter().enumerate() {
        let value = format!("deleted{round}");
        fixture.apply(&set(&value)).await?;
        until_all_have(&fixture, &value).await?;
        fixture.hub.delete(&format!("{DISTRIBUTIONS}/web")).await?;
        is_killed(&fixture, moment).await?;
        let settings = path_of(&config_map("settings", ""))?;
        for member in [1, 2] {
            fixture.until_gone(member, &settings).await?;
            // The chart says that it is kept.
            fixture.members[member - 1].get(PASSWORD).await?;
            fixture.members[member - 1].delete(PASSWORD).await?;
        }
        until("the set is gone", || async {
            let found = fixture.hub.find(&format!("{DISTRIBUTIONS}/web")).await?;
            ensure!(found.is_none(), "{found:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
