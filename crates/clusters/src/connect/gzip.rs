//! Asks for responses in gzip, and unpacks them.
//!
//! `tower-http` unpacks into pieces of 4 KiB, each of which costs allocations and a poll of every
//! layer around it. A page of a list has megabytes.

use std::io;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::Bytes;
use futures::TryStreamExt as _;
use http::{
    HeaderValue, Request, Response,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH},
};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use tokio_util::io::{ReaderStream, StreamReader};
use tower::BoxError;

/// Bytes of a piece of an unpacked body. What a TLS record holds unpacks to about as much.
const PIECE: usize = 64 << 10;
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// The request, which asks for gzip unless it asks for another encoding.
pub fn accepting_gzip<B>(mut request: Request<B>) -> Request<B> {
    request.headers_mut().entry(ACCEPT_ENCODING).or_insert(GZIP);
    request
}

/// The response, whose body is unpacked as it is read. Nothing bounds what it unpacks to: its
/// reader has to.
pub fn unpacked<B>(mut response: Response<B>) -> Response<UnsyncBoxBody<Bytes, BoxError>>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let is_packed = response.headers().get(CONTENT_ENCODING) == Some(&GZIP);
    if is_packed {
        response.headers_mut().remove(CONTENT_ENCODING);
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    response.map(|body| {
        let body = body.map_err(Into::into);
        if is_packed {
            unpack(body).boxed_unsync()
        } else {
            body.boxed_unsync()
        }
    })
}

fn unpack(
    packed: impl Body<Data = Bytes, Error = BoxError> + Send + 'static,
) -> impl Body<Data = Bytes, Error = BoxError> + Send + 'static {
    let packed = packed.into_data_stream().map_err(io::Error::other);
    let mut unpacker = GzipDecoder::new(StreamReader::new(Box::pin(packed)));
    // A server may pack parts of a response one by one.
    unpacker.multiple_members(true);
    let pieces = ReaderStream::with_capacity(unpacker, PIECE);
    StreamBody::new(pieces.map_ok(Frame::data).map_err(BoxError::from))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use http_body_util::Full;

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn response(body: Vec<u8>, encoding: Option<&'static str>) -> Response<Full<Bytes>> {
        let mut response = Response::builder();
        if let Some(encoding) = encoding {
            response = response
                .header(CONTENT_ENCODING, encoding)
                .header(CONTENT_LENGTH, body.len());
        }
        response.body(Full::new(body.into())).unwrap()
    }

    async fn read(response: Response<Full<Bytes>>) -> Result<String, BoxError> {
        let bytes = unpacked(response).into_body().collect().await?.to_bytes();
        Ok(String::from_utf8(bytes.to_vec())?)
    }

    #[tokio::test]
    async fn gzip_is_unpacked_in_large_pieces() {
        let text = "pods and nodes ".repeat(40_000);
        let response = unpacked(response(gzip(&text), Some("gzip")));
        assert!(response.headers().is_empty(), "{:?}", response.headers());
        let mut body = response.into_body();
        let (mut whole, mut pieces) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            whole.extend_from_slice(&frame.unwrap().into_data().unwrap());
            pieces += 1;
        }
        assert_eq!(String::from_utf8(whole).unwrap(), text);
        assert!(pieces <= text.len() / PIECE + 2, "{pieces} pieces");
    }

    #[tokio::test]
    async fn a_body_of_several_members_is_read_to_its_end() {
        let body = [gzip("one "), gzip("two")].concat();
        let text = read(response(body, Some("gzip"))).await.unwrap();
        assert_eq!(text, "one two");
    }

    #[tokio::test]
    async fn a_body_that_is_not_packed_stays_as_it_is() {
        let text = read(response(b"text".to_vec(), None)).await.unwrap();
        assert_eq!(text, "text");
        let text = read(response(b"text".to_vec(), Some("identity"))).await;
        assert_eq!(text.unwrap(), "text");
    }

    #[tokio::test]
    async fn a_body_that_ends_early_or_is_no_gzip_is_an_error() {
        let mut short = gzip("a text that ends early");
        short.truncate(short.len() / 2);
        assert!(read(response(short, Some("gzip"))).await.is_err());
        let other = b"no gzip at all".to_vec();
        assert!(read(response(other, Some("gzip"))).await.is_err());
    }

    #[test]
    fn another_encoding_stays_asked_for() {
        let plain = accepting_gzip(Request::new(()));
        assert_eq!(plain.headers()[ACCEPT_ENCODING], "gzip");
        let request = Request::builder().header(ACCEPT_ENCODING, "identity");
        let asked = accepting_gzip(request.body(()).unwrap());
        assert_eq!(asked.headers()[ACCEPT_ENCODING], "identity");
    }
}
