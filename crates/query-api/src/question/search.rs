//! Requests for searches over all kinds.

use std::{num::NonZeroUsize, time::Duration};

use fleetdex_core::{model::FleetVersion, query::Facet};
use fleetdex_search::Search;

use super::{
    across_kinds::{selection, take},
    list::ListRequest,
    values::parsed,
};
use crate::{
    error::QuestionError,
    flag::flag,
    search_version::SearchVersion,
    uri::QueryParameter,
    watch_options::{RequestedVersion, ResourceVersionMatch, WatchOptions},
};

/// The parameter with the text of a search.
pub(super) const TEXT: &str = "q";
/// Objects in a page by default.
const DEFAULT_LIMIT: usize = 50;
/// Objects in a page at most; a higher limit counts as this one.
const MAX_LIMIT: usize = 500;

/// A search over all kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchRequest {
    /// The text of the search.
    pub text: String,
    /// What it asks for.
    pub search: Search,
    /// Selectors of all kinds that parameters name beside the text, and the text in its canonical
    /// form. It names no resource.
    pub list: ListRequest,
    /// By what all found objects are counted.
    pub facets: Vec<Facet>,
    /// Objects in the page at most.
    pub limit: usize,
    /// Whether the question to the stores is asked for, and not the objects.
    pub explain: bool,
    /// The result shows the changes up to this version.
    pub not_older_than: Option<FleetVersion>,
    /// How it is watched; `None`: it is not watched.
    pub watch: Option<SearchWatch>,
}

/// A watch of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchWatch {
    /// The version from which it continues; `None`: it begins now.
    pub after: Option<SearchVersion>,
    /// How long it lasts at most.
    pub timeout: Option<Duration>,
}

impl SearchRequest {
    /// A search that was parsed already, for no page of objects.
    pub(super) fn of(text: String, search: Search) -> Self {
        let list = ListRequest {
            search: Some(search.to_string()),
            ..ListRequest::default()
        };
        Self {
            text,
            search,
            list,
            ..Self::default()
        }
    }

    pub(super) fn with(parameters: &[QueryParameter<'_>]) -> Result<Self, QuestionError> {
        let (text, others) = take(TEXT, parameters);
        let (facets, others) = take("facets", &others);
        let (kinds, others) = take("kinds", &others);
        let (explained, others): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|parameter| parameter.key == "explain");
        let explain = explained.iter().any(|parameter| flag(&parameter.value));
        if !kinds.is_empty() {
            return Err(QuestionError::invalid(
                "parameter kinds: with the parameter q, write kind: in the search",
            ));
        }
        let search =
            fleetdex_search::parse(&text).map_err(|error| QuestionError::parameter(TEXT, error))?;
        let facets =
            parse_facets(&facets).map_err(|problem| QuestionError::parameter("facets", problem))?;
        let (options, after, others) = watch_options(&others)?;
        let mut list = selection(ListRequest::default(), &others, true)?;
        options.check(list.continue_token.is_some())?;
        check_watch(&options, &list, &facets, explain)?;
        if !list.fields.is_empty() {
            return Err(QuestionError::invalid(
                "parameter fieldSelector: with the parameter q, write name:, ns:, health:, reason:, image: and uses: in the search",
            ));
        }
        list.search = Some(search.to_string());
        let limit = list.limit.map_or(DEFAULT_LIMIT, NonZeroUsize::get);
        Ok(Self {
            text,
            search,
            list,
            facets,
            limit: limit.min(MAX_LIMIT),
            explain,
            not_older_than: match options.resource_version {
                RequestedVersion::Version(version) => Some(version),
                RequestedVersion::Unset | RequestedVersion::Any => None,
            },
            watch: options.watch.then(|| SearchWatch {
                after,
                timeout: options.timeout_seconds.map(Duration::from_secs),
            }),
        })
    }
}

/// The options of a watch, with the version from which it continues, and the other parameters.
fn watch_options<'p>(
    parameters: &[QueryParameter<'p>],
) -> Result<(WatchOptions, Option<SearchVersion>, Vec<QueryParameter<'p>>), QuestionError> {
    let (version, others) = take("resourceVersion", parameters);
    let mut options = WatchOptions::default();
    let mut rest = Vec::new();
    for parameter in others {
        let is_option = options.set(&parameter.key, &parameter.value);
        if !is_option.map_err(|problem| QuestionError::parameter(&parameter.key, problem))? {
            rest.push(parameter);
        }
    }
    let after = match version.as_str() {
        "" | "0" => None,
        text => Some(parsed::<SearchVersion>("resourceVersion", text)?),
    };
    if let Some(after) = after {
        options.resource_version = RequestedVersion::Version(after.version);
    }
    Ok((options, after, rest))
}

/// Refuses what a search, or its watch, does not have.
fn check_watch(
    options: &WatchOptions,
    list: &ListRequest,
    facets: &[Facet],
    explain: bool,
) -> Result<(), QuestionError> {
    let is_watch = options.watch;
    QuestionError::first_of([
        (
            options.version_match == Some(ResourceVersionMatch::Exact),
            "parameter resourceVersionMatch: a search shows the current objects; only NotOlderThan is possible",
        ),
        (
            options.initial_events == Some(true),
            "parameter sendInitialEvents: a watch of a search sends no existing objects; list them after its first bookmark",
        ),
        (
            is_watch && !facets.is_empty(),
            "parameter facets: a watch counts nothing; list again with facets after a change",
        ),
        (
            is_watch && explain,
            "parameter explain: a watch asks the stores nothing",
        ),
        (
            is_watch && list.limit.is_some(),
            "parameter limit: a watch sends the changes of all objects that match",
        ),
    ])
}

fn parse_facets(value: &str) -> Result<Vec<Facet>, String> {
    let mut facets = Vec::new();
    for name in value.split(',').filter(|name| !name.is_empty()) {
        let facet = Facet::ALL.into_iter().find(|facet| facet.name() == name);
        let facet = facet.ok_or_else(|| {
            let names = Facet::ALL.map(Facet::name).join(", ");
            format!("{name:?} is none of {names}")
        })?;
        if !facets.contains(&facet) {
            facets.push(facet);
        }
    }
    Ok(facets)
}
