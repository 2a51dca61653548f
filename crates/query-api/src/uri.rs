//! The URI of a request: the segments of its path and the parameters of its query, each decoded
//! once.
//!
//! Authorization attributes, limits, request parsing, content negotiation and proxying all take the
//! result, so that they cannot read one request in different ways.

use std::{borrow::Cow, collections::HashSet};

use super::{
    flag::flag,
    percent::{PercentError, decode_query, decode_segment},
};
use crate::error::QuestionError;

/// Parameters of one request, unless a member reads them. There are some 40 that mean something.
const MAX_PARAMETERS: usize = 256;

/// The path and the query of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestUri<'u> {
    path: &'u str,
    segments: Vec<Cow<'u, str>>,
    query: QueryParameters<'u>,
}

impl<'u> RequestUri<'u> {
    /// Decodes the path and the query. Leading and trailing slashes of the path are ignored.
    ///
    /// Errors: a segment with malformed percent-encoding, and an empty one, which is a variable
    /// that a script forgot to set. [`QueryParameters`] keep their own error until they are used.
    pub fn parse(path: &'u str, query: Option<&'u str>) -> Result<Self, QuestionError> {
        let mut segments = Vec::new();
        for segment in path.trim_matches('/').split('/').filter(|_| path != "/") {
            let decoded = decode_segment(segment).map_err(QuestionError::path)?;
            if decoded.is_empty() {
                return Err(QuestionError::invalid(format!(
                    "path {path:?} has an empty segment"
                )));
            }
            segments.push(decoded);
        }
        Ok(Self {
            path,
            segments,
            query: QueryParameters::parse(query.unwrap_or_default()),
        })
    }

    /// The path, still encoded.
    pub fn path(&self) -> &'u str {
        self.path
    }

    /// The decoded segments; none for `/`.
    pub fn segments(&self) -> Vec<&str> {
        self.segments.iter().map(AsRef::as_ref).collect()
    }

    /// The query.
    pub fn query(&self) -> &QueryParameters<'u> {
        &self.query
    }
}

/// The parameters of a query. Those after a malformed one are not read: every use of the parameters
/// returns the error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryParameters<'u> {
    encoded: &'u str,
    parameters: Vec<QueryParameter<'u>>,
    malformed: Option<PercentError>,
}

/// One parameter of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryParameter<'u> {
    /// Key and value as they came, to be sent on byte for byte.
    pub encoded: &'u str,
    /// The key, decoded.
    pub key: Cow<'u, str>,
    /// The value, decoded; empty without one.
    pub value: Cow<'u, str>,
}

impl<'u> QueryParameters<'u> {
    /// Decodes a query, which comes without its question mark.
    pub fn parse(encoded: &'u str) -> Self {
        let mut malformed = None;
        let pairs = encoded.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map_while(|pair| match QueryParameter::parse(pair) {
            Ok(parameter) => Some(parameter),
            Err(error) => {
                malformed = Some(error);
                None
            }
        });
        Self {
            encoded,
            parameters: parameters.collect(),
            malformed,
        }
    }

    /// The query as it came.
    pub fn encoded(&self) -> &'u str {
        self.encoded
    }

    /// All parameters, in their order. A key may be repeated.
    pub fn all(&self) -> Result<&[QueryParameter<'u>], QuestionError> {
        match &self.malformed {
            None => Ok(&self.parameters),
            Some(error) => Err(QuestionError::invalid(format!("query: {error}"))),
        }
    }

    /// All parameters of a request that is answered here. A repeated key is refused, because
    /// servers disagree on which value counts.
    pub fn distinct(&self) -> Result<&[QueryParameter<'u>], QuestionError> {
        let mut keys = HashSet::new();
        for parameter in self.parameters.iter().take(MAX_PARAMETERS) {
            if !keys.insert(&*parameter.key) {
                return Err(QuestionError::invalid(format!(
                    "parameter {:?} is given twice",
                    parameter.key
                )));
            }
        }
        let count = self.parameters.len() + usize::from(self.malformed.is_some());
        if count > MAX_PARAMETERS {
            return Err(QuestionError::invalid(format!(
                "query: it has more than {MAX_PARAMETERS} parameters"
            )));
        }
        self.all()
    }

    /// The value of a parameter; the first one counts, as in Kubernetes.
    pub fn first(&self, key: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|parameter| parameter.key == key)
            .map(|parameter| &*parameter.value)
    }

    /// Whether the query asks for a watch.
    pub fn is_watch(&self) -> bool {
        self.first("watch").is_some_and(flag)
    }
}

impl<'u> QueryParameter<'u> {
    fn parse(encoded: &'u str) -> Result<Self, PercentError> {
        let (key, value) = encoded.split_once('=').unwrap_or((encoded, ""));
        Ok(Self {
            encoded,
            key: decode_query(key)?,
            value: decode_query(value)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_decoded_segments() {
        for (path, segments) in [
            ("/", &[][..]),
            ("/a/b%2Fc+d", &["a", "b/c+d"]),
            ("//a/b//", &["a", "b"]),
        ] {
            let uri = RequestUri::parse(path, None).unwrap();
            assert_eq!((uri.segments().as_slice(), uri.path()), (segments, path));
        }
        for refused in ["", "//", "/a//b", "/a/%zz", "/a/%ff"] {
            assert_eq!(
                RequestUri::parse(refused, None).unwrap_err().code(),
                400,
                "{refused}"
            );
        }
    }

    #[test]
    fn repeated_and_malformed_parameters_are_refused_where_they_are_used() {
        let twice = QueryParameters::parse("a=1&b+c=%20&a=2&&d");
        let all: Vec<_> = twice
            .all()
            .unwrap()
            .iter()
            .map(|parameter| (parameter.encoded, &*parameter.key, &*parameter.value))
            .collect();
        assert_eq!(
            all,
            [
                ("a=1", "a", "1"),
                ("b+c=%20", "b c", " "),
                ("a=2", "a", "2"),
                ("d", "d", "")
            ]
        );
        assert_eq!((twice.first("a"), twice.first("z")), (Some("1"), None));
        assert_eq!(
            twice.distinct().unwrap_err().to_string(),
            "parameter \"a\" is given twice"
        );
        let malformed = QueryParameters::parse("watch=1&%zz");
        assert!(malformed.is_watch() && malformed.encoded() == "watch=1&%zz");
        assert!(malformed.all().is_err() && malformed.distinct().is_err());
    }
}
