//! The state of the cluster, and the resolution of index expressions.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, rngs::StdRng};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    call::{Call, Parameters},
    counters::Counters,
    faults::{Conditions, FaultKind},
    glob,
    index::{Index, View},
    index_template::Template,
    points::PointsInTime,
    query::Query,
    response::{Exception, invalid_name},
};

/// Indices, templates, points in time.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub indices: BTreeMap<String, Index>,
    pub templates: BTreeMap<String, Template>,
    pub points_in_time: PointsInTime,
}

/// The context in which a request is handled: time, faults, random numbers and counters.
pub(super) struct RequestContext<'s> {
    pub now: Instant,
    pub conditions: &'s Conditions,
    pub rng: &'s mut StdRng,
    pub counters: &'s mut Counters,
    /// Faults that took effect.
    pub struck: BTreeSet<FaultKind>,
}

impl RequestContext<'_> {
    /// Whether a fault is active; if so, records that it takes effect.
    pub fn has_fault(&mut self, kind: FaultKind) -> bool {
        let is_there = self.conditions.active.contains(&kind);
        if is_there {
            self.struck.insert(kind);
        }
        is_there
    }

    /// Returns a random id in the format of OpenSearch.
    pub fn uuid(&mut self) -> String {
        (0..22)
            .map(|_| char::from(self.rng.random_range(b'a'..=b'z')))
            .collect()
    }
}

/// How a request treats missing indices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leniency {
    /// A named index may be missing.
    pub ignore_unavailable: bool,
    /// Patterns may match nothing.
    pub allow_no_indices: bool,
}

impl Leniency {
    /// Missing indices are an error.
    pub const STRICT: Self = Self {
        ignore_unavailable: false,
        allow_no_indices: false,
    };

    /// Parses the parameters of a request; by default patterns may match nothing.
    pub fn of(parameters: &Parameters) -> Result<Self, Exception> {
        Ok(Self {
            ignore_unavailable: parameters.flag("ignore_unavailable", false)?,
            allow_no_indices: parameters.flag("allow_no_indices", true)?,
        })
    }
}

impl Cluster {
    /// Resolves an expression: names, aliases and patterns, separated by commas.
    pub fn resolve(&self, expression: &str, leniency: Leniency) -> Result<Vec<String>, Exception> {
        let mut found: Vec<String> = Vec::new();
        for part in expression.split(',') {
            let named = self.resolve_part(part, leniency)?;
            for index in named {
                if !found.contains(&index) {
                    found.push(index);
                }
            }
        }
        if found.is_empty() && !leniency.allow_no_indices {
            return Err(Exception::no_such_expression(expression));
        }
        Ok(found)
    }

    fn resolve_part(&self, part: &str, leniency: Leniency) -> Result<Vec<String>, Exception> {
        let is_pattern = part.contains('*');
        if part.is_empty() || part == "_all" {
            return Ok(self.indices.keys().cloned().collect());
        }
        if part.starts_with('_') {
            return Err(invalid_name(part, "must not start with '_'."));
        }
        let is_named = |index: &&Index| {
            let is_alike = |name: &str| {
                if is_pattern {
                    glob::matches(part, name)
                } else {
                    part == name
                }
            };
            is_alike(&index.name) || index.aliases.keys().any(|alias| is_alike(alias))
        };
        let found: Vec<String> = self
            .indices
            .values()
            .filter(is_named)
            .map(|index| index.name.clone())
            .collect();
        let may_be_missing = if is_pattern {
            leniency.allow_no_indices
        } else {
            leniency.ignore_unavailable
        };
        if found.is_empty() && !may_be_missing {
            return Err(Exception::no_such_index(part));
        }
        Ok(found)
    }

    /// Resolves an expression without aliases, as deletions require.
    pub fn resolve_concrete(&self, expression: &str) -> Result<Vec<String>, Exception> {
        let mut found = Vec::new();
        for part in expression.split(',') {
            if part.contains('*') || part == "_all" {
                let pattern = if part == "_all" { "*" } else { part };
                found.extend(
                    self.indices
                        .keys()
                        .filter(|name| glob::matches(pattern, name))
                        .cloned(),
                );
            } else if self.indices.contains_key(part) {
                found.push(part.to_owned());
            } else if self.is_alias(part) {
                return Err(Exception::illegal_argument(format!(
                    "The provided expression [{part}] matches an alias, specify the corresponding concrete indices instead."
                )));
            } else {
                return Err(Exception::no_such_index(part));
            }
        }
        Ok(found)
    }

