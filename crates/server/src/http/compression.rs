//! Compression of large responses for clients that accept it, as in Kubernetes' API server.
//!
//! Streams whose pieces must not wait for one another, such as events and logs, stay as they are:
//! only responses marked [`Compressible`] are compressed.

use axum::http::Response;
use http_body::Body;
use tower_http::{
    CompressionLevel,
    compression::{CompressionLayer, predicate::Predicate},
};

use crate::answers::response::Compressible;

/// Compressing smaller responses costs more time than it saves. The API server's limit.
const SMALLEST: u64 = 128 * 1024;

/// Compresses responses that are marked and large or of unknown size. The fastest level takes a
/// tenth of the time of the default one, and compresses similar objects almost as well.
pub fn layer() -> CompressionLayer<IfLarge> {
    CompressionLayer::new()
        .gzip(true)
        .quality(CompressionLevel::Fastest)
        .compress_when(IfLarge)
}

/// Whether a response is marked and large.
#[derive(Clone, Copy, Debug)]
pub struct IfLarge;

impl Predicate for IfLarge {
    fn should_compress<B: Body>(&self, response: &Response<B>) -> bool {
        let is_marked = response.extensions().get::<Compressible>().is_some();
        let size = response.body().size_hint().exact();
        is_marked && size.is_none_or(|size| size >= SMALLEST)
    }
}
