//! Chart repositories: an `index.yaml`, and archives beside it.

use std::collections::BTreeMap;

use reqwest::Url;
use semver::Version;
use serde::Deserialize;

use super::{
    error::FetchError,
    http::{FetchClient, RequestAuth},
};
use crate::{
    archive::MAX_PACKED_BYTES,
    digest::Sha256Digest,
    version::{VersionConstraint, parse_version},
};

/// As in Flux. Source: `MaxIndexSize` of source-controller's `internal/helm`.
const MAX_INDEX_BYTES: u64 = 50 << 20;
const ANY: &str = "*/*";

/// A repository.
pub(super) struct ChartRepository<'h> {
    http: &'h FetchClient,
    /// With a slash at its end.
    url: Url,
}

/// The index, by the names of charts.
#[derive(Deserialize)]
struct ChartIndex {
    #[serde(default)]
    entries: BTreeMap<String, Vec<IndexedChart>>,
}

/// One version of a chart.
#[derive(Clone, Deserialize)]
struct IndexedChart {
    #[serde(default)]
    version: String,
    #[serde(default)]
    urls: Vec<String>,
    #[serde(default)]
    digest: String,
}

impl<'h> ChartRepository<'h> {
    pub(super) fn new(http: &'h FetchClient, url: &str) -> Result<Self, FetchError> {
        let folder = format!("{}/", url.trim_end_matches('/'));
        let url = http.url(&folder, "a chart repository")?;
        Ok(Self { http, url })
    }

    /// The archive of a chart, and its version.
    pub(super) async fn chart(
        &self,
        name: &str,
        version: &str,
    ) -> Result<(Vec<u8>, String), FetchError> {
        let chosen = self.find(name, version).await?;
        let address = chosen.urls.first().and_then(|url| self.url.join(url).ok());
        let address = address.ok_or_else(|| FetchError::Answer {
            url: self.url.to_string(),
            reason: format!("{name} {} has no address", chosen.version),
        })?;
        let url = self.http.url(address.as_str(), "a chart")?;
        let answer = self
            .http
            .get(&url, ANY, RequestAuth::Basic, MAX_PACKED_BYTES);
        let bytes = answer.await?.success()?;
        let actual = Sha256Digest::of(&bytes);
        let expected = chosen.digest.trim_start_matches("sha256:");
        // helm accepts an index without digests.
        if !expected.is_empty() && !actual.as_str().ends_with(&format!(":{expected}")) {
            return Err(FetchError::Digest {
                url: url.to_string(),
                expected: format!("sha256:{expected}"),
                actual: actual.to_string(),
            });
        }
        Ok((bytes, chosen.version))
    }

    async fn find(&self, name: &str, version: &str) -> Result<IndexedChart, FetchError> {
        let constraint: VersionConstraint = version.parse()?;
        let unusable = |reason: String| FetchError::Answer {
            url: self.url.to_string(),
            reason,
        };
        let url = self.url.join("index.yaml");
        let url = url.map_err(|error| unusable(error.to_string()))?;
        let answer = self
            .http
            .get(&url, ANY, RequestAuth::Basic, MAX_INDEX_BYTES);
        let bytes = answer.await?.success()?;
        let parsed = tokio::task::spawn_blocking(move || parse_index(&bytes)).await;
        let mut index = parsed
            .map_err(|error| error.to_string())
            .and_then(|parsed| parsed)
            .map_err(unusable)?;
        let charts = index.entries.remove(name).unwrap_or_default();
        let count = charts.len();
        // A version that is written exactly so comes first, as in helm.
        if let Some(exact) = charts.iter().find(|chart| chart.version == version) {
            return Ok(exact.clone());
        }
        let versions = charts.into_iter().filter_map(|chart| {
            let version: Version = parse_version(&chart.version)?;
            Some((version, chart))
        });
        constraint
            .newest(versions)
            .ok_or_else(|| FetchError::Version {
                chart: name.to_owned(),
                constraint: version.to_owned(),
                count,
            })
    }
}

fn parse_index(bytes: &[u8]) -> Result<ChartIndex, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 32,
            max_documents: 1,
            max_events: 20_000_000,
            max_nodes: 10_000_000,
        },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| error.without_snippet().to_string())
}
