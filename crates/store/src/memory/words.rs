//! Words in the embedded store: the documents of a table that match a word, by how well.

use fleetdex_core::query::{Word, WordMatch};
use roaring::RoaringBitmap;

use super::table::Table;
use crate::{
    postings::PositionSet,
    query_filter::{Filter, WORD_KEYS},
    terms::label_of,
};

/// The positions of the documents that match a word. Each set contains those of a better match.
#[derive(Default)]
pub(super) struct WordPositions {
    pub(super) part: RoaringBitmap,
    pub(super) prefix: RoaringBitmap,
    pub(super) exact: RoaringBitmap,
}

impl WordPositions {
    /// Adds documents that match this well.
    fn add(&mut self, found: Option<WordMatch>, add_to: impl Fn(&mut RoaringBitmap)) {
        let Some(found) = found else { return };
        add_to(&mut self.part);
        if found >= WordMatch::Prefix {
            add_to(&mut self.prefix);
        }
        if found == WordMatch::Exact {
            add_to(&mut self.exact);
        }
    }

    fn add_set(&mut self, found: Option<WordMatch>, positions: &PositionSet<'_>) {
        self.add(found, |all| positions.add_to(all));
    }
}

impl Table {
    /// The documents that match a word.
    pub(super) fn with_word(&self, word: &Word) -> WordPositions {
        let mut found = WordPositions::default();
        if let Some(document) = self.used.min().and_then(|position| self.get(position)) {
            let origin = &document.origin;
            for of_all in [&*origin.kind, origin.cluster.as_str()] {
                found.add(word.match_in(of_all), |all| *all |= &self.used);
            }
        }
        self.name_index
            .for_each_with(word.text(), |position, name| {
                found.add(word.match_in(name), |all| {
                    all.insert(position);
                });
            });
        let vocabulary = self.vocabulary.read();
        for key in WORD_KEYS {
            self.postings
                .for_each_value(&vocabulary, key, |value, positions| {
                    found.add_set(word.match_in(value), positions);
                });
        }
        for key in self.postings.keys() {
            let Some(label) = label_of(key) else { continue };
            let of_key = word.match_in(label);
            self.postings
                .for_each_value(&vocabulary, key, |value, positions| {
                    let of_value = word.match_in(value).max(word.match_of_pair(label, value));
                    found.add_set(of_key.max(of_value), positions);
                });
        }
        found
    }

    /// The documents that match a filter, by their scores, the greatest first.
    pub(super) fn by_score(&self, filter: &Filter) -> Vec<(u32, RoaringBitmap)> {
        let mut levels = vec![(0, self.with_conditions(filter))];
        for word in filter.words() {
            let with = self.with_word(word);
            if word.is_negated {
                for (_, found) in &mut levels {
                    *found -= &with.part;
                }
            } else {
                levels = raised(levels, &with);
            }
        }
        levels.retain(|(_, found)| !found.is_empty());
        levels.reverse();
        levels
    }
}

/// The documents that match one more word, by their scores, the smallest first.
fn raised(levels: Vec<(u32, RoaringBitmap)>, with: &WordPositions) -> Vec<(u32, RoaringBitmap)> {
    let part = &with.part - &with.prefix;
    let prefix = &with.prefix - &with.exact;
    let mut raised: Vec<(u32, RoaringBitmap)> = Vec::with_capacity(levels.len() + 2);
    for (score, found) in levels {
        for (matched, of_match) in [
            (WordMatch::Part, &part),
            (WordMatch::Prefix, &prefix),
            (WordMatch::Exact, &with.exact),
        ] {
            let (score, found) = (score + matched as u32, &found & of_match);
            match raised.iter_mut().find(|(known, _)| *known == score) {
                Some((_, known)) => *known |= found,
                None => raised.push((score, found)),
            }
        }
    }
    raised.sort_by_key(|(score, _)| *score);
    raised
}
