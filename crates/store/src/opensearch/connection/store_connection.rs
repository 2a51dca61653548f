//! The connection of a store, which everything that reads and writes the store shares.
//!
//! Guarantee: a request that begins after the service was replaced or closed does not go through
//! the former one, whether it reads or writes.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use parking_lot::RwLock;
use tower::{ServiceExt as _, util::BoxCloneSyncService};

use super::transport::{OpenSearchService, StoreClosed, TransportError};

/// The service that requests to one store go through now, or why there is none. Clones share it.
#[derive(Clone)]
pub struct StoreConnection(Arc<RwLock<Result<OpenSearchService, StoreClosed>>>);

impl Default for StoreConnection {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Err(StoreClosed {
            reason: "NotOpened",
            message: "the store has not been opened yet".to_owned(),
        }))))
    }
}

impl StoreConnection {
    /// Sends all further requests through this service.
    pub fn replace(&self, service: OpenSearchService) {
        *self.0.write() = Ok(service);
    }

    /// Refuses all further requests.
    pub fn close(&self, closed: StoreClosed) {
        *self.0.write() = Err(closed);
    }

    /// A service that follows this connection.
    pub fn service(&self) -> OpenSearchService {
        let connection = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
            let current = connection.0.read().clone().map_err(TransportError::Closed);
            async move { current?.oneshot(request).await }
        }))
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    fn answering(text: &'static str) -> OpenSearchService {
        BoxCloneSyncService::new(tower::service_fn(move |_| async move {
            Ok(Response::new(Bytes::from_static(text.as_bytes())))
        }))
    }

    async fn ask(service: &OpenSearchService) -> Result<Bytes, TransportError> {
        let answer = service.clone().oneshot(Request::new(Bytes::new())).await;
        answer.map(Response::into_body)
    }

    #[tokio::test]
    async fn every_service_follows_what_replaces_or_closes_the_connection() {
        let connection = StoreConnection::default();
        let (reader, writer) = (connection.service(), connection.clone().service());
        assert!(ask(&reader).await.is_err());
        for answer in ["first", "second"] {
            connection.replace(answering(answer));
            assert_eq!(ask(&reader).await.unwrap(), answer);
            assert_eq!(ask(&writer).await.unwrap(), answer);
        }
        let closed = StoreClosed {
            reason: "HostNotAllowed",
            message: "withdrawn".to_owned(),
        };
        connection.close(closed.clone());
        for service in [&reader, &writer] {
            let error = ask(service).await.unwrap_err();
            assert!(matches!(error, TransportError::Closed(why) if why == closed));
        }
    }
}
