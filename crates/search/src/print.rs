//! The canonical text of a search.

use std::fmt;

use fleetdex_core::selector::{LabelRequirement, LabelTest};

use super::{
    scan::{is_bare_value, is_bare_word, quote},
    search::{Condition, Search, Term, UsedObject},
};

impl fmt::Display for Search {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<String> = self.terms.iter().map(ToString::to_string).collect();
        out.write_str(&terms.join(" "))
    }
}

impl fmt::Display for Term {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negated {
            out.write_str("-")?;
        }
        self.condition.fmt(out)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) if is_bare_word(word) => out.write_str(word),
            Self::Word(word) => out.write_str(&quote(word)),
            Self::Kind(kinds) => write_values(out, "kind", kinds),
            Self::Cluster(clusters) => write_values(out, "cluster", clusters),
            Self::Namespace(namespaces) => write_values(out, "ns", namespaces),
            Self::Name(names) => write_values(out, "name", names),
            Self::Label(requirement) => write_label(out, requirement),
            Self::Health(words) => write_values(out, "health", words),
            Self::Reason(reasons) => write_values(out, "reason", reasons),
            Self::Image(images) => write_values(out, "image", images),
            Self::Age(age) => write!(out, "age:{age}"),
            Self::Uses(objects) => write_values(out, "uses", objects),
        }
    }
}

impl fmt::Display for UsedObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(out, "{namespace}/")?;
        }
        out.write_str(&self.name)
    }
}

fn write_values(
    out: &mut fmt::Formatter<'_>,
    name: &str,
    values: &[impl fmt::Display],
) -> fmt::Result {
    write!(out, "{name}:{}", joined(values))
}

/// A value, in quotes if it needs them.
pub(super) fn value_text(value: &str) -> String {
    if is_bare_value(value) {
        value.to_owned()
    } else {
        quote(value)
    }
}

fn write_label(out: &mut fmt::Formatter<'_>, requirement: &LabelRequirement) -> fmt::Result {
    let key = requirement.key();
    match requirement.test() {
        LabelTest::In(values) => write!(out, "label:{key}={}", joined(values)),
        LabelTest::NotIn(values) => write!(out, "label:{key}!={}", joined(values)),
        LabelTest::Exists => write!(out, "label:{key}"),
        LabelTest::DoesNotExist => write!(out, "label:!{key}"),
        LabelTest::GreaterThan(bound) => write!(out, "label:{key}>{bound}"),
        LabelTest::LessThan(bound) => write!(out, "label:{key}<{bound}"),
    }
}

fn joined(values: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let texts = values
        .into_iter()
        .map(|value| value_text(&value.to_string()));
    texts.collect::<Vec<String>>().join(",")
}
