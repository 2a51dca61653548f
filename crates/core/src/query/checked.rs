//! Checks queries before a store is asked.
//!
//! [`Query::check`] has the rules that every store keeps. [`CheckedQuery`] adds the sizes that
//! OpenSearch takes. The server refuses larger queries whichever store answers, because a query
//! should not depend on where the objects are stored. What is checked here is what the translation
//! for OpenSearch builds without errors.

use std::borrow::Cow;

use super::{
    Grant, Owners, Permitted, Query, QueryError, Relation, RelativesQuery, Selectable,
    words::MAX_WORDS,
};
use crate::{
    model::{FieldPath, MAX_FIELD_VALUE_BYTES, index_fields},
    selector::{FieldRequirement, FieldTest, LabelTest},
};

/// Clauses of one `bool` query that OpenSearch takes (`indices.query.bool.max_clause_count`).
pub const MAX_CLAUSES: usize = 1024;

/// Values of one `terms` query that OpenSearch takes (`index.max_terms_count`).
const MAX_VALUES: usize = 65_536;

/// Objects of one page at most: OpenSearch returns 10,000 hits (`index.max_result_window`), and one
/// hit more than the page shows whether another page follows.
pub const MAX_LIMIT: usize = 9_999;

/// A query that every store can answer, with the stored field of each field requirement.
#[derive(Clone, Debug)]
pub struct CheckedQuery<'q> {
    query: Cow<'q, Query>,
    fields: Vec<Option<StoredField>>,
    /// Clauses that its translation has.
    clauses: usize,
}

impl<'q> CheckedQuery<'q> {
    /// Checks a query, sizes included.
    pub fn new(query: &'q Query) -> Result<Self, QueryError> {
        Self::of(Cow::Borrowed(query))
    }

    /// Checks a query, borrowed or owned.
    pub fn of(query: Cow<'q, Query>) -> Result<Self, QueryError> {
        let fields = query.stored_fields()?;
        let clauses = check_sizes(&query, &fields)?;
        Ok(Self {
            query,
            fields,
            clauses,
        })
    }

    /// Clauses that its translation has, without those of its words.
    pub fn clauses_without_words(&self) -> usize {
        self.clauses.saturating_sub(self.query.words.clauses())
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The field requirements, each with its stored field; `None` for a field that always reads
    /// empty.
    pub fn fields(&self) -> impl Iterator<Item = (&FieldRequirement, Option<&StoredField>)> {
        let stored = self.fields.iter().map(Option::as_ref);
        self.query.fields.requirements().zip(stored)
    }
}

/// A search for relatives whose lists have sizes that OpenSearch takes.
#[derive(Clone, Copy, Debug)]
pub struct CheckedRelatives<'q>(&'q RelativesQuery);

impl<'q> CheckedRelatives<'q> {
    /// Checks the sizes of a search.
    pub fn new(relatives: &'q RelativesQuery) -> Result<Self, QueryError> {
        check_values(relatives.clusters.len())?;
        check_values(relatives.namespaces.len())?;
        count_permitted(&relatives.permitted)?;
        match &relatives.relation {
            Relation::Named { names, .. } => check_values(names.len())?,
            Relation::OwnedBy(owners) => check_owners(owners)?,
            Relation::DependsOn(terms) => check_values(terms.len())?,
        }
        Ok(Self(relatives))
    }

    /// The search.
    pub fn relatives(self) -> &'q RelativesQuery {
        self.0
    }
}

impl Query {
    /// Checks what every store refuses: a page with too many objects, a field that is not
    /// selectable, a comparison of what is no number, a value that is too long.
    pub fn check(&self) -> Result<(), QueryError> {
        self.stored_fields().map(drop)
    }

