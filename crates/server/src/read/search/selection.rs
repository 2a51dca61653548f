//! What a search selects: its terms as clusters, kinds, selectors and words, which lists
//! understand.

use std::collections::BTreeSet;

use fleetdex_core::{
    kinds,
    model::{ClusterName, DEPENDS_ON, FieldPath, Gvk, Namespace},
    query::{ResourceName, Word, WordSelector},
    selector::{FieldRequirement, FieldTest, LabelRequirement, LabelTest},
};
use fleetdex_interpreter::field_selector::IMAGE;
use fleetdex_query_api::question::{ListRequest, SearchRequest};
use fleetdex_search::{AgeTest, Condition, SyntaxError, Term, UsedObject};
use jiff::Timestamp;

use super::super::across_kinds;
use crate::{
    api_error::ApiError,
    catalog::{Catalog, RegisteredResource},
};

const HEALTH: &str = "health";
const REASON: &str = "healthReason";
const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// What a search selects.
pub(super) struct SearchSelection {
    /// What is selected of every kind. It names no resource.
    list: ListRequest,
    /// What is selected of namespaced kinds besides.
    of_namespaced: Vec<FieldRequirement>,
    /// Whether the terms exclude each other.
    is_empty: bool,
    /// The kinds that are searched.
    pub(super) resources: BTreeSet<ResourceName>,
    /// The free words.
    pub(super) words: WordSelector,
}

/// A term of a search that is read at a time.
struct ReadTerm<'s> {
    /// The text of the search.
    text: &'s str,
    term: &'s Term,
    now: Timestamp,
}

impl ReadTerm<'_> {
    fn is_negated(&self) -> bool {
        self.term.negated
    }

    /// The refusal of the term, with its place in the text.
    fn refused(&self, problem: impl Into<String>) -> ApiError {
        let error = SyntaxError::new(self.text, self.term.span.clone(), problem);
        ApiError::bad_request(format!("parameter q: {error}"))
    }
}

/// The clusters that a request names, so that it is refused if one of them may not be seen.
pub fn named_clusters(request: &SearchRequest) -> Vec<ClusterName> {
    let of_term = |term: &Term| match &term.condition {
        Condition::Cluster(clusters) if !term.negated => clusters.clone(),
        _ => Vec::new(),
    };
    let mut named: BTreeSet<ClusterName> = request.list.clusters.iter().cloned().collect();
    named.extend(request.search.terms.iter().flat_map(of_term));
    named.into_iter().collect()
}

