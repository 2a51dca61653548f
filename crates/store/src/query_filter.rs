//! Filters: a query's conditions on terms, equal to its translation for OpenSearch (`query::dsl`).

use std::{borrow::Cow, collections::BTreeSet};

use fleetdex_core::{
    fuel::{Fuel, OutOfFuel},
    model::{ClusterName, FieldPath, Quantity, number::parse_integer},
    query::{
        InCluster, Owners, Permitted, Query, QueryError, Selectable, Word, WordSelector, WordText,
    },
    selector::{Comparison, FieldRequirement, FieldTest, LabelRequirement, LabelTest},
};

use super::{
    compressed::Decompressor,
    document::StoredDocument,
    terms::{NAMESPACE, OWNER, StoredTerm, WORD_KEYS, label_key, label_of},
};

/// A query's conditions on the documents of its resource, all of which have to hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) conditions: Vec<FilterCondition>,
    /// The keys of the terms that these read.
    keys: BTreeSet<String>,
    /// Conditions on paths that have no terms, which are looked up in the object itself.
    on_object: Vec<FilterCondition>,
    paths: BTreeSet<FieldPath>,
    /// What the caller may see, which differs between clusters.
    permitted: Permitted,
    /// The owners, which differ between clusters, too.
    owners: Option<Owners>,
    words: WordSelector,
}

/// One condition.
#[derive(Clone, Debug)]
pub(super) struct FilterCondition {
    /// What a document must have or, if negated, must not have.
    pub(super) test: Test,
    /// Whether the test must fail.
    pub(super) negated: bool,
    /// Or this test holds: for `in (,a)`, *empty* or *one of the values*.
    pub(super) or_else: Option<Test>,
}

/// Whether a document has a term.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// A key with one of some values.
    Value {
        key: String,
        values: BTreeSet<String>,
    },
    /// A key, whatever its value.
    Key(String),
    /// A key with a value that is not empty.
    NotEmpty(String),
    /// A key with an integer greater than this one.
    IntegerAbove(String, i64),
    /// A key with an integer less than this one.
    IntegerBelow(String, i64),
    /// One of these names.
    Name(BTreeSet<String>),
    /// A key with a number or a quantity that compares like this.
    Compares(String, Comparison, Quantity),
    /// Created from the first second until before the second one.
    Created(Option<i64>, Option<i64>),
    /// Never holds.
    Nothing,
}

impl Filter {
    /// The conditions of a query; refuses what the translation for OpenSearch refuses.
    pub(super) fn new(query: &Query) -> Result<Self, QueryError> {
        query.check()?;
        let mut filter = Self {
            permitted: query.permitted.clone(),
            owners: query.owners.clone(),
            words: query.words.clone(),
            ..Self::default()
        };
        if !query.namespaces.is_empty() {
            let values = query.namespaces.iter().map(ToString::to_string).collect();
            filter.require(Test::Value {
                key: NAMESPACE.to_owned(),
                values,
            });
        }
        if query.since.is_some() || query.before.is_some() {
            // Creation times are whole seconds: the first one that is not earlier, and the first
            // one that is too late.
            let seconds = |bound: Option<i64>| {
                bound.map(|millis| {
                    millis.div_euclid(1_000) + i64::from(millis.rem_euclid(1_000) > 0)
                })
            };
            filter.require(Test::Created(seconds(query.since), seconds(query.before)));
        }
        if !query.names.is_empty() {
            filter.require(Test::Name(query.names.iter().cloned().collect()));
        }
        for requirement in query.labels.requirements() {
            filter.add_label(requirement);
        }
        for requirement in query.fields.requirements() {
            filter.add_field(requirement, &query.selectable)?;
        }
        Ok(filter)
    }

