//! Pulls artifacts from a registry, as the
//! [distribution specification](https://github.com/opencontainers/distribution-spec) has it.

use reqwest::{
    StatusCode, Url,
    header::{LINK, WWW_AUTHENTICATE},
};
use serde::Deserialize;

use super::{
    challenge::AuthChallenge,
    error::FetchError,
    http::{BoundedAnswer, FetchClient, RequestAuth},
    reference::{OciReference, is_digest, is_tag},
};
use crate::{
    archive::MAX_PACKED_BYTES,
    digest::Sha256Digest,
    version::{VersionConstraint, parse_version},
};

/// What registries have to accept at least: the specification.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;
const MAX_TOKEN_BYTES: u64 = 64 << 10;
/// The most pages of tags; a page has 1,000 commonly.
const MAX_TAG_PAGES: usize = 20;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const ANY: &str = "*/*";

/// The artifacts of one name in a registry.
pub(super) struct Registry<'h> {
    http: &'h FetchClient,
    reference: &'h OciReference,
    root: Url,
}

#[derive(Deserialize)]
struct OciManifest {
    #[serde(default)]
    layers: Vec<OciLayer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciLayer {
    media_type: String,
    digest: String,
}

#[derive(Deserialize)]
struct OciTags {
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct OciToken {
    #[serde(alias = "access_token")]
    token: String,
}

impl<'h> Registry<'h> {
    pub(super) fn new(
        http: &'h FetchClient,
        reference: &'h OciReference,
    ) -> Result<Self, FetchError> {
        let OciReference {
            authority,
            repository,
            ..
        } = reference;
        let root = format!("{}://{authority}/v2/{repository}/", http.scheme());
        Ok(Self {
            http,
            reference,
            root: http.url(&root, "a registry")?,
        })
    }

    /// The tag or digest of a version: that of the address, or the newest that is accepted.
    pub(super) async fn resolve(&self, version: &str) -> Result<String, FetchError> {
        if !self.reference.version.is_empty() {
            return Ok(self.reference.version.clone());
        }
        // A tag has no '+'; helm writes '_' for it.
        let tag = version.replace('+', "_");
        if semver::Version::parse(version).is_ok() && is_tag(&tag) {
            return Ok(tag);
        }
        let constraint: VersionConstraint = version.parse()?;
        let tags = self.tags().await?;
        let count = tags.len();
        let versions = tags.into_iter().filter_map(|tag| {
            let version = parse_version(&tag.replace('_', "+"))?;
            Some((version, tag))
        });
        let newest = constraint.newest(versions);
        newest.ok_or_else(|| FetchError::Version {
            chart: format!("{}/{}", self.reference.authority, self.reference.repository),
            constraint: version.to_owned(),
            count,
        })
    }

    /// The layer of an artifact that is a gzipped tar.
    pub(super) async fn pull(&self, version: &str) -> Result<Vec<u8>, FetchError> {
        let url = self.address(&format!("manifests/{version}"))?;
        let bytes = self
            .get(&url, MANIFEST, MAX_MANIFEST_BYTES)
            .await?
            .success()?;
        if is_digest(version) {
            verify(&url, &bytes, version)?;
        }
        let unusable = |reason: String| FetchError::Answer {
            url: url.to_string(),
            reason,
        };
        let manifest: OciManifest =
            serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        let layer = manifest.archive();
        let layer =
            layer.ok_or_else(|| unusable("it has no layer that is a tar+gzip".to_owned()))?;
        if !is_digest(&layer.digest) {
            return Err(unusable(
                "the digest of its layer is not of SHA-256".to_owned(),
            ));
        }
        let url = self.address(&format!("blobs/{}", layer.digest))?;
        let bytes = self.get(&url, ANY, MAX_PACKED_BYTES).await?.success()?;
        verify(&url, &bytes, &layer.digest)?;
        Ok(bytes)
    }

