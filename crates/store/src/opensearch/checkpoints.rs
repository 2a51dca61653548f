//! Checkpoints in the index `<prefix>.state`: one document for each cluster.

use fleetdex_core::model::{ClusterName, IndexName, JsonLine};
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::{
    client::{BULK_TIMEOUT, Call, parse},
    engine::Engine,
};
use crate::{
    Checkpoints, StoreError,
    bulk::{self, Verdict},
};

#[derive(Deserialize)]
struct StoredCheckpoints {
    #[serde(rename = "_source")]
    source: Option<Checkpoints>,
}

impl Engine {
    /// The escaped cluster name, which fits into a path.
    fn document_id(&self, cluster: &ClusterName) -> IndexName {
        self.options.prefix.cluster_alias(cluster)
    }

    pub(super) async fn stored_checkpoints(
        &self,
        cluster: &ClusterName,
    ) -> Result<Option<Checkpoints>, StoreError> {
        let operation = "reading checkpoints";
        let path = format!(
            "/{}/_doc/{}",
            self.options.prefix.state(),
            self.document_id(cluster)
        );
        let read = match self.get_optional(operation, path).await {
            Ok(Some(body)) => parse::<StoredCheckpoints>(operation, &body),
            Ok(None) => return Ok(None),
            Err(too_large @ StoreError::AnswerTooLarge { .. }) => Err(too_large),
            Err(error) => return Err(error),
        };
        match read {
            Ok(stored) => Ok(stored
                .source
                .filter(|checkpoints| checkpoints.cluster == *cluster)),
            Err(error) => {
                tracing::warn!(%cluster, %error, "cannot read the checkpoints of a cluster; every kind is listed");
                Ok(None)
            }
        }
    }

    pub(super) async fn write_checkpoints(
        &self,
        checkpoints: &[Checkpoints],
    ) -> Result<(), StoreError> {
        let _in_use = self.keep_in_use().await?;
        let index = self.options.prefix.state();
        let lines = checkpoints.iter().flat_map(|of_cluster| {
            let action = json!({ "index": { "_index": index, "_id": self.document_id(&of_cluster.cluster) } });
            let dated = Checkpoints { at: Some(Timestamp::now()), ..of_cluster.clone() };
            [action, json!(dated)].map(|line| JsonLine::new(line.to_string()))
        });
        self.write_state(lines.collect(), checkpoints.len()).await
    }

    pub(super) async fn delete_checkpoints(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        let action = json!({ "delete": { "_index": self.options.prefix.state(), "_id": self.document_id(cluster) } });
        self.write_state(vec![JsonLine::new(action.to_string())], 1)
            .await
    }

    async fn write_state(&self, lines: Vec<JsonLine>, count: usize) -> Result<(), StoreError> {
        let operation = "writing checkpoints";
        let path = bulk::PATH.to_owned();
        let call = Call {
            operation,
            method: Method::POST,
            path,
            body: bulk::joined(&lines),
            timeout: BULK_TIMEOUT,
        };
        let answer = self.client.call(call).await?;
        let garbled = |reason: String| StoreError::Garbled {
            operation: operation.to_owned(),
            reason,
        };
        let verdicts =
            bulk::read_response(&answer, count).map_err(|error| garbled(error.to_string()))?;
        // Without the index there is nothing to delete.
        let done = |verdict: &Verdict| {
            matches!(
                verdict,
                Verdict::Indexed | Verdict::Deleted | Verdict::Absent | Verdict::IndexMissing(_)
            )
        };
        match verdicts.into_iter().find(|verdict| !done(verdict)) {
            None => Ok(()),
            Some(refused) => Err(StoreError::Busy {
                status: 429,
                reason: format!("{refused:?}"),
            }),
        }
    }
}
