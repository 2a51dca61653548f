//! Large answers are sent compressed to clients that accept it, as Kubernetes' API server sends them.
//!
//! Streams whose pieces must not wait for one another, such as events and logs, stay as they are: only what is marked
//! [`Compressible`] is compressed.

use axum::http::Response;
use http_body::Body;
use tower_http::{
    CompressionLevel,
    compression::{CompressionLayer, predicate::Predicate},
};

/// Smaller answers cost more time than they save. The API server's limit.
const SMALLEST: u64 = 128 * 1024;

/// Marks an answer, as an extension, that may be compressed.
#[derive(Clone, Copy, Debug)]
pub struct Compressible;

/// Compresses what is marked and large, or of unknown size. The fastest level takes a tenth of the time of the usual one, and makes
/// alike objects almost as small.
pub fn layer() -> CompressionLayer<IfLarge> {
    CompressionLayer::new()
        .gzip(true)
        .quality(CompressionLevel::Fastest)
        .compress_when(IfLarge)
}

/// Whether an answer is marked and large.
#[derive(Clone, Copy, Debug)]
pub struct IfLarge;

impl Predicate for IfLarge {
    fn should_compress<B: Body>(&self, response: &Response<B>) -> bool {
        let is_marked = response.extensions().get::<Compressible>().is_some();
        is_marked
            && response
                .body()
                .size_hint()
                .exact()
                .is_none_or(|size| size >= SMALLEST)
    }
}