    async fn tags(&self) -> Result<Vec<String>, FetchError> {
        let mut url = self.address("tags/list")?;
        let mut tags = Vec::new();
        for _ in 0..MAX_TAG_PAGES {
            let answer = self.get(&url, ANY, MAX_MANIFEST_BYTES).await?;
            let next = answer.headers.get(LINK).and_then(|link| link.to_str().ok());
            let next = next.and_then(next_page).map(str::to_owned);
            let bytes = answer.success()?;
            let page: OciTags =
                serde_json::from_slice(&bytes).map_err(|error| FetchError::Answer {
                    url: url.to_string(),
                    reason: error.to_string(),
                })?;
            tags.extend(page.tags.unwrap_or_default());
            match next {
                Some(next) => url = self.address(&next)?,
                None => return Ok(tags),
            }
        }
        Err(FetchError::Answer {
            url: url.to_string(),
            reason: format!(
                "it has more than {MAX_TAG_PAGES} pages of tags: name an exact version"
            ),
        })
    }

    /// An address below the artifacts of this name.
    fn address(&self, path: &str) -> Result<Url, FetchError> {
        // A digest would be taken as a scheme.
        let url = if path.starts_with('/') {
            self.root.join(path).map(String::from)
        } else {
            Ok(format!("{}{path}", self.root))
        };
        self.http.url(&url.unwrap_or_default(), "a registry")
    }

    /// Gets what is at an address, authenticated as the registry asks.
    async fn get(&self, url: &Url, accept: &str, limit: u64) -> Result<BoundedAnswer, FetchError> {
        let answer = self
            .http
            .get(url, accept, RequestAuth::Anonymous, limit)
            .await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenge = answer.headers.get(WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|header| header.to_str().ok());
        match challenge.and_then(AuthChallenge::parse) {
            Some(AuthChallenge::Basic) if self.http.has_credentials(url) => {
                self.http.get(url, accept, RequestAuth::Basic, limit).await
            }
            Some(AuthChallenge::Bearer { realm, service }) => {
                let token = self.token(&realm, &service).await?;
                let auth = RequestAuth::Bearer(&token);
                self.http.get(url, accept, auth, limit).await
            }
            _ => Ok(answer),
        }
    }

    /// A token for pulling. The service is asked with the credentials that are bound to its own
    /// host: a registry can name any.
    async fn token(&self, realm: &str, service: &str) -> Result<String, FetchError> {
        let mut url = self.http.url(realm, "a token service")?;
        let scope = format!("repository:{}:pull", self.reference.repository);
        url.query_pairs_mut()
            .append_pair("service", service)
            .append_pair("scope", &scope);
        let answer = self
            .http
            .get(&url, ANY, RequestAuth::Basic, MAX_TOKEN_BYTES);
        let bytes = answer.await?.success()?;
        let token: OciToken = serde_json::from_slice(&bytes).map_err(|_| FetchError::Answer {
            url: url.to_string(),
            reason: "it has no token".to_owned(),
        })?;
        Ok(token.token)
    }
}

impl OciManifest {
    /// The layer of a chart, or else the first one that is a gzipped tar.
    fn archive(&self) -> Option<&OciLayer> {
        let mut layers = self.layers.iter();
        let chart = layers.find(|layer| layer.media_type == CHART_LAYER);
        let mut layers = self.layers.iter();
        chart.or_else(|| layers.find(|layer| layer.media_type.ends_with("tar+gzip")))
    }
}

/// The address of the next page: `<…>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (address, relation) = link.strip_prefix('<')?.split_once('>')?;
    relation.contains("rel=\"next\"").then_some(address)
}

fn verify(url: &Url, bytes: &[u8], expected: &str) -> Result<(), FetchError> {
    let actual = Sha256Digest::of(bytes);
    if actual.as_str() == expected {
        return Ok(());
    }
    Err(FetchError::Digest {
        url: url.to_string(),
        expected: expected.to_owned(),
        actual: actual.to_string(),
    })
}
