//! A cache of documents of members, such as `OpenAPI`, that clients read again and again.

use std::{collections::VecDeque, fmt, time::Duration};

use axum::body::Bytes;
use fleetdex_clusters::impersonate::Impersonation;
use fleetdex_core::model::ClusterName;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::forward::Answer;

/// How long a document is given again without asking.
const FRESH: Duration = Duration::from_mins(1);
/// Bytes of all documents that are kept: those of a dozen groups in both encodings, and one of everything.
const MAX_KEPT: usize = 32 << 20;

/// Documents of members, for a short while.
#[derive(Default)]
pub(super) struct Documents(Mutex<VecDeque<Kept>>);

struct Kept {
    key: Key,
    answer: Answer,
    read: Instant,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) cluster: ClusterName,
    pub(super) who: Impersonation,
    pub(super) uri: String,
    pub(super) accept: Vec<u8>,
}

impl Kept {
    fn size(&self) -> usize {
        self.answer.body.len() + self.key.uri.len() + self.key.accept.len()
    }
}

impl Documents {
    pub(super) fn find(&self, key: &Key) -> Option<Answer> {
        let mut kept = self.0.lock();
        let now = Instant::now();
        kept.retain(|document| now.duration_since(document.read) < FRESH);
        kept.iter()
            .find(|document| document.key == *key)
            .map(|document| document.answer.clone())
    }

    pub(super) fn keep(&self, key: Key, answer: &Answer) {
        let mut kept = self.0.lock();
        kept.retain(|document| document.key != key);
        // A copy: the answer itself counts among those of the user who asked first.
        let answer = Answer {
            body: Bytes::copy_from_slice(&answer.body),
            ..answer.clone()
        };
        kept.push_back(Kept {
            key,
            answer,
            read: Instant::now(),
        });
        while kept.iter().map(Kept::size).sum::<usize>() > MAX_KEPT {
            kept.pop_front();
        }
    }
}

impl fmt::Debug for Documents {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.lock();
        out.debug_struct("Documents")
            .field("kept", &kept.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn documents_are_kept_within_bounds() {
        let documents = Documents::default();
        let key = |uri: &str| Key {
            cluster: "m".parse().unwrap(),
            who: Impersonation::default(),
            uri: uri.to_owned(),
            accept: Vec::new(),
        };
        let answer = |bytes: usize| Answer {
            status: StatusCode::OK,
            headers: http::HeaderMap::new(),
            body: vec![0; bytes].into(),
        };
        documents.keep(key("/a"), &answer(MAX_KEPT / 2 - 2));
        documents.keep(key("/b"), &answer(MAX_KEPT / 2 - 2));
        assert!(documents.find(&key("/a")).is_some() && documents.find(&key("/b")).is_some());
        documents.keep(key("/c"), &answer(1));
        assert!(documents.find(&key("/a")).is_none() && documents.find(&key("/c")).is_some());
        let somebody = Impersonation {
            user: Some("a".to_owned()),
            ..Impersonation::default()
        };
        assert!(
            documents
                .find(&Key {
                    who: somebody,
                    ..key("/b")
                })
                .is_none()
        );
    }
}
