//! Completes a search at a position.

use std::ops::Range;

use super::{
    parse::{MAX_BYTES, parse},
    print::value_text,
    qualifiers::{HEALTH_WORDS, QUALIFIERS, Qualifier, QualifierKey},
    scan,
    values::LabelHead,
    vocabulary::{ValueSet, Vocabulary, WantedValues},
};

/// The most items of one answer.
pub const MAX_ITEMS: usize = 50;
/// Values of one qualifier that are offered for a word without one.
const VALUES_FOR_A_WORD: usize = 5;
/// Ages that are offered.
const AGES: [(&str, &str); 8] = [
    ("<10m", "created in the last ten minutes"),
    ("<1h", "created in the last hour"),
    ("<1d", "created in the last day"),
    ("<1w", "created in the last week"),
    (">1h", "created more than an hour ago"),
    (">1d", "created more than a day ago"),
    (">1w", "created more than a week ago"),
    (">30d", "created more than 30 days ago"),
];

/// What may stand at a position of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// The bytes of the text that an item replaces.
    pub replace: Range<usize>,
    /// The alternatives, best first.
    pub items: Vec<Completion>,
}

/// One alternative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The text to insert, with quotes if it needs them.
    pub text: String,
    /// What it means.
    pub detail: String,
    /// Whether the term is complete with it; otherwise a value follows.
    pub is_finished: bool,
}

/// Completes what stands before `cursor`, a position in bytes, and replaces the whole name or value
/// around it.
///
/// If the other terms of the text are valid, so is the whole text with a finished item. Values of
/// the vocabulary that the grammar refuses are left out.
pub fn complete(text: &str, cursor: usize, vocabulary: &dyn Vocabulary) -> Completions {
    let cursor = text.floor_char_boundary(cursor);
    let piece = piece_at(text, cursor);
    let is_negated = text[piece.clone()].starts_with('-');
    let body = piece.start + usize::from(is_negated)..piece.end;
    let context = Context {
        text,
        cursor,
        body,
        vocabulary,
    };
    if text.len() > MAX_BYTES || cursor < context.body.start {
        return context.nothing();
    }
    let Completions { replace, mut items } = context.completions();
    let others_are_valid = parse(&other_terms(text, cursor)).is_ok();
    let (before, after) = if others_are_valid {
        (&text[..replace.start], &text[replace.end..])
    } else {
        (
            &text[piece.start..replace.start],
            &text[replace.end..piece.end],
        )
    };
    items.retain(|item| !item.is_finished || parse(&[before, &item.text, after].concat()).is_ok());
    items.truncate(MAX_ITEMS);
    Completions { replace, items }
}

/// The text without the term at `cursor`, a position in bytes.
pub fn other_terms(text: &str, cursor: usize) -> String {
    let term = piece_at(text, text.floor_char_boundary(cursor));
    let before = &text[..term.start];
    // The negation belongs to the term that follows it.
    let negation = scan::pieces(before).pop();
    let negation = negation.filter(|piece| &text[piece.clone()] == "NOT");
    let start = negation.map_or(term.start, |negation| negation.start);
    [&text[..start], &text[term.end..]].concat()
}

/// What stands at the cursor between white space; empty if nothing does.
fn piece_at(text: &str, cursor: usize) -> Range<usize> {
    let is_touched = |piece: &Range<usize>| (piece.start..=piece.end).contains(&cursor);
    let piece = scan::pieces(text).into_iter().find(is_touched);
    piece.unwrap_or(cursor..cursor)
}

/// The term at the cursor.
struct Context<'t> {
    text: &'t str,
    cursor: usize,
    /// The term without its negation.
    body: Range<usize>,
    vocabulary: &'t dyn Vocabulary,
}