    /// The conditions on the documents of one cluster; `None` if the caller may see none of them.
    pub(super) fn in_cluster(&self, cluster: &ClusterName) -> Option<Cow<'_, Self>> {
        let namespaces = match self.permitted.in_cluster(cluster) {
            InCluster::Nothing => return None,
            InCluster::Everything => None,
            InCluster::Namespaces(names) => Some(names.into_iter().map(str::to_owned).collect()),
        };
        if namespaces.is_none() && self.owners.is_none() {
            return Some(Cow::Borrowed(self));
        }
        let mut narrowed = self.clone();
        if let Some(values) = namespaces {
            narrowed.require(Test::Value {
                key: NAMESPACE.to_owned(),
                values,
            });
        }
        if let Some(owners) = &self.owners {
            narrowed.require(Test::Value {
                key: OWNER.to_owned(),
                values: owners.of_cluster(cluster),
            });
        }
        Some(Cow::Owned(narrowed))
    }

    pub(super) fn words(&self) -> &[Word] {
        self.words.words()
    }

    /// Whether it matches every document that the caller may see.
    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty()
            && self.on_object.is_empty()
            && self.owners.is_none()
            && self.words.is_empty()
    }

    /// Whether it matches a document. Takes steps for each term that it reads, and for each
    /// condition and word that is compared with it.
    pub(super) fn matches(
        &self,
        document: &StoredDocument,
        fuel: &Fuel,
    ) -> Result<bool, OutOfFuel> {
        if !self
            .permitted
            .allows(document.origin.cluster.as_str(), document.namespace())
        {
            return Ok(false);
        }
        if self.is_empty() {
            return Ok(true);
        }
        if !self.matches_terms(document, fuel)? {
            return Ok(false);
        }
        if self.on_object.is_empty() {
            return Ok(true);
        }
        let leaves = document.leaves(&self.paths, &mut Decompressor::new());
        fuel.take(self.on_object.len().saturating_mul(leaves.len()))?;
        Ok(self.leaves_match(document, &leaves))
    }

    fn matches_terms(&self, document: &StoredDocument, fuel: &Fuel) -> Result<bool, OutOfFuel> {
        let terms = self.copied_terms(document, fuel)?;
        let terms: Vec<(&str, &str)> = terms
            .iter()
            .map(|term| (term.key(), term.value()))
            .collect();
        let references = terms
            .iter()
            .filter(|(key, _)| *key == OWNER)
            .map(|(_, value)| *value);
        let is_owned = self
            .owners
            .as_ref()
            .is_none_or(|owners| owners.matches(document.origin.cluster.as_str(), references));
        if !is_owned {
            return Ok(false);
        }
        fuel.take(self.conditions.len().saturating_mul(terms.len()))?;
        let holds = |condition: &FilterCondition| condition.holds(document, &terms);
        if !self.conditions.iter().all(holds) {
            return Ok(false);
        }
        let is_found =
            self.words.is_empty() || self.words.score(&texts(document, &terms), fuel)?.is_some();
        Ok(is_found)
    }

    /// Copies of the terms that are compared, so that nothing is compared while their lock is held.
    fn copied_terms(
        &self,
        document: &StoredDocument,
        fuel: &Fuel,
    ) -> Result<Vec<StoredTerm>, OutOfFuel> {
        let vocabulary = document.origin.vocabulary.read();
        let mut copied = Vec::new();
        for number in document.terms() {
            fuel.take(1)?;
            if let Some(term) = vocabulary
                .term(number)
                .filter(|term| self.reads(term.key()))
            {
                fuel.take_text(term.key().len() + term.value().len())?;
                copied.push(term.clone());
            }
        }
        Ok(copied)
    }

    /// Whether terms of a key are compared.
    fn reads(&self, key: &str) -> bool {
        self.keys.contains(key)
            || (key == OWNER && self.owners.is_some())
            || (!self.words.is_empty() && (label_of(key).is_some() || WORD_KEYS.contains(&key)))
    }

    /// Whether it reads the object itself, too.
    pub(super) fn needs_object(&self) -> bool {
        !self.on_object.is_empty()
    }

    /// Whether the conditions on the object itself hold. It takes some microseconds, and locks only
    /// the document.
    pub(super) fn matches_object(
        &self,
        document: &StoredDocument,
        decompressor: &mut Decompressor,
    ) -> bool {
        self.leaves_match(document, &document.leaves(&self.paths, decompressor))
    }

    fn leaves_match(&self, document: &StoredDocument, leaves: &[(String, String)]) -> bool {
        let leaves: Vec<(&str, &str)> = leaves
            .iter()
            .map(|(path, value)| (path.as_str(), value.as_str()))
            .collect();
        self.on_object
            .iter()
            .all(|condition| condition.holds(document, &leaves))
    }

    fn require(&mut self, test: Test) {
        self.add(require(test));
    }

    fn add(&mut self, condition: FilterCondition) {
        let tests = [Some(&condition.test), condition.or_else.as_ref()];
        let keys = tests.into_iter().flatten().filter_map(Test::key);
        self.keys.extend(keys.map(str::to_owned));
        self.conditions.push(condition);
    }

    fn add_label(&mut self, requirement: &LabelRequirement) {
        let key = label_key(requirement.key()).into_owned();
        let one_of = |key, values: &BTreeSet<String>| {
            let values = values.clone();
            Test::Value { key, values }
        };
        self.add(match requirement.test() {
            LabelTest::In(values) => require(one_of(key, values)),
            LabelTest::NotIn(values) => refuse(one_of(key, values)),
            LabelTest::Exists => require(Test::Key(key)),
            LabelTest::DoesNotExist => refuse(Test::Key(key)),
            LabelTest::GreaterThan(bound) => require(Test::IntegerAbove(key, *bound)),
            LabelTest::LessThan(bound) => require(Test::IntegerBelow(key, *bound)),
        });
    }

    fn add_field(
        &mut self,
        requirement: &FieldRequirement,
        selectable: &Selectable,
    ) -> Result<(), QueryError> {
        let Some(path) = selectable.stored_path(requirement.path.as_str())? else {
            if !requirement.test.accepts("") {
                self.require(Test::Nothing);
            }
            return Ok(());
        };
        let conditions = field_conditions(&path, &requirement.test, selectable);
        if selectable.is_known(&path) {
            for condition in conditions {
                self.add(condition);
            }
        } else {
            self.on_object.extend(conditions);
            self.paths.insert(path);
        }
        Ok(())
    }
}

