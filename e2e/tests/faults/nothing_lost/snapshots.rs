//! Indices that are restored from snapshots of OpenSearch, with documents of the past.

use anyhow::ensure;
use e2e::{
    oracle::{indices, read_alias, revisions},
    scenario::{DEADLINE, Stage, until},
    test_result::Tested,
};
use serde_json::json;

use super::{BOTH, Fixture, stop, until_written};

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
        until("the snapshot is complete", || async {
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
            let removed = until("the snapshot is removed", || async {
                opensearch.delete(&path).await.map(drop)
            });
            removed.await.unwrap();
        }
    }
}

#[tokio::test]
async fn indices_that_are_restored_from_a_snapshot_are_brought_up_to_date() -> Tested {
    let stage = Stage::enter().await?;
    let mut fixture = Fixture::both_members(&stage, "snapshot").await;
    let prefix = fixture.registry.prefix.clone();
    let churns = fixture.start_churn();
    until_written(&churns, 50).await;
    let snapshot = Snapshot::of(&stage, &prefix).await;
    // Objects are created, changed and deleted after the snapshot.
    until_written(&churns, 200).await;
    stop(churns).await?;
    fixture.until_equal().await;

    // OpenSearch is restored while the operator is stopped.
    stage.operator.terminate(DEADLINE).await?;
    let mut lost = indices(&stage.opensearch, &prefix).await?;
    lost.push(format!("{prefix}.state"));
    for index in lost {
        stage.opensearch.delete(&index).await?;
    }
    snapshot.restore("*").await;
    stage.operator.restart_until_ready(DEADLINE).await?;
    fixture.until_equal().await;
    fixture.registry.until_ready().await?;
    let verified = stage.operator.run_command("verify").await?;
    assert_eq!(verified.code, 0, "{verified:?}");

    // One that was replaced since is restored beside its successor, while the operator runs.
    fixture.registry.store()["fieldPaths"] = json!(["metadata.generateName"]);
    fixture.registry.apply().await?;
    until_replaced(&stage, &prefix).await?;
    snapshot.restore(&format!("{prefix}-*.g1")).await;
    until_replaced(&stage, &prefix).await?;
    fixture.until_equal().await;

    // The same, where the successor is lost, too.
    let [current] = &revisions(&stage.opensearch, &prefix, BOTH[0]).await?[..] else {
        panic!("more than one revision");
    };
    stage.opensearch.delete(current).await?;
    snapshot.restore(&format!("{prefix}-{}.g1", BOTH[0])).await;
    until_replaced(&stage, &prefix).await?;
    fixture.check_and_remove().await?;
    snapshot.remove().await;
    Ok(())
}

/// Waits until each cluster has one index, and not that of the snapshot.
async fn until_replaced(stage: &Stage, prefix: &str) -> Tested {
    until("no index of the snapshot is left", || async {
        for cluster in BOTH {
            let found = revisions(&stage.opensearch, prefix, cluster).await?;
            let of_snapshot = format!("{}.g1", read_alias(prefix, cluster)?);
            let is_replaced = found.len() == 1 && found[0] != of_snapshot;
            ensure!(is_replaced, "{found:?}");
        }
        Ok(())
    })
    .await?;
    Ok(())
}
