//! A bearer token that can be replaced while a connection is in use. New requests carry the new
//! token, and open watches continue, as API servers check a token only when a request arrives.

use std::{fmt, sync::Arc};

use http::{HeaderValue, Request, header::AUTHORIZATION};
use parking_lot::RwLock;
use tower::{BoxError, filter::Predicate};

/// The token of one connection, if it has one. Clones share the token.
#[derive(Clone, Default)]
pub struct Bearer(Arc<RwLock<Option<HeaderValue>>>);

impl Bearer {
    /// A token for requests; none if it has characters that are not valid in a header.
    pub fn new(token: Option<&str>) -> Self {
        Self(Arc::new(RwLock::new(token.and_then(header))))
    }

    /// Replaces the token.
    pub fn replace(&self, token: Option<&str>) {
        *self.0.write() = token.and_then(header);
    }

    /// The current token.
    pub fn token(&self) -> Option<String> {
        let value = self.header()?;
        value
            .to_str()
            .ok()?
            .strip_prefix("Bearer ")
            .map(str::to_owned)
    }

    fn header(&self) -> Option<HeaderValue> {
        self.0.read().clone()
    }
}

fn header(token: &str) -> Option<HeaderValue> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl fmt::Debug for Bearer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Bearer (hidden)")
    }
}

/// Adds the current token to each request, for [`tower::filter::FilterLayer`].
impl<B> Predicate<Request<B>> for Bearer {
    type Request = Request<B>;

    fn check(&mut self, mut request: Request<B>) -> Result<Request<B>, BoxError> {
        if let Some(header) = self.header() {
            request.headers_mut().insert(AUTHORIZATION, header);
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_of(bearer: &mut Bearer) -> Option<HeaderValue> {
        let request = bearer.check(Request::new(())).unwrap();
        request.headers().get(AUTHORIZATION).cloned()
    }

    #[test]
    fn a_replaced_token_is_used_by_every_clone() {
        let bearer = Bearer::new(Some("old"));
        let mut in_use = bearer.clone();
        assert_eq!(header_of(&mut in_use).unwrap(), "Bearer old");
        bearer.replace(Some("new"));
        assert_eq!(header_of(&mut in_use).unwrap(), "Bearer new");
        assert_eq!(in_use.token().as_deref(), Some("new"));
        assert_eq!(header_of(&mut Bearer::new(None)), None);
    }

    #[test]
    fn a_token_that_is_not_valid_in_a_header_is_ignored() {
        for token in ["", "two words", "a\nb", "ü"] {
            assert_eq!(Bearer::new(Some(token)).token(), None, "{token:?}");
        }
        assert!(
            header_of(&mut Bearer::new(Some("a")))
                .unwrap()
                .is_sensitive()
        );
        assert!(!format!("{:?}", Bearer::new(Some("hunter2"))).contains("hunter2"));
    }
}
