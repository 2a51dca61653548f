//! What decides about a request before it is answered.

#[cfg(test)]
mod tests;

use http::Method;

use crate::{access::Attributes, class::RequestClass, uri::RequestUri};

/// What decides whether a request is taken on, and whether its caller may send it. It holds no
/// question: one may take a hundred times the memory of its text, and a request may wait long for
/// its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Its class.
    pub class: RequestClass,
    /// What its caller has to be allowed.
    pub attributes: Attributes,
}

impl RequestHead {
    /// The head of a request.
    pub fn of(method: &Method, uri: &RequestUri<'_>) -> Self {
        Self {
            class: RequestClass::of(method, uri),
            attributes: Attributes::of(method, uri),
        }
    }
}
