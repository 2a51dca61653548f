//! Values of query parameters: limits and comma-separated lists.

use std::{fmt::Display, num::NonZeroUsize, str::FromStr};

use crate::error::QuestionError;

/// The value of a parameter; an error names the parameter.
pub(super) fn parsed<T: FromStr<Err: Display>>(key: &str, value: &str) -> Result<T, QuestionError> {
    value
        .parse()
        .map_err(|error| QuestionError::parameter(key, error))
}

/// Zero means no limit, as in Kubernetes.
pub(super) fn limit(value: &str) -> Result<Option<NonZeroUsize>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    match value.parse() {
        Ok(number) => Ok(NonZeroUsize::new(number)),
        Err(_) => Err(format!("{value:?} is not a whole number of 0 or more")),
    }
}

/// Adds the items of a comma-separated list. A list that the path has filled already is refused.
pub(super) fn comma_separated<T: FromStr>(value: &str, list: &mut Vec<T>) -> Result<(), String> {
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