impl Context<'_> {
    fn completions(&self) -> Completions {
        let colon = scan::colon(self.text, self.body.clone());
        match colon {
            Some(colon) if colon < self.cursor => {
                match Qualifier::named(&self.text[self.body.start..colon]) {
                    Some(qualifier) => self.values(qualifier, colon + 1..self.body.end),
                    None => self.nothing(),
                }
            }
            Some(colon) => self.names(self.body.start..colon + 1),
            None if self.before_cursor(self.body.start).contains('"') => self.nothing(),
            None => {
                let mut names = self.names(self.body.clone());
                names.items.extend(self.values_for_a_word());
                names
            }
        }
    }

    fn nothing(&self) -> Completions {
        Completions {
            replace: self.cursor..self.cursor,
            items: Vec::new(),
        }
    }

    fn before_cursor(&self, start: usize) -> &str {
        self.text.get(start..self.cursor).unwrap_or_default()
    }

    fn names(&self, replace: Range<usize>) -> Completions {
        let prefix = self.before_cursor(self.body.start).to_ascii_lowercase();
        let begins = |name: &&str| name.starts_with(&prefix);
        let item = |qualifier: &Qualifier| {
            let name = qualifier.names().find(begins)?;
            Some(Completion {
                text: format!("{name}:"),
                detail: qualifier.description.to_owned(),
                is_finished: false,
            })
        };
        Completions {
            replace,
            items: QUALIFIERS.iter().filter_map(item).collect(),
        }
    }

    /// Terms with a value that begins as the word does.
    fn values_for_a_word(&self) -> Vec<Completion> {
        let prefix = self.before_cursor(self.body.start);
        if prefix.is_empty() {
            return Vec::new();
        }
        let keys = [
            QualifierKey::Kind,
            QualifierKey::Health,
            QualifierKey::Namespace,
            QualifierKey::Cluster,
            QualifierKey::Reason,
        ];
        let terms = |qualifier: &Qualifier| {
            let items = self.known(qualifier, prefix).into_iter();
            let name = qualifier.name;
            let whole = items.take(VALUES_FOR_A_WORD).map(|item| Completion {
                text: format!("{name}:{}", item.text),
                ..item
            });
            whole.collect::<Vec<_>>()
        };
        let offered = QUALIFIERS
            .iter()
            .filter(|qualifier| keys.contains(&qualifier.key));
        offered.flat_map(terms).collect()
    }

    fn values(&self, qualifier: &Qualifier, within: Range<usize>) -> Completions {
        let spans = scan::between_commas(self.text, within.clone());
        let touched = |span: &&Range<usize>| self.cursor <= span.end;
        let Some(value) = spans.iter().find(touched).cloned() else {
            return self.nothing();
        };
        let prefix = unquoted(self.before_cursor(value.start));
        let items = match qualifier.key {
            QualifierKey::Label => return self.label(&spans[0], value),
            QualifierKey::Uses => self.used_objects(&prefix),
            _ => self.known(qualifier, &prefix),
        };
        Completions {
            replace: value,
            items,
        }
    }

    /// The known values of a qualifier that begin with a prefix.
    fn known(&self, qualifier: &Qualifier, prefix: &str) -> Vec<Completion> {
        let begins = |word: &str| {
            let start = word.as_bytes().get(..prefix.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        let described = |words: &mut dyn Iterator<Item = (&str, &str)>| {
            words
                .filter(|(word, _)| begins(word))
                .map(|(word, detail)| finished(word, detail))
                .collect()
        };
        let (values, detail) = match qualifier.key {
            QualifierKey::Kind => (ValueSet::Kinds, "kind"),
            QualifierKey::Cluster => (ValueSet::Clusters, "cluster"),
            QualifierKey::Namespace => (ValueSet::Namespaces, "namespace"),
            QualifierKey::Reason => (ValueSet::Reasons, "reason"),
            QualifierKey::Image => (ValueSet::Images, "image"),
            QualifierKey::Health => {
                return described(
                    &mut HEALTH_WORDS
                        .iter()
                        .map(|known| (known.word, known.description)),
                );
            }
            QualifierKey::Age => return described(&mut AGES.into_iter()),
            QualifierKey::Name | QualifierKey::Label | QualifierKey::Uses => return Vec::new(),
        };
        let item = |value: String| finished(&value_text(&value), detail);
        self.values_of(values, prefix).map(item).collect()
    }

    /// The first values of the vocabulary that begin with a prefix.
    fn values_of(&self, of: ValueSet, prefix: &str) -> impl Iterator<Item = String> + use<> {
        let prefix = prefix.to_owned();
        let values = self.vocabulary.values(&WantedValues { of, prefix });
        values.into_iter().take(MAX_ITEMS)
    }

    /// Kinds, and then namespaces, each with the `/` that follows.
    fn used_objects(&self, prefix: &str) -> Vec<Completion> {
        let (before, names, detail) = match prefix.split_once('/') {
            None => ("", self.values_of(ValueSet::Kinds, prefix), "kind"),
            Some((kind, namespace)) if !namespace.contains('/') => (
                &prefix[..=kind.len()],
                self.values_of(ValueSet::Namespaces, namespace),
                "namespace",
            ),
            Some(_) => return Vec::new(),
        };
        let item = |name: String| Completion {
            text: format!("{before}{name}/"),
            detail: detail.to_owned(),
            is_finished: false,
        };
        names
            .map(item)
            .filter(|item| scan::is_bare_value(&item.text))
            .collect()
    }

    /// The key of a label, or one of its values. `first` has the key and the operator, `value` is
    /// at the cursor.
    fn label(&self, first: &Range<usize>, value: Range<usize>) -> Completions {
        let LabelHead { key, operator, .. } = LabelHead::of(&self.text[first.clone()]);
        let key_end = first.start + key.len();
        if self.cursor <= key_end {
            let is_absent = key.starts_with('!') && self.cursor > first.start;
            let start = first.start + usize::from(is_absent);
            let is_finished = is_absent || !operator.is_empty();
            return self.label_keys(start..key_end, is_finished);
        }
        let operator_end = key_end + operator.len();
        let takes_values = matches!(operator, "=" | "==" | "!=");
        if !takes_values || self.cursor < operator_end {
            return self.nothing();
        }
        let replace = value.start.max(operator_end)..value.end;
        let prefix = unquoted(self.before_cursor(replace.start));
        let values = self.values_of(ValueSet::LabelValues(key.to_owned()), &prefix);
        let item = |value: String| finished(&value_text(&value), key);
        Completions {
            replace,
            items: values.map(item).collect(),
        }
    }

    fn label_keys(&self, replace: Range<usize>, is_finished: bool) -> Completions {
        let keys = self.values_of(ValueSet::LabelKeys, self.before_cursor(replace.start));
        let operator = if is_finished { "" } else { "=" };
        let item = |key: String| Completion {
            text: format!("{key}{operator}"),
            detail: "label".to_owned(),
            is_finished,
        };
        let keys = keys.filter(|key| scan::is_bare_value(key));
        Completions {
            replace,
            items: keys.map(item).collect(),
        }
    }
}

fn finished(text: &str, detail: &str) -> Completion {
    Completion {
        text: text.to_owned(),
        detail: detail.to_owned(),
        is_finished: true,
    }
}

/// A value without the quotes that it has so far.
fn unquoted(value: &str) -> String {
    let Some(quoted) = value.strip_prefix('"') else {
        return value.to_owned();
    };
    let mut content = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => content.extend(letters.next()),
            plain => content.push(plain),
        }
    }
    content
}
