//! A cache of documents of members, such as `OpenAPI`, that clients read again and again.

use std::{collections::VecDeque, fmt, time::Duration};

use axum::body::Bytes;
use fleetdex_clusters::impersonate::Impersonation;
use fleetdex_core::model::ClusterName;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::forward::MemberResponse;

/// How long a document is fresh.
const TTL: Duration = Duration::from_mins(1);
/// Bytes of all cached documents: those of a dozen groups in both encodings, and one of everything.
const MAX_BYTES: usize = 16 << 20;

/// Documents of members, for [`TTL`].
#[derive(Default)]
pub(super) struct DocumentCache(Mutex<VecDeque<CachedDocument>>);

struct CachedDocument {
    key: DocumentKey,
    response: MemberResponse,
    read: Instant,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct DocumentKey {
    pub(super) cluster: ClusterName,
    pub(super) who: Impersonation,
    pub(super) uri: String,
    pub(super) accept: Vec<u8>,
}

impl CachedDocument {
    fn size(&self) -> usize {
        self.response.body.len() + self.key.uri.len() + self.key.accept.len()
    }
}

impl DocumentCache {
    pub(super) fn get(&self, key: &DocumentKey) -> Option<MemberResponse> {
        let mut cached = self.0.lock();
        let now = Instant::now();
        cached.retain(|document| now.duration_since(document.read) < TTL);
        let found = cached.iter().find(|document| document.key == *key);
        found.map(|document| document.response.clone())
    }

    pub(super) fn insert(&self, key: DocumentKey, response: &MemberResponse) {
        let mut cached = self.0.lock();
        cached.retain(|document| document.key != key);
        // A copy, as the memory of the response is reserved for the user who asked first.
        let response = MemberResponse {
            body: Bytes::copy_from_slice(&response.body),
            ..response.clone()
        };
        cached.push_back(CachedDocument {
            key,
            response,
            read: Instant::now(),
        });
        while cached.iter().map(CachedDocument::size).sum::<usize>() > MAX_BYTES {
            cached.pop_front();
        }
    }
}

impl fmt::Debug for DocumentCache {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cached = self.0.lock();
        out.debug_struct("DocumentCache")
            .field("cached", &cached.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn the_cache_is_bounded_and_separates_users() {
        let documents = DocumentCache::default();
        let key = |uri: &str| DocumentKey {
            cluster: "m".parse().unwrap(),
            who: Impersonation::default(),
            uri: uri.to_owned(),
            accept: Vec::new(),
        };
        let response = |bytes: usize| MemberResponse {
            status: StatusCode::OK,
            headers: http::HeaderMap::new(),
            body: vec![0; bytes].into(),
        };
        documents.insert(key("/a"), &response(MAX_BYTES / 2 - 2));
        documents.insert(key("/b"), &response(MAX_BYTES / 2 - 2));
        assert!(documents.get(&key("/a")).is_some() && documents.get(&key("/b")).is_some());
        documents.insert(key("/c"), &response(1));
        assert!(documents.get(&key("/a")).is_none() && documents.get(&key("/c")).is_some());
        let alice = Impersonation {
            user: Some("a".to_owned()),
            ..Impersonation::default()
        };
        assert!(
            documents
                .get(&DocumentKey {
                    who: alice,
                    ..key("/b")
                })
                .is_none()
        );
    }
}
