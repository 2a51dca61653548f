//! A bearer token that can be exchanged while a connection is in use: requests from then on bear the new one, and watches
//! that are open go on, as API servers look at a token once, when a request comes.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use http::{HeaderValue, Request, header::AUTHORIZATION};
use tower::{BoxError, filter::Predicate};

/// A token. A clone is the same one: what is exchanged in one is exchanged in all.
#[derive(Clone)]
pub struct Bearer(Arc<RwLock<HeaderValue>>);

impl Bearer {
    /// A token for requests; `None` if it holds characters that no header may have, or is empty.
    pub fn new(token: &str) -> Option<Self> {
        Some(Self(Arc::new(RwLock::new(header(token)?))))
    }

    /// Takes over the token of another one, which stays a slot of its own.
    pub fn exchange_for(&self, other: &Self) {
        let new = other.header();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// The token itself.
    pub fn token(&self) -> String {
        let value = self.header();
        value.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).unwrap_or_default().to_owned()
    }

    fn header(&self) -> HeaderValue {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
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

/// Two slots are equal while they hold the same token.
impl PartialEq for Bearer {
    fn eq(&self, other: &Self) -> bool {
        self.header() == other.header()
    }
}

impl Eq for Bearer {}

impl fmt::Debug for Bearer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Bearer (hidden)")
    }
}

/// Puts the token that is valid now into each request, for [`tower::filter::FilterLayer`].
impl<B> Predicate<Request<B>> for Bearer {
    type Request = Request<B>;

    fn check(&mut self, mut request: Request<B>) -> Result<Request<B>, BoxError> {
        request.headers_mut().insert(AUTHORIZATION, self.header());
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn borne(bearer: &mut Bearer) -> HeaderValue {
        let request = bearer.check(Request::new(())).unwrap();
        request.headers()[AUTHORIZATION].clone()
    }

    #[test]
    fn an_exchanged_token_is_that_of_every_clone_and_of_nobody_else() {
        let bearer = Bearer::new("old").unwrap();
        let mut in_use = bearer.clone();
        let new = Bearer::new("new").unwrap();
        assert_eq!(borne(&mut in_use), "Bearer old");
        bearer.exchange_for(&new);
        assert_eq!(borne(&mut in_use), "Bearer new");
        assert_eq!((in_use.token(), bearer == new), ("new".to_owned(), true));
        new.exchange_for(&Bearer::new("third").unwrap());
        assert_eq!(in_use.token(), "new");
    }

    #[test]
    fn what_no_header_may_hold_is_no_token() {
        for token in ["", "two words", "a\nb", "ü"] {
            assert_eq!(Bearer::new(token), None, "{token:?}");
        }
        assert!(borne(&mut Bearer::new("a").unwrap()).is_sensitive());
        assert!(!format!("{:?}", Bearer::new("hunter2")).contains("hunter2"));
    }
}
