//! Queries in the language of Dashboards (DQL).

#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldCondition {
    field: &'static str,
    values: &'static str,
    is_negated: bool,
}

/// The field has one of some values: a word, `(a or b)`, or `*` for any.
pub(crate) const fn matches(field: &'static str, values: &'static str) -> FieldCondition {
    FieldCondition {
        field,
        values,
        is_negated: false,
    }
}

/// The field has none of some values.
pub(crate) const fn excludes(field: &'static str, values: &'static str) -> FieldCondition {
    FieldCondition {
        field,
        values,
        is_negated: true,
    }
}

/// The query of what meets all conditions; without any, it is empty and finds everything.
pub(crate) fn query(conditions: &[FieldCondition]) -> String {
    let texts = conditions.iter().map(|condition| {
        let not = if condition.is_negated { "not " } else { "" };
        format!("{not}{}: {}", condition.field, condition.values)
    });
    texts.collect::<Vec<String>>().join(" and ")
}