    /// Whether any index has this alias.
    pub fn is_alias(&self, name: &str) -> bool {
        self.indices
            .values()
            .any(|index| index.aliases.contains_key(name))
    }

    /// Returns the indices of an alias.
    pub fn indices_of_alias(&self, alias: &str) -> Vec<&Index> {
        self.indices
            .values()
            .filter(|index| index.aliases.contains_key(alias))
            .collect()
    }

    /// Returns the current search views of indices.
    pub fn views(&mut self, names: &[String], now: Instant) -> Vec<View> {
        names
            .iter()
            .filter_map(|name| Some(self.indices.get_mut(name)?.view(now)))
            .collect()
    }

    /// Returns the current search views of the indices that an expression names. If only filtered
    /// aliases lead to an index, its view contains the documents that match one of the filters.
    pub fn visible_views(
        &mut self,
        expression: &str,
        names: &[String],
        now: Instant,
    ) -> Result<Vec<View>, Exception> {
        let mut views = self.views(names, now);
        for view in &mut views {
            let Some(filters) = self.filters(expression, &view.index) else {
                continue;
            };
            let matchers = filters
                .iter()
                .map(|filter| Query::read(filter)?.compile(&view.mapping))
                .collect::<Result<Vec<_>, Exception>>()?;
            view.documents = view.documents.visible_by(&matchers);
        }
        Ok(views)
    }

    /// Returns the alias filters by which an expression leads to an index; `None` if it is visible
    /// as a whole.
    pub fn filters(&self, expression: &str, index: &str) -> Option<Vec<Value>> {
        let index = self.indices.get(index)?;
        let mut filters = Vec::new();
        for part in expression.split(',') {
            let is_alike = |name: &str| {
                if part.contains('*') {
                    glob::matches(part, name)
                } else {
                    part == name
                }
            };
            if part.is_empty() || part == "_all" || is_alike(&index.name) {
                return None;
            }
            for (_, configuration) in index.aliases.iter().filter(|(alias, _)| is_alike(alias)) {
                filters.push(configuration.get("filter")?.clone());
            }
        }
        Some(filters)
    }

    /// Returns the routing of documents that are written through an alias.
    pub fn index_routing(&self, name: &str) -> Option<String> {
        let index = self.indices_of_alias(name).into_iter().next()?;
        let routing = index.aliases[name].get("index_routing")?;
        routing.as_str().map(ToOwned::to_owned)
    }

    /// Returns the index of a write to this name.
    pub fn write_index(&self, name: &str) -> Result<&str, Exception> {
        if let Some(index) = self.indices.get(name) {
            return Ok(&index.name);
        }
        let indices = self.indices_of_alias(name);
        let is_write_index = |index: &&Index| {
            index.aliases[name]
                .get("is_write_index")
                .and_then(Value::as_bool)
        };
        let chosen = indices
            .iter()
            .find(|index| is_write_index(index) == Some(true));
        match (indices.as_slice(), chosen) {
            ([], _) => Err(Exception::no_such_expression(name)),
            (_, Some(index)) => Ok(&index.name),
            ([only], None) if is_write_index(only).is_none() => Ok(&only.name),
            _ => Err(Exception::illegal_argument(format!(
                "no write index is defined for alias [{name}]. The write index may be explicitly disabled using \
                 is_write_index=false or the alias points to multiple indices without one being designated as a write index"
            ))),
        }
    }

    /// Returns the index of a request for one document.
    pub fn single_index(&self, name: &str) -> Result<&Index, Exception> {
        if let Some(index) = self.indices.get(name) {
            return Ok(index);
        }
        match self.indices_of_alias(name).as_slice() {
            [] => Err(Exception::no_such_expression(name)),
            [only] => Ok(only),
            several => {
                let names: Vec<&str> = several.iter().map(|index| index.name.as_str()).collect();
                Err(Exception::illegal_argument(format!(
                    "alias [{name}] has more than one index associated with it [{}], can't execute a single index op",
                    names.join(", ")
                )))
            }
        }
    }

    /// Restarts the node.
    pub fn restart(&mut self) {
        self.indices.values_mut().for_each(Index::restart);
        self.points_in_time.close_all();
    }
}

/// Resolves the index expression of a request.
pub(super) fn named(
    cluster: &Cluster,
    call: &Call,
    expression: &str,
) -> Result<Vec<String>, Exception> {
    cluster.resolve(expression, Leniency::of(&call.parameters)?)
}
