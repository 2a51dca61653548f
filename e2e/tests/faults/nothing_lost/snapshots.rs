//! Indices that are restored from snapshots of OpenSearch, with documents of the past.

use anyhow::ensure;
use e2e::{
    oracle::{indices, read_alias, revisions},
    poll::eventually,
    scenario::{DEADLINE, Stage},
};
use serde_json::json;

use super::{BOTH, Fixture, enter, stop, until_written};

/// A snapshot of the indices of one registry, in a repository of its own.
struct Snapshot<'s> {
    stage: &'s Stage,
    repository: String,
}

impl<'s> Snapshot<'s> {
    async fn of(stage: &'s Stage, prefix: &str) -> Self {
        let repository = format!("_snapshot/{prefix}");
        let folder = json!({ "type": "fs", "settings": { "location": prefix } });
        stage.opensearch.put(&repository, &folder).await.unwrap();
        let indices = json!({ "indices": format!("{prefix}-*.g*,{prefix}.state"), "include_global_state": false });
        let path = format!("{repository}/first");
        stage.opensearch.put(&path, &indices).await.unwrap();
        // Not waited for in one request: on a busy machine it takes longer than a request may.
        eventually("the snapshot is complete", DEADLINE, || async {
            let made = stage.opensearch.get(&path).await?;
            ensure!(made["snapshots"][0]["state"] == "SUCCESS", "{made}");
            Ok(())
        })
        .await
        .unwrap();
        Self { stage, repository }
    }

    /// Restores indices that match, with their aliases.
    async fn restore(&self, pattern: &str) {
        let indices = json!({ "indices": pattern, "include_global_state": false });
        let path = format!("{}/first/_restore", self.repository);
        let restored = self.stage.opensearch.post(&path, &indices).await.unwrap();
        assert_eq!(restored["accepted"], true, "{restored}");
    }

    async fn remove(self) {
        let opensearch = &self.stage.opensearch;
        for path in [format!("{}/first", self.repository), self.repository] {
            // Not while a restore of it ends.
            let removed = eventually("the snapshot is removed", DEADLINE, || async {
                opensearch.delete(&path).await.map(drop)
            });
            removed.await.unwrap();
        }
    }
}

#[tokio::test]
async fn indices_that_are_restored_from_a_snapshot_are_brought_up_to_date() {
    let stage = enter().await;
    let mut fixture = Fixture::both_members(&stage, "snapshot").await;
    let prefix = fixture.registry.prefix.clone();
    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    let snapshot = Snapshot::of(&stage, &prefix).await;
    // Objects are created, changed and deleted after the snapshot.
    until_written(&churns, 200).await;
    stop(churns).await;
    fixture.until_equal().await;

    // OpenSearch is restored while the operator is stopped.
    stage.operator.terminate(DEADLINE).await.unwrap();
    let mut lost = indices(&stage.opensearch, &prefix).await.unwrap();
    lost.push(format!("{prefix}.state"));
    for index in lost {
        stage.opensearch.delete(&index).await.unwrap();
    }
    snapshot.restore("*").await;
    stage.operator.restart().unwrap();
    stage.operator.wait_ready(DEADLINE).await.unwrap();
    fixture.until_equal().await;
    fixture.registry.until_ready().await.unwrap();
    let verified = stage.operator.run_command(&["verify"]).await.unwrap();
    assert_eq!(verified.code, 0, "{verified:?}");

    // One that was replaced since is restored beside its successor, while the operator runs.
    fixture.registry.store()["fieldPaths"] = json!(["metadata.generateName"]);
    fixture.registry.apply().await.unwrap();
    until_replaced(&stage, &prefix).await;
    snapshot.restore(&format!("{prefix}-*.g1")).await;
    until_replaced(&stage, &prefix).await;
    fixture.until_equal().await;

    // The same, where the successor is lost, too.
    let [current] = &revisions(&stage.opensearch, &prefix, BOTH[0])
        .await
        .unwrap()[..]
    else {
        panic!("more than one revision");
    };
    stage.opensearch.delete(current).await.unwrap();
    snapshot.restore(&format!("{prefix}-{}.g1", BOTH[0])).await;
    until_replaced(&stage, &prefix).await;
    fixture.check_and_remove().await;
    snapshot.remove().await;
}

/// Waits until each cluster has one index, and not that of the snapshot.
async fn until_replaced(stage: &Stage, prefix: &str) {
    eventually("no index of the snapshot is left", DEADLINE, || async {
        for cluster in BOTH {
            let found = revisions(&stage.opensearch, prefix, cluster).await?;
            let of_snapshot = format!("{}.g1", read_alias(prefix, cluster)?);
            let is_replaced = found.len() == 1 && found[0] != of_snapshot;
            ensure!(is_replaced, "{found:?}");
        }
        Ok(())
    })
    .await
    .unwrap();
}
