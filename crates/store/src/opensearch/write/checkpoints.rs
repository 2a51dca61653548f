//! Checkpoints in the index `<prefix>.state`: one document for each cluster.

use fleetdex_core::model::{ClusterName, IndexName, JsonLine};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::{
    Checkpoints, StoreError,
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

    pub(crate) async fn stored_checkpoints(
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

    pub(crate) async fn write_checkpoints(
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
        let lines: Vec<JsonLine> = lines.collect();
        self.client
            .bulk_of_all("writing checkpoints", &lines, checkpoints.len())
            .await
            .map(drop)
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
