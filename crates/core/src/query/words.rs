//! Free words: texts that are looked for in what people know of an object.
//!
//! A word is looked for in an object's [`WordText`]s, without regard to the case of ASCII letters.
//! An object matches better where the word is a whole text than where a text begins with it, and
//! better there than where a text contains it.

use std::borrow::Cow;

use crate::{
    fuel::{Fuel, OutOfFuel},
    model::{MAX_FIELD_VALUE_BYTES, index_fields},
};

/// Clauses that a word takes in a query of OpenSearch at most: one for each field of an exact
/// match, and two for each field of a prefix and of a part, which OpenSearch may look for in terms
/// and in doc values.
const CLAUSES: usize = 5 * (WORD_FIELDS.len() + 3);
/// Words of a query at most, so that there are clauses left for permissions and selectors.
pub(super) const MAX_WORDS: usize = 14;

/// The mapped fields of documents that hold texts for words. [`LABELS`](index_fields::LABELS) has
/// pairs, whose values are texts, too; the reasons of Events are among
/// [`FIELDS`](index_fields::FIELDS). Each costs OpenSearch an automaton for each kind of match and
/// each index.
pub const WORD_FIELDS: [&str; 9] = [
    index_fields::KIND,
    index_fields::CLUSTER,
    index_fields::NAMESPACE,
    index_fields::NAME,
    index_fields::LABELS,
    index_fields::ANNOTATION_KEYS,
    index_fields::OWNER_NAMES,
    index_fields::IMAGES,
    index_fields::HEALTH_REASON,
];

/// A selectable field whose values are texts for words: why an Event was sent.
pub const EVENT_REASON: &str = "reason";

/// A text of an object in which words are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordText<'t> {
    /// Kind, cluster, namespace, name, the key of an annotation, the name of an owner, an image in
    /// each of its spellings, or a reason.
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

    /// How well a text without alternatives matches. It takes as long as the text is, whatever the
    /// word.
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

    /// How well `key=value` matches a word that spans the sign; a key and a value alone are texts
    /// of their own.
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

    pub(super) fn bytes(&self) -> usize {
        self.words
            .iter()
            .map(|word| CLAUSES * word.text.len())
            .sum()
    }

    /// The clauses that the words take in a query of OpenSearch.
    pub fn clauses(&self) -> usize {
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
}