    /// The stored field of each field requirement.
    fn stored_fields(&self) -> Result<Vec<Option<StoredField>>, QueryError> {
        at_most(MAX_LIMIT, "objects in one page", self.limit)?;
        at_most(MAX_WORDS, "words", self.words.words().len())?;
        if let Some(bytes) = self.words.invalid_length() {
            return Err(QueryError::WordLength { bytes });
        }
        self.fields
            .requirements()
            .map(|requirement| StoredField::of(requirement, &self.selectable))
            .collect()
    }
}

/// A selectable field, and where documents hold it.
#[derive(Clone, Debug)]
pub struct StoredField {
    /// Its path.
    pub path: FieldPath,
    /// Every document has a term for it.
    always_stored: bool,
}

impl StoredField {
    fn of(
        requirement: &FieldRequirement,
        selectable: &Selectable,
    ) -> Result<Option<Self>, QueryError> {
        let stored = selectable.stored_path(requirement.path.as_str())?;
        let holds_numbers = stored
            .as_ref()
            .is_some_and(|path| selectable.holds_numbers(path));
        if matches!(requirement.test, FieldTest::Compares(..)) && !holds_numbers {
            return Err(QueryError::NotNumeric(requirement.path.to_string()));
        }
        let mut values = requirement.test.values().iter();
        if let Some(value) = values.find(|value| value.len() > MAX_FIELD_VALUE_BYTES) {
            return Err(QueryError::ValueTooLong {
                path: requirement.path.to_string(),
                bytes: value.len(),
            });
        }
        Ok(stored.map(|path| Self {
            always_stored: selectable.is_always_stored(&path),
            path,
        }))
    }

    /// Name and namespace are mapped under their own paths.
    pub fn is_mapped(&self) -> bool {
        matches!(
            self.path.as_str(),
            index_fields::NAME | index_fields::NAMESPACE
        )
    }

    /// Whether a test asks for the empty value, and no term stands for that: an absent optional
    /// field reads empty, too.
    pub fn tests_empty(&self, test: &FieldTest) -> bool {
        let has_term_for_empty = self.always_stored && !self.is_mapped();
        !has_term_for_empty && test.values().contains("")
    }

    /// The values of a test that terms stand for.
    pub fn term_values<'t>(&self, test: &'t FieldTest) -> Vec<&'t String> {
        let tests_empty = self.tests_empty(test);
        let values = test.values().iter();
        values
            .filter(|value| !(tests_empty && value.is_empty()))
            .collect()
    }
}

/// Checks the sizes in the order in which a client reads them: lists, permissions, owners,
/// selectors, and then all clauses together.
fn check_sizes(query: &Query, fields: &[Option<StoredField>]) -> Result<usize, QueryError> {
    // The group and the resource.
    let mut clauses = 2;
    for values in [
        query.clusters.len(),
        query.namespaces.len(),
        query.names.len(),
    ] {
        check_values(values)?;
        clauses += usize::from(values > 0);
    }
    clauses += count_permitted(&query.permitted)?;
    clauses += usize::from(query.since.is_some() || query.before.is_some());
    if let Some(owners) = &query.owners {
        check_owners(owners)?;
        clauses += 1;
    }
    for requirement in query.labels.requirements() {
        if let LabelTest::In(values) | LabelTest::NotIn(values) = requirement.test() {
            check_values(values.len())?;
        }
        clauses += 1;
    }
    for (requirement, field) in query.fields.requirements().zip(fields) {
        clauses += count_field(&requirement.test, field.as_ref())?;
    }
    clauses += query.words.clauses();
    check_clauses(clauses)?;
    Ok(clauses)
}

/// Clauses for a permission. OpenSearch counts the clauses of alternatives, too.
fn count_permitted(permitted: &Permitted) -> Result<usize, QueryError> {
    let Permitted::Only(grants) = permitted else {
        return Ok(0);
    };
    let mut clauses = Vec::new();
    for grant in grants.iter().filter(|grant| !grant.is_empty()) {
        check_values(grant.clusters.as_ref().map_or(0, Vec::len))?;
        check_values(grant.namespaces.as_ref().map_or(0, Vec::len))?;
        match count_grant(grant) {
            0 => return Ok(0),
            parts => clauses.push(parts),
        }
    }
    at_most(MAX_CLAUSES, "permissions", clauses.iter().sum())?;
    Ok(match clauses.as_slice() {
        [only] => *only,
        _ => 1,
    })
}

