//! What a search asks for.

use std::{ops::Range, time::Duration};

use fleetdex_core::{
    model::{ClusterName, Namespace},
    selector::LabelRequirement,
};

/// A parsed search: all of its terms must hold. Without terms, every object is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The terms, in the order of the text.
    pub terms: Vec<Term>,
}

/// One condition, or its negation.
#[derive(Clone, Debug)]
pub struct Term {
    /// Its bytes in the text, with the negation.
    pub span: Range<usize>,
    /// Whether the condition must not hold.
    pub negated: bool,
    /// The condition.
    pub condition: Condition,
}

/// Terms are equal if they ask the same; where they are in the text does not matter.
impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        self.negated == other.negated && self.condition == other.condition
    }
}

impl Eq for Term {}

/// What an object must be like. Of several values one must apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A word, without its quotes; found without regard to ASCII case.
    Word(String),
    /// Kinds, as written: kind, plural, singular or short name, optionally with `.group`. The
    /// server resolves them.
    Kind(Vec<String>),
    /// Member clusters.
    Cluster(Vec<ClusterName>),
    /// Namespaces.
    Namespace(Vec<Namespace>),
    /// Exact names.
    Name(Vec<String>),
    /// A requirement on one label.
    Label(LabelRequirement),
    /// Words of health in their canonical spelling, which are those of [`crate::HEALTH_WORDS`].
    Health(Vec<String>),
    /// Exact reasons of the health.
    Reason(Vec<String>),
    /// Images, as `image` in field selectors accepts them: a repository, with a tag, or with a
    /// digest.
    Image(Vec<String>),
    /// The time since the creation.
    Age(AgeTest),
    /// Objects that the object refers to.
    Uses(Vec<UsedObject>),
}

/// A test of the time since the creation of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeTest {
    /// Whether the object must be younger than `age`, and not older. To the second, so that `<` and
    /// `<=` are the same.
    pub younger: bool,
    /// The bound, in whole seconds; a hundred years at most.
    pub age: Duration,
}

/// An object that others refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedObject {
    /// Its kind, as written; the server resolves it.
    pub kind: String,
    /// Its namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Namespace>,
    /// Its name.
    pub name: String,
}
