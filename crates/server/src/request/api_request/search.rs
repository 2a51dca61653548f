//! Requests for searches over all kinds.

use std::num::NonZeroUsize;

use fleetdex_core::query::Facet;
use fleetdex_search::Search;

use super::{
    across_kinds::{selection, take},
    list::ListRequest,
};
use crate::request::{api_error::ApiError, uri::QueryParameter};

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
    /// Selectors of all kinds that parameters name beside the text, and the text in its canonical form. It names no resource.
    pub list: ListRequest,
    /// By what all found objects are counted.
    pub facets: Vec<Facet>,
    /// Objects in the page at most.
    pub limit: usize,
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

    pub(super) fn with(parameters: &[QueryParameter<'_>]) -> Result<Self, ApiError> {
        let (text, others) = take(TEXT, parameters);
        let (facets, others) = take("facets", &others);
        let (kinds, others) = take("kinds", &others);
        if !kinds.is_empty() {
            return Err(ApiError::bad_request(
                "parameter kinds: with the parameter q, write kind: in the search",
            ));
        }
        let search = fleetdex_search::parse(&text)
            .map_err(|error| ApiError::bad_request(format!("parameter q: {error}")))?;
        let facets = parse_facets(&facets)
            .map_err(|problem| ApiError::bad_request(format!("parameter facets: {problem}")))?;
        let mut list = selection(ListRequest::default(), &others, true)?;
        if !list.fields.is_empty() {
            return Err(ApiError::bad_request(
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
        })
    }
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