/// Clauses for a grant that covers something; none if it covers everything.
fn count_grant(grant: &Grant) -> usize {
    usize::from(grant.clusters.is_some()) + usize::from(grant.namespaces.is_some())
}

fn check_owners(owners: &Owners) -> Result<(), QueryError> {
    let mut clusters = 0;
    for (_, uids) in owners.by_cluster() {
        check_values(uids.len())?;
        clusters += 1;
    }
    // Each has a clause for its cluster and one for its owners.
    at_most(MAX_CLAUSES / 2, "clusters with owners", clusters)
}

fn count_field(test: &FieldTest, field: Option<&StoredField>) -> Result<usize, QueryError> {
    let Some(field) = field else {
        return Ok(1);
    };
    let values = field.term_values(test).len();
    check_values(values)?;
    // Not empty, and none of the values.
    let is_two = matches!(test, FieldTest::NotIn(_)) && field.tests_empty(test) && values > 0;
    Ok(if is_two { 2 } else { 1 })
}

fn check_values(found: usize) -> Result<(), QueryError> {
    at_most(MAX_VALUES, "values in one set", found)
}

/// Refuses more clauses than OpenSearch takes in one query.
pub fn check_clauses(clauses: usize) -> Result<(), QueryError> {
    at_most(MAX_CLAUSES, "clauses", clauses)
}

