//! Free words: texts that are looked for in what people know of an object.
//!
//! A word is looked for in an object's [`WordText`]s, without regard to the case of ASCII letters. An object matches better where the word is a whole text
//! than where a text begins with it, and better there than where a text contains it.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::{
    fuel::{Fuel, OutOfFuel},
    model::MAX_FIELD_VALUE_BYTES,
};

/// Clauses that a word takes in a query of OpenSearch at most: one for each field of an exact match, and two for each field of a prefix and of a part,
/// which OpenSearch may look for in terms and in doc values.
const CLAUSES: usize = 5 * (FIELDS.len() + 3);
/// Words of a query at most, so that there are clauses left for permissions and selectors.
pub(super) const MAX_WORDS: usize = 14;

/// The keys of labels. Pairs begin with them and contain them, so that only an exact match needs this field.
const LABEL_KEYS: &str = "search.labelKeys";
/// The mapped fields of documents that hold texts for words. `search.labels` has pairs, whose values are texts, too; the reasons of Events are among
/// `search.fields`. Each costs OpenSearch an automaton for each kind of match and each index.
const FIELDS: [&str; 9] = [
    "kind",
    "cluster",
    "metadata.namespace",
    "metadata.name",
    "search.labels",
    "search.annotationKeys",
    "search.ownerNames",
    "search.images",
    "search.healthReason",
];

/// A selectable field whose values are texts for words: why an Event was sent.
pub const EVENT_REASON: &str = "reason";

/// A text of an object in which words are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordText<'t> {
    /// Kind, cluster, namespace, name, the key of an annotation, the name of an owner, an image in each of its spellings, or a reason.
    Whole(&'t str),
    /// A label: its key, its value, and `key=value`.
    Label(&'t str, &'t str),
}

impl WordText<'_> {
    fn bytes(self) -> usize {
        match self {
            Self::Whole(text) => text.len(),
            Self::Label(key, value) => key.len() + value.len(),
        }
    }
}

/// How well a text matches a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WordMatch {
    /// The text contains the word.
    Part = 1,
    /// The text begins with the word.
    Prefix = 2,
    /// The text is the word.
    Exact = 3,
}

/// A free word, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    text: Box<str>,
    /// Whether objects must not match it.
    pub is_negated: bool,
}

impl Word {
    /// A word. It is not empty.
    pub fn new(text: &str, is_negated: bool) -> Self {
        Self {
            text: text.to_ascii_lowercase().into(),
            is_negated,
        }
    }

    /// The word in lower case.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How well a text matches, at best.
    pub fn match_of(&self, text: WordText<'_>) -> Option<WordMatch> {
        match text {
            WordText::Whole(text) => self.match_in(text),
            WordText::Label(key, value) => {
                let of_pair = self.match_of_pair(key, value);
                self.match_in(key).max(self.match_in(value)).max(of_pair)
            }
        }
    }

