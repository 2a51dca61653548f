//! A bearer token that can be exchanged while a connection is in use: requests from then on bear the new one, and watches
//! that are open go on, as API servers look at a token once, when a request comes.

use std::{fmt, sync::Arc};

use http::{HeaderValue, Request, header::AUTHORIZATION};
use parking_lot::RwLock;
use tower::{BoxError, filter::Predicate};

/// The token of one connection, if it has one. A clone is the same one: what is exchanged in one is exchanged in all.
#[derive(Clone, Default)]
pub struct Bearer(Arc<RwLock<Option<HeaderValue>>>);

impl Bearer {
    /// A token for requests; none if it holds characters that no header may have.
    pub fn new(token: Option<&str>) -> Self {
        Self(Arc::new(RwLock::new(token.and_then(header))))
    }

    /// Puts another token in place.
    pub fn exchange(&self, token: Option<&str>) {
        *self.0.write() = token.and_then(header);
    }

    /// The token itself.
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

/// Puts the token that is valid now into each request, for [`tower::filter::FilterLayer`].
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

    fn borne(bearer: &mut Bearer) -> Option<HeaderValue> {
        let request = bearer.check(Request::new(())).unwrap();
        request.headers().get(AUTHORIZATION).cloned()
    }

    #[test]
    fn an_exchanged_token_is_that_of_every_clone() {
        let bearer = Bearer::new(Some("old"));
        let mut in_use = bearer.clone();
        assert_eq!(borne(&mut in_use).unwrap(), "Bearer old");
        bearer.exchange(Some("new"));
        assert_eq!(borne(&mut in_use).unwrap(), "Bearer new");
        assert_eq!(in_use.token().as_deref(), Some("new"));
        assert_eq!(borne(&mut Bearer::new(None)), None);
    }

    #[test]
    fn what_no_header_may_hold_is_no_token() {
        for token in ["", "two words", "a\nb", "ü"] {
            assert_eq!(Bearer::new(Some(token)).token(), None, "{token:?}");
        }
        assert!(borne(&mut Bearer::new(Some("a"))).unwrap().is_sensitive());
        assert!(!format!("{:?}", Bearer::new(Some("hunter2"))).contains("hunter2"));
    }
}
