//! Asks another replica to verify clusters that it reads.

use fleetdex_core::model::{ClusterName, causes};
use fleetdex_query_api::report::{ReportLine, Row};
use futures::{AsyncBufReadExt as _, AsyncReadExt as _};
use tokio::time::timeout;

use super::{
    Peers,
    connection::{Lines, SILENCE_TIMEOUT, verification},
};
use crate::read::verify::VerifyingPeers;

/// The longest line of a report: some ids of documents, which are names of objects.
const MAX_LINE_BYTES: u64 = 1 << 20;

impl VerifyingPeers for Peers {
    async fn verify(&self, replica: &str, clusters: &[ClusterName]) -> Result<Vec<Row>, String> {
        let Some(shared) = &self.0 else {
            return Err("replicas can ask one another over TLS only (--api-service, --replica-address); verify there".to_owned());
        };
        let peers = shared.replicas.peers().unwrap_or_default();
        let peer = peers.into_iter().find(|peer| peer.name.as_str() == replica);
        let address = peer.and_then(|peer| peer.address);
        let address = address.ok_or("it has no address (--replica-address); verify there")?;
        let failed = |error: &dyn std::error::Error| causes(error);
        let client = (shared.connect)(address).map_err(|error| failed(&error))?;
        let mut lines = verification(&client, clusters)
            .await
            .map_err(|error| failed(&error))?;
        read_report(&mut lines).await
    }
}

/// The rows of a report that has its last line.
async fn read_report(lines: &mut Lines) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    loop {
        let mut line = Vec::new();
        let mut bounded = lines.take(MAX_LINE_BYTES);
        let read = timeout(SILENCE_TIMEOUT, bounded.read_until(b'\n', &mut line)).await;
        match read {
            Err(_) => return Err("it sends nothing any more".to_owned()),
            Ok(Err(error)) => return Err(causes(&error)),
            Ok(Ok(0)) => return Err("its report ended before it was complete".to_owned()),
            Ok(Ok(_)) => {}
        }
        match serde_json::from_slice(&line) {
            Ok(ReportLine::Row(row)) => rows.push(row),
            Ok(ReportLine::Progress { .. }) => {}
            Ok(ReportLine::End { .. }) => return Ok(rows),
            Err(error) => {
                return Err(format!(
                    "its report cannot be read; do both run the same version? {error}"
                ));
            }
        }
    }
}