impl SearchSelection {
    /// What a request selects at a time; `None` if its terms exclude each other.
    pub(super) fn of(
        catalog: &Catalog,
        request: &SearchRequest,
        now: Timestamp,
    ) -> Result<Option<Self>, ApiError> {
        let mut selection = Self {
            list: request.list.clone(),
            of_namespaced: Vec::new(),
            is_empty: false,
            resources: all_resources(catalog),
            words: words(request),
        };
        let mut clusters = None;
        for term in &request.search.terms {
            let read = ReadTerm {
                text: &request.text,
                term,
                now,
            };
            match &term.condition {
                Condition::Cluster(named) => {
                    let known = clusters.get_or_insert_with(|| clusters_of(catalog, request));
                    known.retain(|name| named.contains(name) != term.negated);
                }
                condition => selection.add(catalog, condition, &read)?,
            }
        }
        if selection.is_empty || clusters.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(None);
        }
        if let Some(clusters) = clusters {
            selection.list.clusters = clusters.into_iter().collect();
        }
        Ok(Some(selection))
    }

    fn add(
        &mut self,
        catalog: &Catalog,
        condition: &Condition,
        term: &ReadTerm<'_>,
    ) -> Result<(), ApiError> {
        match condition {
            // Read before: all words are one selector, and clusters are named before anything is
            // looked up.
            Condition::Word(_) | Condition::Cluster(_) => {}
            Condition::Kind(names) => {
                let mut named = BTreeSet::new();
                for name in names {
                    named.extend(resources_called(catalog, name, term)?);
                }
                self.resources
                    .retain(|resource| named.contains(resource) != term.is_negated());
            }
            Condition::Namespace(names) => {
                if term.is_negated() {
                    let values = names.iter().map(ToString::to_string);
                    self.of_namespaced.push(one_of(NAMESPACE, values, true));
                } else {
                    self.keep_namespaces(names);
                }
            }
            Condition::Name(names) => self.require(NAME, names.iter().cloned(), term),
            Condition::Label(requirement) => self.add_label(requirement, term)?,
            Condition::Health(words) => self.require(HEALTH, words.iter().cloned(), term),
            Condition::Reason(reasons) => self.require(REASON, reasons.iter().cloned(), term),
            Condition::Image(images) => self.require(IMAGE, images.iter().cloned(), term),
            Condition::Age(test) => self.add_age(*test, term),
            Condition::Uses(objects) => {
                let mut terms = Vec::new();
                for object in objects {
                    terms.extend(terms_of(catalog, object, term)?);
                }
                self.require(DEPENDS_ON, terms, term);
            }
        }
        Ok(())
    }

    /// Narrows the namespaces, so that the caller needs rights in these alone.
    fn keep_namespaces(&mut self, named: &[Namespace]) {
        let known = &mut self.list.namespaces;
        if known.is_empty() {
            known.extend_from_slice(named);
        } else {
            known.retain(|name| named.contains(name));
            self.is_empty |= known.is_empty();
        }
    }

    fn require(
        &mut self,
        path: &str,
        values: impl IntoIterator<Item = String>,
        term: &ReadTerm<'_>,
    ) {
        let known = self.list.fields.requirements().cloned();
        let added = one_of(path, values, term.is_negated());
        self.list.fields = known.chain([added]).collect();
    }

    fn add_label(
        &mut self,
        requirement: &LabelRequirement,
        term: &ReadTerm<'_>,
    ) -> Result<(), ApiError> {
        let test = match (term.is_negated(), requirement.test()) {
            (false, test) => test.clone(),
            (true, LabelTest::In(values)) => LabelTest::NotIn(values.clone()),
            (true, LabelTest::NotIn(values)) => LabelTest::In(values.clone()),
            (true, LabelTest::Exists) => LabelTest::DoesNotExist,
            (true, LabelTest::DoesNotExist) => LabelTest::Exists,
            (true, LabelTest::GreaterThan(_) | LabelTest::LessThan(_)) => {
                return Err(term.refused("a comparison cannot be negated; write the opposite one, such as label:weight<5"));
            }
        };
        let requirement = LabelRequirement::new(requirement.key(), test)
            .map_err(|error| term.refused(error.to_string()))?;
        let known = self.list.labels.requirements().cloned();
        self.list.labels = known.chain([requirement]).collect();
        Ok(())
    }

    fn add_age(&mut self, test: AgeTest, term: &ReadTerm<'_>) {
        let age = i64::try_from(test.age.as_millis()).unwrap_or(i64::MAX);
        let bound = term.now.as_millisecond().saturating_sub(age);
        let options = &mut self.list.options;
        if test.younger == term.is_negated() {
            options.before = Some(options.before.map_or(bound, |known| known.min(bound)));
        } else {
            options.since = Some(options.since.map_or(bound, |known| known.max(bound)));
        }
    }

    /// What is selected of a resource; `None` if it is not searched.
    pub(super) fn of_resource(&self, registered: &RegisteredResource) -> Option<ListRequest> {
        if !self.resources.contains(&registered.name) {
            return None;
        }
        let mut list = self.list.clone();
        if registered.namespaced {
            let known = self.list.fields.requirements().cloned();
            list.fields = known.chain(self.of_namespaced.iter().cloned()).collect();
        }
        Some(list)
    }
}

