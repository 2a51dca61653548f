//! Searches over several resources.

use std::collections::BTreeMap;

use fleetdex_core::{
    model::HitSource,
    query::{Facet, Permitted, Query, RankPosition, RankedHit, RankedPage, RankedQuery},
};
use serde_json::Value;

use super::{
    pages::read_hit,
    search_response::{RawHit, SearchResponse, TermsResponse},
};
use crate::{
    StoreError,
    opensearch::{
        connection::responses::Purpose,
        dsl::ranked_body,
        engine::{Engine, search_path},
    },
};

impl Engine {
    pub(crate) async fn search_ranked(
        &self,
        ranked: &RankedQuery,
    ) -> Result<RankedPage, StoreError> {
        let body = ranked_body(ranked)?;
        let Some(target) = self.ranked_target(&ranked.queries) else {
            return Ok(RankedPage::default());
        };
        let path = search_path(&target);
        let purpose = Purpose::from(&ranked.requester);
        let answer: SearchResponse<HitSource> = self.run_search(purpose, path, &body).await?;
        read_page(answer, ranked.limit)
    }

    /// The targets of all queries: the aliases of their clusters, or the alias over all.
    pub(crate) fn ranked_target(&self, queries: &[Query]) -> Option<String> {
        let mut clusters = Vec::new();
        for query in queries {
            match query.permitted.clusters(&query.clusters) {
                None => return self.target(&[], &Permitted::Everything),
                Some(of_query) => clusters.extend(of_query),
            }
        }
        clusters.sort_unstable();
        clusters.dedup();
        if clusters.is_empty() {
            return None;
        }
        self.target(&clusters, &Permitted::Everything)
    }
}

fn read_page(answer: SearchResponse<HitSource>, limit: usize) -> Result<RankedPage, StoreError> {
    let mut hits = answer.hits.hits;
    let more = hits.len() > limit;
    hits.truncate(limit);
    let read = |hit: RawHit<HitSource>| {
        let position = read_position(&hit.sort).ok_or_else(|| {
            let reason = format!("document {} has no sort values of a search", hit.id);
            StoreError::garbled("a search", reason)
        })?;
        read_hit(hit).map(|hit| RankedHit { hit, position })
    };
    let mut page = RankedPage {
        items: hits.into_iter().map(read).collect::<Result<_, _>>()?,
        more,
        total: answer.hits.total.map_or(0, |total| total.value),
        ..RankedPage::default()
    };
    if let Some(aggregations) = answer.aggregations {
        read_facets(aggregations, &mut page)?;
    }
    Ok(page)
}

/// The score is a sum of whole numbers, and few of them: exact as a float.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates"
)]
fn read_position(sort: &[Value]) -> Option<RankPosition> {
    let [score, created, cluster, uid, api_version, kind] = sort else {
        return None;
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let created = created.as_i64().filter(|time| *time != i64::MIN);
    Some(RankPosition {
        score: std::cmp::Reverse(score.as_f64()? as u32),
        created: std::cmp::Reverse(created),
        cluster: text(cluster),
        uid: text(uid),
        api_version: text(api_version),
        kind: text(kind),
    })
}

fn read_facets(aggregations: Value, page: &mut RankedPage) -> Result<(), StoreError> {
    let mut read: BTreeMap<String, TermsResponse> = serde_json::from_value(aggregations)
        .map_err(|error| StoreError::garbled("a search", error))?;
    for facet in Facet::ALL {
        let Some(response) = read.remove(facet.name()) else {
            continue;
        };
        let buckets = response.buckets.into_iter();
        let counts = buckets.map(|bucket| (bucket.key, bucket.doc_count));
        page.facets.insert(facet, counts.collect());
        page.others.insert(facet, response.sum_other_doc_count);
    }
    Ok(())
}
