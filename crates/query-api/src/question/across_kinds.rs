//! Requests across kinds: for objects of every kind, for the relations of one object, for one
//! object of all clusters, and for images.

use std::num::NonZeroUsize;

use fleetdex_core::query::ResourceName;

use super::list::ListRequest;
use crate::{error::QuestionError, uri::QueryParameter};

/// Objects in a result by default.
const DEFAULT_LIMIT: usize = 500;
/// Objects in a result at most; a higher limit counts as this one.
const MAX_LIMIT: usize = 1_000;
/// Steps from an object to the last one of its relations by default.
pub(super) const DEFAULT_DEPTH: usize = 1;
/// The same at most.
const MAX_DEPTH: usize = 5;
/// Kinds that a request names at most.
const MAX_KINDS: usize = 100;

/// A search for objects of every kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectsRequest {
    /// Which objects of each kind. It names no resource.
    pub list: ListRequest,
    /// Only these resources; empty: all.
    pub kinds: Vec<ResourceName>,
    /// How many objects the result has at most.
    pub limit: usize,
}

impl ObjectsRequest {
    pub(super) fn with(parameters: &[QueryParameter<'_>]) -> Result<Self, QuestionError> {
        let (kinds, others) = take("kinds", parameters);
        let kinds =
            parse_kinds(&kinds).map_err(|problem| QuestionError::parameter("kinds", problem))?;
        let list = selection(ListRequest::default(), &others, false)?;
        let limit = limit(&list);
        Ok(Self { list, kinds, limit })
    }
}

/// A search for the objects that an object uses, and for those that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedRequest {
    /// The object, in each cluster that has it.
    pub list: ListRequest,
    /// How many steps away an object may be.
    pub depth: usize,
    /// How many objects the result has in each direction at most.
    pub limit: usize,
}

impl RelatedRequest {
    pub(super) fn of(
        path: &str,
        segments: &[&str],
        parameters: &[QueryParameter<'_>],
    ) -> Result<Self, QuestionError> {
        let (depth, others) = take("depth", parameters);
        let depth =
            parse_depth(&depth).map_err(|problem| QuestionError::parameter("depth", problem))?;
        let list = one_object(path, segments, &others)?;
        let limit = limit(&list);
        Ok(Self { list, depth, limit })
    }
}

/// A request for one object as all clusters have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedRequest {
    /// The object, in each cluster that has it.
    pub list: ListRequest,
}

impl MergedRequest {
    pub(super) fn of(
        path: &str,
        segments: &[&str],
        parameters: &[QueryParameter<'_>],
    ) -> Result<Self, QuestionError> {
        let list = one_object(path, segments, parameters)?;
        Ok(Self { list })
    }
}

/// A request for the images of Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagesRequest {
    /// The Pods.
    pub list: ListRequest,
}

impl ImagesRequest {
    pub(super) fn with(parameters: &[QueryParameter<'_>]) -> Result<Self, QuestionError> {
        let pods = ListRequest::of("", &["api", "v1", "pods"], None)?;
        let mut list = selection(pods, parameters, false)?;
        // All Pods are counted, however many rows a client asks for.
        list.limit = None;
        Ok(Self { list })
    }
}

/// The value of a parameter, and the other parameters.
pub(super) fn take<'p>(
    name: &str,
    parameters: &[QueryParameter<'p>],
) -> (String, Vec<QueryParameter<'p>>) {
    let (given, others): (Vec<_>, Vec<_>) = parameters
        .iter()
        .cloned()
        .partition(|parameter| parameter.key == name);
    let value = given.first().map(|parameter| parameter.value.to_string());
    (value.unwrap_or_default(), others)
}

/// The object that a path names, with the parameters that choose its clusters.
fn one_object(
    path: &str,
    segments: &[&str],
    parameters: &[QueryParameter<'_>],
) -> Result<ListRequest, QuestionError> {
    let list = ListRequest::of(path, segments, None)?;
    if list.resource.name.is_none() {
        return Err(QuestionError::invalid(format!(
            "path {path:?} names no object; it must end with a path such as api/v1/namespaces/web/secrets/db"
        )));
    }
    let list = selection(list, parameters, false)?;
    let has_selectors = !list.fields.is_empty() || list.labels.requirements().next().is_some();
    if has_selectors || list.names.len() > 1 {
        return Err(QuestionError::invalid(
            "the result is about one object, which the path names: leave out labelSelector, fieldSelector and names",
        ));
    }
    Ok(list)
}

/// Reads the parameters that select objects, and refuses those of orders, owners, stores and
/// watches, and of further pages unless the result has pages.
pub(super) fn selection(
    mut list: ListRequest,
    parameters: &[QueryParameter<'_>],
    has_pages: bool,
) -> Result<ListRequest, QuestionError> {
    for QueryParameter { key, value, .. } in parameters {
        list.set(key, value)?;
    }
    list.read_labels(parameters)?;
    list.options.check().map_err(QuestionError::invalid)?;
    let options = &list.options;
    QuestionError::first_of([
        (
            list.watch_options.watch,
            "parameter watch: objects of one kind can be watched, below search/",
        ),
        (
            list.watch_options.is_versioned(),
            "parameter resourceVersion: the result is always current",
        ),
        (
            list.continue_token.is_some() && !has_pages,
            "parameter continue: the result has one page; narrow it with selectors, clusters or namespaces",
        ),
        (
            !options.order_by.is_empty(),
            "parameter orderBy: the order is fixed; lists of one kind can be ordered, below search/",
        ),
        (
            options.owner.is_given(),
            "parameters ownerUID, ownerName: only lists of one kind are searched by owner, below search/",
        ),
        (
            options.explain,
            "parameter explain: only lists and counts of one kind are explained, below search/ and aggregate/",
        ),
        (
            list.store.is_some(),
            "parameter store: the result is read from all stores",
        ),
    ])?;
    Ok(list)
}

fn limit(list: &ListRequest) -> usize {
    let wanted = list.limit.map_or(DEFAULT_LIMIT, NonZeroUsize::get);
    wanted.min(MAX_LIMIT)
}

fn parse_depth(value: &str) -> Result<usize, String> {
    match value.parse() {
        _ if value.is_empty() => Ok(DEFAULT_DEPTH),
        Ok(depth) if (1..=MAX_DEPTH).contains(&depth) => Ok(depth),
        _ => Err(format!(
            "{value:?} is not a whole number from 1 to {MAX_DEPTH}"
        )),
    }
}

/// `pods,deployments.apps`
fn parse_kinds(value: &str) -> Result<Vec<ResourceName>, String> {
    let words: Vec<&str> = value
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    if words.len() > MAX_KINDS {
        return Err(format!("at most {MAX_KINDS} kinds are possible"));
    }
    let resource = |word: &str| {
        let (plural, group) = word.split_once('.').unwrap_or((word, ""));
        if plural.is_empty() {
            return Err(format!(
                "{word:?} is not a resource such as pods or deployments.apps"
            ));
        }
        Ok(ResourceName::new(group, plural))
    };
    words.into_iter().map(resource).collect()
}
