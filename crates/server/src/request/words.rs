//! Segments, parameters and lists: the words of a URL, decoded.

use std::{collections::HashSet, num::NonZeroUsize};

use crate::{
    percent::{decode_query, decode_segment},
    status::ApiError,
};

/// Parameters of one request. There are some 40 that mean something.
const MAX_PARAMETERS: usize = 256;

/// The decoded segments of a path. Empty ones are refused: they are a variable that a script forgot to set.
pub(crate) fn path_segments(path: &str) -> Result<Vec<String>, ApiError> {
    let mut segments = Vec::new();
    for segment in path.trim_matches('/').split('/') {
        let decoded = decode_segment(segment)
            .map_err(|error| ApiError::bad_request(format!("path: {error}")))?;
        if decoded.is_empty() && path != "/" {
            return Err(ApiError::bad_request(format!(
                "path {path:?} has an empty segment"
            )));
        }
        segments.push(decoded);
    }
    Ok(segments)
}

/// Zero means no limit, as in Kubernetes.
pub(super) fn limit(value: &str) -> Result<Option<NonZeroUsize>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    match value.parse() {
        Ok(number) => Ok(NonZeroUsize::new(number)),
        Err(_) => Err(format!("{value:?} is no whole number from 0 up")),
    }
}

/// Adds a comma-separated list. One that the path has filled already cannot be given again.
pub(super) fn words<T: std::str::FromStr>(value: &str, list: &mut Vec<T>) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    if !list.is_empty() {
        return Err("the path names one already; give either the path or the parameter".to_owned());
    }
    for word in value.split(',') {
        let parsed = Some(word)
            .filter(|text| !text.is_empty())
            .and_then(|text| text.parse().ok());
        list.push(parsed.ok_or_else(|| format!("{value:?} has an empty item"))?);
    }
    Ok(())
}

/// Keys and values, decoded; a key that stands twice is refused, because servers disagree on which one counts.
pub(crate) fn parameters(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let malformed = |error| ApiError::bad_request(format!("query: {error}"));
    let mut parameters: Vec<(String, String)> = Vec::new();
    let mut keys = HashSet::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        if parameters.len() == MAX_PARAMETERS {
            return Err(ApiError::bad_request(format!(
                "query: it has more than {MAX_PARAMETERS} parameters"
            )));
        }
        let (encoded_key, encoded_value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = decode_query(encoded_key).map_err(malformed)?;
        let value = decode_query(encoded_value).map_err(malformed)?;
        if !keys.insert(key.clone()) {
            return Err(ApiError::bad_request(format!(
                "parameter {key:?} is given twice"
            )));
        }
        parameters.push((key, value));
    }
    Ok(parameters)
}
