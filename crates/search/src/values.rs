//! The values of each qualifier.

use std::collections::BTreeSet;

use fleetdex_core::{
    model::{ClusterName, InvalidName, Namespace, is_dns_label},
    selector::{LabelRequirement, LabelTest},
};

use super::{
    age::parse_age,
    error::SyntaxError,
    qualifiers::{HEALTH_WORDS, Qualifier, QualifierKey},
    scan::Value,
    search::{AgeTest, Condition, UsedObject},
};

const NAMESPACE_RULE: &str =
    "write at most 63 lower-case letters, digits and '-', with a letter or digit at both ends";
const ONE_AGE: &str = "a term has one age: write age:>1h age:<1d for ages between two";
const ONE_LABEL: &str = "a term has one label: write label:app=web label:tier for two";

/// The condition of a qualifier with these values, of which there is at least one.
pub(super) fn condition(
    text: &str,
    qualifier: &Qualifier,
    values: &[Value],
) -> Result<Condition, SyntaxError> {
    let values = GivenValues {
        text,
        qualifier,
        all: values,
    };
    let verbatim = |text: &str| Ok(text.to_owned());
    match qualifier.key {
        QualifierKey::Kind => values.each(verbatim).map(Condition::Kind),
        QualifierKey::Cluster => values.each(cluster).map(Condition::Cluster),
        QualifierKey::Namespace => values.each(namespace).map(Condition::Namespace),
        QualifierKey::Name => values.each(verbatim).map(Condition::Name),
        QualifierKey::Health => values.each(health).map(Condition::Health),
        QualifierKey::Reason => values.each(verbatim).map(Condition::Reason),
        QualifierKey::Image => values.each(verbatim).map(Condition::Image),
        QualifierKey::Uses => values.each(used_object).map(Condition::Uses),
        QualifierKey::Age => values.age().map(Condition::Age),
        QualifierKey::Label => values.label().map(Condition::Label),
    }
}

/// The values of one term.
struct GivenValues<'t> {
    text: &'t str,
    qualifier: &'t Qualifier,
    all: &'t [Value],
}

impl GivenValues<'_> {
    fn refuse(&self, value: &Value, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.text, value.span.clone(), message)
    }

    /// Parses each value. `parse` gets no empty text; its error says what is wrong.
    fn each<T>(&self, parse: fn(&str) -> Result<T, String>) -> Result<Vec<T>, SyntaxError> {
        let parsed = |value: &Value| {
            if value.text.is_empty() {
                let example = self.qualifier.example;
                let message = format!("an empty value matches nothing: write {example}");
                return Err(self.refuse(value, message));
            }
            parse(&value.text).map_err(|message| self.refuse(value, message))
        };
        self.all.iter().map(parsed).collect()
    }

    fn age(&self) -> Result<AgeTest, SyntaxError> {
        if let Some(second) = self.all.get(1) {
            return Err(self.refuse(second, ONE_AGE));
        }
        let ages = self.each(parse_age)?;
        Ok(ages[0])
    }

    /// The first value begins with the key and the operator; the others are further values of the
    /// label.
    fn label(&self) -> Result<LabelRequirement, SyntaxError> {
        let (first, others) = (&self.all[0], &self.all[1..]);
        let LabelHead {
            key,
            operator,
            value,
        } = LabelHead::of(&first.text);
        let made = |key, test| {
            LabelRequirement::new(key, test).map_err(|error| self.refuse(first, error.to_string()))
        };
        if let (Some(second), false) = (others.first(), matches!(operator, "=" | "==" | "!=")) {
            return Err(self.refuse(second, ONE_LABEL));
        }
        match operator {
            "" if key.starts_with('!') => made(&key[1..], LabelTest::DoesNotExist),
            "" => made(key, LabelTest::Exists),
            "<" => made(key, LabelTest::LessThan(self.integer(first, value)?)),
            ">" => made(key, LabelTest::GreaterThan(self.integer(first, value)?)),
            _ => {
                made(key, LabelTest::Exists)?;
                let values = self.label_values(key, first, value, others)?;
                let test = if operator == "!=" {
                    LabelTest::NotIn
                } else {
                    LabelTest::In
                };
                made(key, test(values))
            }
        }
    }

    fn integer(&self, first: &Value, text: &str) -> Result<i64, SyntaxError> {
        let number = text.parse::<i64>().ok().filter(|number| *number >= 0);
        number.ok_or_else(|| {
            let message = format!(
                "labels are compared with whole numbers from 0, and {text:?} is none: write label:weight>3"
            );
            self.refuse(first, message)
        })
    }

    /// The values of a label, each of which is checked by itself, so that an error has its
    /// position.
    fn label_values(
        &self,
        key: &str,
        first: &Value,
        first_text: &str,
        others: &[Value],
    ) -> Result<BTreeSet<String>, SyntaxError> {
        if first_text.is_empty() && !first.is_quoted {
            let message = format!(
                "a value is missing: write label:{key} if the label only has to exist, label:{key}=\"\" for the empty value"
            );
            return Err(self.refuse(first, message));
        }
        let others = others.iter().map(|value| (value, value.text.as_str()));
        let mut values = BTreeSet::new();
        for (value, text) in std::iter::once((first, first_text)).chain(others) {
            let alone = LabelTest::In([text.to_owned()].into());
            let is_other_label = !values.is_empty() && text.contains('=');
            LabelRequirement::new(key, alone).map_err(|error| {
                let reason = error.to_string();
                self.refuse(value, if is_other_label { ONE_LABEL } else { &reason })
            })?;
            values.insert(text.to_owned());
        }
        Ok(values)
    }
}