/// The texts of a document in which words are looked for. `terms` are keys and values that it has.
fn texts<'t>(document: &'t StoredDocument, terms: &[(&'t str, &'t str)]) -> Vec<WordText<'t>> {
    let origin = &document.origin;
    let whole = [&*origin.kind, origin.cluster.as_str(), document.name()];
    let of_terms = terms.iter().filter_map(|(key, value)| match label_of(key) {
        Some(label) => Some(WordText::Label(label, value)),
        None => WORD_KEYS.contains(key).then_some(WordText::Whole(value)),
    });
    let whole = whole.into_iter().map(WordText::Whole);
    whole.chain(of_terms).collect()
}

/// The conditions of a field requirement.
fn field_conditions(
    path: &FieldPath,
    test: &FieldTest,
    selectable: &Selectable,
) -> Vec<FilterCondition> {
    let key = path.as_str();
    let is_name_or_namespace = matches!(key, "metadata.name" | NAMESPACE);
    let stores_empty_values = selectable.is_always_stored(path) && !is_name_or_namespace;
    let asks_for_empty = !stores_empty_values && test.values().contains("");
    let named = values_test(
        key,
        test.values()
            .iter()
            .filter(|value| !(asks_for_empty && value.is_empty())),
    );
    let not_empty = || Test::NotEmpty(key.to_owned());
    match (test, asks_for_empty) {
        (FieldTest::In(_), false) => vec![require(named)],
        (FieldTest::NotIn(_), false) => vec![refuse(named)],
        (FieldTest::Compares(comparison, bound), _) => {
            vec![require(Test::Compares(key.to_owned(), *comparison, *bound))]
        }
        (FieldTest::In(_), true) => vec![FilterCondition {
            or_else: Some(named),
            ..refuse(not_empty())
        }],
        (FieldTest::NotIn(_), true) => vec![require(not_empty()), refuse(named)],
    }
}

fn require(test: Test) -> FilterCondition {
    FilterCondition {
        test,
        negated: false,
        or_else: None,
    }
}

fn refuse(test: Test) -> FilterCondition {
    FilterCondition {
        negated: true,
        ..require(test)
    }
}

fn values_test<'v>(key: &str, values: impl Iterator<Item = &'v String>) -> Test {
    let values: BTreeSet<String> = values.cloned().collect();
    match key {
        _ if values.is_empty() => Test::Nothing,
        "metadata.name" => Test::Name(values),
        _ => Test::Value {
            key: key.to_owned(),
            values,
        },
    }
}

impl FilterCondition {
    /// `terms` are keys and values that the document has.
    fn holds(&self, document: &StoredDocument, terms: &[(&str, &str)]) -> bool {
        let holds = self.test.holds(document, terms) != self.negated;
        holds
            || self
                .or_else
                .as_ref()
                .is_some_and(|test| test.holds(document, terms))
    }
}

impl Test {
    /// The key of the terms that it reads.
    fn key(&self) -> Option<&str> {
        match self {
            Self::Value { key, .. }
            | Self::Key(key)
            | Self::NotEmpty(key)
            | Self::IntegerAbove(key, _)
            | Self::IntegerBelow(key, _)
            | Self::Compares(key, ..) => Some(key),
            Self::Name(_) | Self::Created(..) | Self::Nothing => None,
        }
    }

    /// Whether it holds for a value of its key; false if it reads no terms.
    pub(super) fn accepts(&self, value: &str) -> bool {
        match self {
            Self::Value { values, .. } => values.contains(value),
            Self::Key(_) => true,
            Self::NotEmpty(_) => !value.is_empty(),
            Self::IntegerAbove(_, bound) => {
                parse_integer(value).is_some_and(|found| found > *bound)
            }
            Self::IntegerBelow(_, bound) => {
                parse_integer(value).is_some_and(|found| found < *bound)
            }
            Self::Compares(_, comparison, bound) => {
                Quantity::parse(value).is_some_and(|found| comparison.holds(found, *bound))
            }
            Self::Name(_) | Self::Created(..) | Self::Nothing => false,
        }
    }

    fn holds(&self, document: &StoredDocument, terms: &[(&str, &str)]) -> bool {
        match self {
            Self::NotEmpty(key) if key == "metadata.name" => true,
            Self::Name(names) => names.contains(document.name()),
            Self::Created(since, before) => document.is_created_in(*since, *before),
            _ => self.key().is_some_and(|key| {
                let holds = |(known, value): &(&str, &str)| *known == key && self.accepts(value);
                terms.iter().any(holds)
            }),
        }
    }
}
