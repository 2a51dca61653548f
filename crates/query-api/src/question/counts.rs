//! Requests for counts.

use fleetdex_core::{
    model::FieldPath,
    query::{GroupKey, aggregate::MAX_KEYS},
    selector::{LabelRequirement, LabelTest},
};

use super::list::ListRequest;
use crate::{error::QuestionError, search_options::SearchOptions, uri::QueryParameter};

/// Groups in a result by default.
pub(super) const DEFAULT_TOP: usize = 1_000;
/// Groups in a result at most: a few megabytes.
const MAX_TOP: usize = 10_000;

const MEANS_NOTHING: &str = "it means nothing for counts";

/// Counts of the objects that a list would show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateRequest {
    /// Which objects are counted.
    pub list: ListRequest,
    /// The keys of the groups; empty: all objects are one group.
    pub by: Vec<GroupKey>,
    /// How many groups the result has; the largest ones.
    pub top: usize,
}

impl AggregateRequest {
    pub(super) fn of(path: &str, segments: &[&str]) -> Result<Self, QuestionError> {
        Ok(Self {
            list: ListRequest::of(path, segments, None)?,
            by: Vec::new(),
            top: DEFAULT_TOP,
        })
    }

    pub(super) fn with(mut self, parameters: &[QueryParameter<'_>]) -> Result<Self, QuestionError> {
        for QueryParameter { key, value, .. } in parameters {
            let refused = |problem: &str| QuestionError::parameter(key, problem);
            match &**key {
                "by" => self.by = group_keys(value).map_err(|problem| refused(&problem))?,
                "top" => self.top = top(value).map_err(|problem| refused(&problem))?,
                "limit" | "continue" if !value.is_empty() => {
                    return Err(refused("counts are not paged; use top for fewer groups"));
                }
                "orderBy" if !value.is_empty() => return Err(refused(MEANS_NOTHING)),
                "onlyMetadata" | "withRemainingCount" | "withContinue" => {
                    return Err(refused(MEANS_NOTHING));
                }
                _ => self.list.set(key, value)?,
            }
        }
        if self.list.watch_options.is_versioned() {
            return Err(QuestionError::invalid(
                "counts are always current: leave out watch, resourceVersion and resourceVersionMatch",
            ));
        }
        self.list.read_labels(parameters)?;
        let SearchOptions {
            order_by,
            only_metadata,
            without_remaining_count,
            ..
        } = &self.list.options;
        // Set by search labels; the parameters themselves are refused above.
        if self.list.limit.is_some()
            || !order_by.is_empty()
            || *only_metadata
            || *without_remaining_count
        {
            return Err(QuestionError::invalid(
                "parameter labelSelector: an order or a page means nothing for counts",
            ));
        }
        self.list.options.check().map_err(QuestionError::invalid)?;
        Ok(self)
    }
}

fn group_keys(value: &str) -> Result<Vec<GroupKey>, String> {
    let mut keys = Vec::new();
    for word in value.split(',').filter(|_| !value.is_empty()) {
        let key = match (word, word.strip_prefix("label:")) {
            ("", _) => return Err(format!("{value:?} has an empty item")),
            ("cluster", _) => GroupKey::Cluster,
            ("namespace" | "metadata.namespace", _) => GroupKey::Namespace,
            (_, Some(label)) => {
                LabelRequirement::new(label, LabelTest::Exists)
                    .map_err(|error| error.to_string())?;
                GroupKey::Label(label.to_owned())
            }
            (path, None) => GroupKey::Field(FieldPath::new(path)),
        };
        if keys.contains(&key) {
            return Err(format!("{word} is given twice"));
        }
        if keys.len() == MAX_KEYS {
            return Err(format!("at most {MAX_KEYS} keys are possible"));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn top(value: &str) -> Result<usize, String> {
    match value.parse() {
        _ if value.is_empty() => Ok(DEFAULT_TOP),
        Ok(number) if (1..=MAX_TOP).contains(&number) => Ok(number),
        _ => Err(format!(
            "{value:?} is not a whole number from 1 to {MAX_TOP}"
        )),
    }
}
