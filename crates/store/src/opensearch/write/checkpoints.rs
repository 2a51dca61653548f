//! Checkpoints in the index `<prefix>.state`: one document for each cluster.

use async_trait::async_trait;
use fleetdex_core::model::{ClusterName, IndexName, JsonLine};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::{
    CheckpointStore, Checkpoints, StoreError,
    opensearch::{connection::client::parse, engine::Engine},
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

    pub(crate) async fn delete_checkpoints(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        let action = json!({ "delete": { "_index": self.options.prefix.state(), "_id": self.document_id(cluster) } });
        let line = JsonLine::new(action.to_string());
        self.client
            .bulk_of_all("deleting checkpoints", &[line], 1)
            .await
            .map(drop)
    }
}

#[async_trait]
impl CheckpointStore for Engine {
    async fn checkpoints(&self, cluster: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        let operation = "reading checkpoints";
        let state = self.options.prefix.state();
        let path = format!("/{state}/_doc/{}", self.document_id(cluster));
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

    async fn save_checkpoints(&self, checkpoints: &[Checkpoints]) -> Result<(), StoreError> {
        let _in_use = self.keep_in_use().await?;
        let index = self.options.prefix.state();
        let lines = checkpoints.iter().flat_map(|of_cluster| {
            let action = json!({ "index": { "_index": index, "_id": self.document_id(&of_cluster.cluster) } });
            let dated = Checkpoints { at: Some(Timestamp::now()), ..of_cluster.clone() };
            [action, json!(dated)].map(|line| JsonLine::new(line.to_string()))
        });
        let lines: Vec<JsonLine> = lines.collect();
        self.client
            .bulk_of_all("writing checkpoints", &lines, checkpoints.len())
            .await
            .map(drop)
    }
}