/// Key, operator and first value of a label; without an operator it only has to exist.
pub(super) struct LabelHead<'t> {
    pub(super) key: &'t str,
    pub(super) operator: &'t str,
    pub(super) value: &'t str,
}

impl<'t> LabelHead<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let operators = ["==", "!=", "=", "<", ">"];
        let found = text.char_indices().find_map(|(position, _)| {
            let rest = &text[position..];
            let operator = operators.iter().find(|known| rest.starts_with(**known))?;
            Some((position, operator.len()))
        });
        let (key_end, length) = found.unwrap_or((text.len(), 0));
        Self {
            key: &text[..key_end],
            operator: &text[key_end..key_end + length],
            value: &text[key_end + length..],
        }
    }
}

/// Contexts of a kubeconfig are clusters, too, and have nearly any name.
fn cluster(text: &str) -> Result<ClusterName, String> {
    if text.contains(char::is_control) {
        return Err(format!(
            "invalid cluster name {text:?}: write a name without control characters, such as member1"
        ));
    }
    text.parse().map_err(|error: InvalidName| error.to_string())
}

fn namespace(text: &str) -> Result<Namespace, String> {
    let invalid = || format!("invalid namespace {text:?}: {NAMESPACE_RULE}");
    if !is_dns_label(text) {
        return Err(invalid());
    }
    text.parse().map_err(|_| invalid())
}

fn health(text: &str) -> Result<String, String> {
    let mut words = HEALTH_WORDS.iter().map(|known| known.word);
    let found = words.find(|word| word.eq_ignore_ascii_case(text));
    found.map(str::to_owned).ok_or_else(|| {
        let words = HEALTH_WORDS.map(|known| known.word);
        let (last, others) = (words[5], words[..5].join(", "));
        format!("unknown health {text:?}: write {others} or {last}")
    })
}

fn used_object(text: &str) -> Result<UsedObject, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let (kind, namespace_name, name) = match parts[..] {
        [kind, name] => (kind, None, name),
        [kind, namespace_name, name] => (kind, Some(namespace_name), name),
        _ => ("", None, ""),
    };
    if kind.is_empty() || name.is_empty() {
        return Err(format!(
            "invalid object {text:?}: write kind/namespace/name, as in uses:secret/web/credentials, or kind/name of a cluster-scoped object, as in uses:node/n1"
        ));
    }
    Ok(UsedObject {
        kind: kind.to_owned(),
        namespace: namespace_name.map(namespace).transpose()?,
        name: name.to_owned(),
    })
}
