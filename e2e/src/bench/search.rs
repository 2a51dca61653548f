//! A search over all kinds, sent to Fleetdex and to OpenSearch itself with the same body.

use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use fleetdex_core::query::{Facet, Query, RankedQuery, Requester, Word};
use fleetdex_store::opensearch::dsl::ranked_body;
use serde_json::Value;

use super::{
    figures::{Figures, verdict},
    query_client::{
        APPLICATIONS, LARGE_FLEET, NAME, QueryClient, WARM_UP, all_pods, report_line, url_encoded,
    },
    times::Times,
};

/// Objects of a page.
const LIMIT: usize = 50;
/// Limit of the ratio to the bare search.
const MAX_RATIO: f64 = 1.3;

/// Searches both in turn, so that disturbances affect both.
pub(super) async fn measure(
    query_client: &QueryClient<'_>,
    queries: usize,
    figures: &mut Figures,
) -> Result<()> {
    let (mut bare, mut server) = (Times::default(), Times::default());
    for number in 0..queries + WARM_UP {
        let word = format!("service-{:02}", number % APPLICATIONS);
        let started = Instant::now();
        let hits = query_client.search_bare(&word).await?;
        let of_bare = started.elapsed();
        let started = Instant::now();
        let objects = query_client.search(&word).await?;
        let of_server = started.elapsed();
        if number < WARM_UP {
            let (hits, objects): (Value, Value) = (
                serde_json::from_slice(&hits)?,
                serde_json::from_slice(&objects)?,
            );
            let found = objects["items"].as_array().map_or(0, Vec::len);
            let total = objects["metadata"]["remainingItemCount"]
                .as_u64()
                .unwrap_or(0)
                + found as u64;
            ensure!(
                hits["hits"]["total"]["value"] == total && found > 0,
                "{total} objects of {}",
                hits["hits"]["total"]
            );
            continue;
        }
        bare.push(of_bare.as_secs_f64() * 1000.0);
        server.push(of_server.as_secs_f64() * 1000.0);
    }
    let many = if query_client.objects >= LARGE_FLEET {
        "search_200k"
    } else {
        "search"
    };
    bare.set(&format!("{many}_bare"), figures);
    server.set(many, figures);
    let subject = format!(
        "a word among {} objects of all kinds, {LIMIT} objects and counts",
        query_client.objects
    );
    let text = format!(
        "{}; bare search {}; p50 at most {MAX_RATIO} ×: {}",
        server.text(),
        bare.text(),
        verdict(server.quantile(0.5) <= MAX_RATIO * bare.quantile(0.5))
    );
    report_line(figures, &subject, text);
    Ok(())
}

impl QueryClient<'_> {
    async fn search(&self, word: &str) -> Result<Bytes> {
        let url = format!(
            "{}/objects?q={}&limit={LIMIT}&facets=kind,cluster,namespace,health",
            self.server,
            url_encoded(word)
        );
        self.body(self.client.get(url).bearer_auth(&self.token))
            .await
    }

    async fn search_bare(&self, word: &str) -> Result<Bytes> {
        let query = Query {
            words: [Word::new(word, false)].into_iter().collect(),
            ..all_pods()
        };
        let body = ranked_body(&RankedQuery {
            queries: vec![query],
            requester: Requester::Operator,
            limit: LIMIT,
            after: None,
            facets: Facet::ALL.to_vec(),
        })?;
        let url = format!(
            "{}/{NAME}/_search?ignore_unavailable=true&allow_no_indices=true",
            self.opensearch
        );
        self.body(self.client.post(url).json(&body)).await
    }
}