    /// How well a text without alternatives matches. It takes as long as the text is, whatever the word.
    pub fn match_in(&self, text: &str) -> Option<WordMatch> {
        // Documents do not index longer texts.
        if text.len() > MAX_FIELD_VALUE_BYTES {
            return None;
        }
        let text = if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        };
        match text.find(&*self.text)? {
            0 if text.len() == self.text.len() => Some(WordMatch::Exact),
            0 => Some(WordMatch::Prefix),
            _ => Some(WordMatch::Part),
        }
    }

    /// How well `key=value` matches a word that spans the sign; a key and a value alone are texts of their own.
    pub fn match_of_pair(&self, key: &str, value: &str) -> Option<WordMatch> {
        let (of_key, of_value) = self.text.split_once('=')?;
        let begins = |text: &str, with: &str| {
            let start = text.as_bytes().get(..with.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
        };
        let ends = |text: &str, with: &str| {
            let start = text.len().checked_sub(with.len());
            let end = start.and_then(|start| text.as_bytes().get(start..));
            end.is_some_and(|end| end.eq_ignore_ascii_case(with.as_bytes()))
        };
        if !begins(value, of_value) || !ends(key, of_key) {
            return None;
        }
        Some(
            match (key.len() == of_key.len(), value.len() == of_value.len()) {
                (true, true) => WordMatch::Exact,
                (true, false) => WordMatch::Prefix,
                (false, _) => WordMatch::Part,
            },
        )
    }

    /// The clause of the documents that contain it.
    pub(super) fn clause(&self) -> Value {
        any(&self.part())
    }

    /// The clause that scores the documents that contain it: 3 for an exact match, 2 for a prefix and 1 for a part.
    pub(super) fn scored_clause(&self) -> Value {
        let scored = |filter: &[Value], best: WordMatch| json!({ "constant_score": { "filter": any(filter), "boost": best as u8 } });
        json!({ "dis_max": { "queries": [
            scored(&self.exact(), WordMatch::Exact),
            scored(&self.prefix(), WordMatch::Prefix),
            scored(&self.part(), WordMatch::Part),
        ] } })
    }

    fn exact(&self) -> Vec<Value> {
        let term = |field: &str| json!({ "term": { field: { "value": self.text, "case_insensitive": true } } });
        let fields = FIELDS.into_iter().chain([LABEL_KEYS]);
        let mut clauses: Vec<Value> = fields.map(term).collect();
        clauses.push(wildcard("search.labels", &["*=", &self.escaped()]));
        clauses.push(json!({ "term": { "search.fields": { "value": format!("{EVENT_REASON}={}", self.text), "case_insensitive": true } } }));
        clauses
    }

    fn prefix(&self) -> Vec<Value> {
        let prefix = |field: &str, text: &str| json!({ "prefix": { field: { "value": text, "case_insensitive": true } } });
        let mut clauses: Vec<Value> = FIELDS
            .into_iter()
            .map(|field| prefix(field, &self.text))
            .collect();
        clauses.push(wildcard("search.labels", &["*=", &self.escaped(), "*"]));
        clauses.push(prefix(
            "search.fields",
            &format!("{EVENT_REASON}={}", self.text),
        ));
        clauses
    }

    fn part(&self) -> Vec<Value> {
        let escaped = self.escaped();
        let mut clauses: Vec<Value> = FIELDS
            .into_iter()
            .map(|field| wildcard(field, &["*", &escaped, "*"]))
            .collect();
        let of_event = [EVENT_REASON, "=*", &escaped, "*"];
        clauses.push(wildcard("search.fields", &of_event));
        clauses
    }

    /// The word without the special characters of wildcard queries.
    fn escaped(&self) -> String {
        let mut escaped = String::with_capacity(self.text.len());
        for character in self.text.chars() {
            if matches!(character, '*' | '?' | '\\') {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        escaped
    }
}

fn wildcard(field: &str, pattern: &[&str]) -> Value {
    json!({ "wildcard": { field: { "value": pattern.concat(), "case_insensitive": true } } })
}

fn any(clauses: &[Value]) -> Value {
    json!({ "bool": { "should": clauses, "minimum_should_match": 1 } })
}

/// Words that all have to match, or must not if they are negated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordSelector {
    words: Vec<Word>,
}

impl WordSelector {
    /// The words.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// Whether there are none, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The score of an object by its texts: the sum of how well each word matches. `None` if it
    /// does not match. Takes the steps of all texts for each word.
    pub fn score(&self, texts: &[WordText<'_>], fuel: &Fuel) -> Result<Option<u32>, OutOfFuel> {
        let mut score = 0;
        for word in &self.words {
            for text in texts {
                fuel.take_text(text.bytes())?;
            }
            let found = texts.iter().filter_map(|text| word.match_of(*text)).max();
            match (found, word.is_negated) {
                (None, true) => {}
                (Some(found), false) => score += found as u32,
                (Some(_), true) | (None, false) => return Ok(None),
            }
        }
        Ok(Some(score))
    }

    /// Bytes of the words.
    pub(super) fn bytes(&self) -> usize {
        self.words
            .iter()
            .map(|word| CLAUSES * word.text.len())
            .sum()
    }

    /// The clauses that the words take in a query of OpenSearch.
    pub(super) fn clauses(&self) -> usize {
        self.words.len() * CLAUSES
    }

    /// The length of a word that no text of a document can contain.
    pub(super) fn invalid_length(&self) -> Option<usize> {
        let mut lengths = self.words.iter().map(|word| word.text.len());
        lengths.find(|bytes| !(1..=MAX_FIELD_VALUE_BYTES).contains(bytes))
    }
}

impl FromIterator<Word> for WordSelector {
    fn from_iter<I: IntoIterator<Item = Word>>(words: I) -> Self {
        Self {
            words: words.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str, text: WordText<'_>) -> Option<WordMatch> {
        Word::new(word, false).match_of(text)
    }

    #[test]
    fn a_text_is_matched_exactly_at_its_start_or_anywhere() {
        use WordMatch::{Exact, Part, Prefix};
        for (word, text, expected) in [
            ("web", "web", Some(Exact)),
            ("WEB", "Web", Some(Exact)),
            ("web", "web-0", Some(Prefix)),
            ("db", "payments-db", Some(Part)),
            ("db", "d", None),
            ("db", "", None),
            ("ab", "aab", Some(Part)),
            ("é", "café", Some(Part)),
            ("É", "café", None),
        ] {
            assert_eq!(
                of(word, WordText::Whole(text)),
                expected,
                "{word} in {text}"
            );
        }
    }

    #[test]
    fn a_label_is_matched_by_key_value_and_pair() {
        use WordMatch::{Exact, Part, Prefix};
        let label = WordText::Label("app.kubernetes.io/name", "web");
        for (word, expected) in [
            ("web", Some(Exact)),
            ("we", Some(Prefix)),
            ("app.kubernetes.io/name", Some(Exact)),
            ("app", Some(Prefix)),
            ("kubernetes", Some(Part)),
            ("app.kubernetes.io/name=web", Some(Exact)),
            ("app.kubernetes.io/name=w", Some(Prefix)),
            ("app.kubernetes.io/name=", Some(Prefix)),
            ("name=web", Some(Part)),
            ("=web", Some(Part)),
            ("=eb", None),
            ("name=web2", None),
            ("name=web=", None),
        ] {
            assert_eq!(of(word, label), expected, "{word}");
        }
        assert_eq!(of("a=", WordText::Label("a", "")), Some(Exact));
    }

    #[test]
    fn an_object_has_the_sum_of_its_best_matches() {
        let texts = [
            WordText::Whole("web-0"),
            WordText::Label("app", "web"),
            WordText::Whole("shop"),
        ];
        let score = |words: &[(&str, bool)]| {
            let words = words
                .iter()
                .map(|(text, negated)| Word::new(text, *negated));
            let words = words.collect::<WordSelector>();
            words.score(&texts, &Fuel::unbounded()).unwrap()
        };
        assert_eq!(score(&[]), Some(0));
        assert_eq!(score(&[("web", false)]), Some(3));
        assert_eq!(score(&[("web-", false), ("hop", false)]), Some(3));
        assert_eq!(score(&[("web", false), ("db", false)]), None);
        assert_eq!(score(&[("web", false), ("db", true)]), Some(3));
        assert_eq!(score(&[("shop", true)]), None);
    }

    #[test]
    fn words_take_the_steps_of_the_texts_whatever_they_have_in_common() {
        let word = |last: char| Word::new(&format!("{}{last}", "a".repeat(249)), true);
        let words: WordSelector = ['b', 'c', 'd'].map(word).into_iter().collect();
        let long = "a".repeat(16_000);
        let fuel = Fuel::new(3 * 1_001 + 1);
        let texts = [WordText::Whole(&long)];
        assert_eq!(words.score(&texts, &fuel), Ok(Some(0)));
        assert_eq!(fuel.used(), 3 * 1_001);
        assert_eq!(words.score(&texts, &fuel), Err(OutOfFuel));
    }

    #[test]
    fn wildcards_in_words_are_texts() {
        let clause = Word::new(r"a*b?c\d", true).clause();
        let pattern = &clause["bool"]["should"][0]["wildcard"]["kind"]["value"];
        assert_eq!(pattern, r"*a\*b\?c\\d*");
    }
}