fn at_most(limit: usize, what: &'static str, found: usize) -> Result<(), QueryError> {
    if found > limit {
        return Err(QueryError::TooLarge { what, found, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kinds,
        model::{ClusterName, Gvk, SelectableField},
        query::{Requester, ResourceName},
    };

    fn built_in(resource: &str, labels: &str, fields: &str) -> Query {
        let kind = kinds::resolve(resource).unwrap();
        let name = ResourceName::new(kind.group, kind.plural);
        Query {
            labels: labels.parse().unwrap(),
            fields: fields.parse().unwrap(),
            ..Query::all_of(name, Selectable::of(&kind.gvk(), &[]), 1)
        }
    }

    fn pods(labels: &str, fields: &str) -> Query {
        built_in("pods", labels, fields)
    }

    fn widgets(fields: &str) -> Query {
        let color = SelectableField::optional(&FieldPath::new("spec.color"));
        let selectable = Selectable::of(&Gvk::new("example.com", "v1", "Widget"), &[color]);
        Query {
            fields: fields.parse().unwrap(),
            ..Query::all_of(ResourceName::new("example.com", "widgets"), selectable, 1)
        }
    }

    fn clusters(count: usize) -> Vec<ClusterName> {
        (0..count)
            .map(|number| format!("c{number}").parse().unwrap())
            .collect()
    }

    fn grants(count: usize) -> Permitted {
        let grant = |cluster| Grant {
            clusters: Some(vec![cluster]),
            namespaces: None,
        };
        Permitted::Only(clusters(count).into_iter().map(grant).collect())
    }

    fn owners(clusters_with_owners: usize) -> Owners {
        let mut owners = Owners::default();
        for cluster in clusters(clusters_with_owners) {
            owners.insert(Some(cluster), "uid");
        }
        owners
    }

    fn refusal(query: &Query) -> String {
        CheckedQuery::new(query).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
    }

    #[test]
    fn a_field_that_is_not_selectable_is_named_with_those_that_are() {
        assert_eq!(
            refusal(&built_in(
                "services",
                "",
                "spec.type=NodePort,spec.ports=80"
            )),
            "field label not supported: spec.ports; these are: metadata.name, metadata.namespace, spec.clusterIP, spec.type"
        );
        assert_eq!(
            refusal(&built_in("nodes", "", "metadata.namespace=x")),
            "field label not supported: metadata.namespace; these are: metadata.name, spec.unschedulable"
        );
        assert!(CheckedQuery::new(&widgets("spec.size=1")).is_err());
    }

    #[test]
    fn a_value_longer_than_documents_hold_is_refused() {
        let node = |bytes| pods("", &format!("spec.nodeName={}", "x".repeat(bytes)));
        assert_eq!(
            refusal(&node(1025)),
            "the value of field \"spec.nodeName\" is 1025 bytes long, and a field selector compares at most 1024"
        );
        assert_eq!(refusal(&node(1024)), "accepted");
    }

    #[test]
    fn a_size_is_accepted_up_to_its_limit_and_named_beyond_it() {
        let names = |count: usize| Query {
            names: (0..count).map(|number| format!("n{number}")).collect(),
            ..pods("", "")
        };
        let permitted = |count| Query {
            permitted: grants(count),
            ..pods("", "")
        };
        let owned = |count| Query {
            owners: Some(owners(count)),
            ..pods("", "")
        };
        let labels = |count: usize| {
            let keys: Vec<String> = (0..count).map(|number| format!("l{number}")).collect();
            pods(&keys.join(","), "")
        };
        let colors = |count: usize| {
            let values: Vec<String> = (0..count).map(|number| format!("v{number}")).collect();
            widgets(&format!("spec.color in (,{})", values.join(",")))
        };
        let limit = |limit| Query {
            limit,
            ..pods("", "")
        };
        for (accepted, refused, what) in [
            (
                names(65_536),
                names(65_537),
                "65537 values in one set, and at most 65536",
            ),
            (
                colors(65_536),
                colors(65_537),
                "65537 values in one set, and at most 65536",
            ),
            (
                permitted(1024),
                permitted(1025),
                "1025 permissions, and at most 1024",
            ),
            (
                owned(512),
                owned(513),
                "513 clusters with owners, and at most 512",
            ),
            (labels(1022), labels(1023), "1025 clauses, and at most 1024"),
            (
                limit(9_999),
                limit(10_000),
                "10000 objects in one page, and at most 9999",
            ),
        ] {
            assert_eq!(refusal(&accepted), "accepted", "{what}");
            assert_eq!(
                refusal(&refused),
                format!("the query asks for {what} are possible; ask in several queries")
            );
        }
    }

    #[test]
    fn only_the_page_and_the_fields_are_checked_for_every_store() {
        let many = Query {
            permitted: grants(1025),
            ..pods("", "")
        };
        assert_eq!(many.check(), Ok(()));
        let page = Query {
            limit: MAX_LIMIT + 1,
            ..pods("", "")
        };
        assert!(page.check().is_err() && pods("", "spec.color=red").check().is_err());
    }

    #[test]
    fn relatives_have_the_limits_of_queries() {
        let relatives = |permitted, relation| RelativesQuery {
            clusters: Vec::new(),
            namespaces: Vec::new(),
            permitted,
            requester: Requester::Operator,
            relation,
        };
        let named = |count: usize| Relation::Named {
            resource: None,
            names: vec!["a".to_owned(); count],
        };
        let accepts = |relatives: &RelativesQuery| CheckedRelatives::new(relatives).is_ok();
        assert!(accepts(&relatives(grants(1024), named(65_536))));
        assert!(!accepts(&relatives(grants(1025), named(1))));
        assert!(!accepts(&relatives(Permitted::Everything, named(65_537))));
        assert!(accepts(&relatives(
            Permitted::Everything,
            Relation::OwnedBy(owners(512))
        )));
        assert!(!accepts(&relatives(
            Permitted::Everything,
            Relation::OwnedBy(owners(513))
        )));
    }
}