fn all_resources(catalog: &Catalog) -> BTreeSet<ResourceName> {
    let all = catalog.resources();
    all.map(|resource| resource.name.clone()).collect()
}

fn clusters_of(catalog: &Catalog, request: &SearchRequest) -> BTreeSet<ClusterName> {
    let named = &request.list.clusters;
    let all = catalog.clusters().iter();
    all.filter(|name| named.is_empty() || named.contains(name))
        .cloned()
        .collect()
}

/// The free words of a search.
pub(super) fn words(request: &SearchRequest) -> WordSelector {
    let word = |term: &Term| match &term.condition {
        Condition::Word(text) => Some(Word::new(text, term.negated)),
        _ => None,
    };
    request.search.terms.iter().filter_map(word).collect()
}

fn one_of(
    path: &str,
    values: impl IntoIterator<Item = String>,
    is_negated: bool,
) -> FieldRequirement {
    let values = values.into_iter().collect();
    FieldRequirement {
        path: FieldPath::new(path),
        test: if is_negated {
            FieldTest::NotIn(values)
        } else {
            FieldTest::In(values)
        },
    }
}

/// The registered resources of a name: kind, plural, singular or short name, alone or followed by
/// `.group`.
fn resources_called(
    catalog: &Catalog,
    name: &str,
    term: &ReadTerm<'_>,
) -> Result<Vec<ResourceName>, ApiError> {
    let is_called = |registered: &&RegisteredResource| is_called(registered, name);
    let called = catalog.resources().filter(is_called);
    let called: Vec<ResourceName> = called.map(|registered| registered.name.clone()).collect();
    if called.is_empty() {
        let problem = format!("no ResourceRegistry selects a kind that is called {name:?}");
        return Err(term.refused(problem));
    }
    Ok(called)
}

fn is_called(registered: &RegisteredResource, name: &str) -> bool {
    let (word, group) = match name.split_once('.') {
        Some((word, group)) => (word, Some(group)),
        None => (name, None),
    };
    let is_name = |known: &str| known.eq_ignore_ascii_case(word);
    let is_short_name = || registered.short_names.iter().any(|known| is_name(known));
    group.is_none_or(|group| registered.name.group.eq_ignore_ascii_case(group))
        && (is_name(&registered.kind)
            || is_name(&registered.name.plural)
            || is_name(&registered.singular)
            || is_short_name())
}

/// The terms by which objects refer to another one. Its kind may be one that no registry selects,
/// if it is built in.
fn terms_of(
    catalog: &Catalog,
    object: &UsedObject,
    term: &ReadTerm<'_>,
) -> Result<Vec<String>, ApiError> {
    let UsedObject {
        kind,
        namespace,
        name,
    } = object;
    let namespace = namespace.as_ref().map_or("", |name| name.as_str());
    let check_scope = |is_namespaced: bool| match (is_namespaced, namespace.is_empty()) {
        (true, true) => Err(term.refused(format!(
            "objects of kind {kind} have a namespace; write uses:{kind}/<namespace>/{name}"
        ))),
        (false, false) => Err(term.refused(format!(
            "objects of kind {kind} have no namespace; write uses:{kind}/{name}"
        ))),
        _ => Ok(()),
    };
    let registered = catalog.resources();
    let called: Vec<&RegisteredResource> = registered
        .filter(|registered| is_called(registered, kind))
        .collect();
    if called.is_empty() {
        let known = kinds::resolve(kind).map_err(|_| {
            term.refused(format!("no ResourceRegistry selects a kind that is called {kind:?}, and Kubernetes has none"))
        })?;
        check_scope(known.namespaced)?;
        let Gvk { kind, .. } = known.gvk();
        let version = known.gvk().api_version();
        return Ok(vec![format!("{version}/{kind}/{namespace}/{name}")]);
    }
    let mut terms = Vec::new();
    for registered in called {
        check_scope(registered.namespaced)?;
        terms.extend(across_kinds::terms_of(registered, namespace, name));
    }
    Ok(terms)
}
