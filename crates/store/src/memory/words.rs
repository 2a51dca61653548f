//! Words in the embedded store: the documents of a table that match a word, by how well.

use std::sync::Arc;

use fleetdex_core::query::{Word, WordMatch};
use roaring::RoaringBitmap;

use super::{table::DocumentTable, table_selection::TableSelection};
use crate::terms::MatchingTerms;

/// The positions of the documents that match a word. Each set contains those of a better match.
#[derive(Default)]
pub(super) struct WordPositions {
    pub(super) part: RoaringBitmap,
    pub(super) prefix: RoaringBitmap,
    pub(super) exact: RoaringBitmap,
}

impl WordPositions {
    fn all_exact(all: &RoaringBitmap) -> Self {
        let [part, prefix, exact] = [all, all, all].map(Clone::clone);
        Self {
            part,
            prefix,
            exact,
        }
    }

    /// The set of those that match this well; [`Self::nested`] adds them to the others.
    fn of(&mut self, found: WordMatch) -> &mut RoaringBitmap {
        match found {
            WordMatch::Part => &mut self.part,
            WordMatch::Prefix => &mut self.prefix,
            WordMatch::Exact => &mut self.exact,
        }
    }

    fn nested(mut self) -> Self {
        self.prefix |= &self.exact;
        self.part |= &self.prefix;
        self
    }
}

impl DocumentTable {
    /// The documents that match the conditions and the words.
    pub(super) fn find(&self, selection: &TableSelection<'_>) -> RoaringBitmap {
        let mut found = self.with_conditions(selection.filter);
        for (word, terms) in selection.words() {
            let with = self.with_word(word, terms).part;
            if word.is_negated {
                found -= with;
            } else {
                found &= with;
            }
        }
        found
    }

    /// The documents that match a word.
    fn with_word(&self, word: &Word, terms: &MatchingTerms) -> WordPositions {
        let mut found = WordPositions::default();
        let Some(document) = self.used.min().and_then(|position| self.get(position)) else {
            return found;
        };
        let origin = &document.origin;
        let of_all = word.match_in(&origin.kind);
        match of_all.max(word.match_in(origin.cluster.as_str())) {
            Some(WordMatch::Exact) => return WordPositions::all_exact(&self.used),
            Some(of_all) => *found.of(of_all) |= &self.used,
            None => {}
        }
        self.add_names(word, &mut found);
        for (key, numbers) in &terms.by_key {
            self.postings
                .for_each_of(key, numbers, |of_term, positions| {
                    positions.add_to(found.of(*of_term));
                });
        }
        found.nested()
    }

    /// The terms of the vocabulary that match each word.
    pub(super) fn terms_of(&self, words: &[Word]) -> Vec<Arc<MatchingTerms>> {
        words
            .iter()
            .map(|word| self.vocabulary.matching(word))
            .collect()
    }

    fn add_names(&self, word: &Word, found: &mut WordPositions) {
        // Sets are filled faster in order and at once.
        let mut positions: [Vec<u32>; 3] = Default::default();
        self.names_text
            .for_each_with(word.text(), |position, of_name| {
                positions[of_name as usize - 1].push(position);
            });
        let matches = [WordMatch::Part, WordMatch::Prefix, WordMatch::Exact];
        for (of_names, mut positions) in matches.into_iter().zip(positions) {
            positions.sort_unstable();
            found.of(of_names).extend(positions);
        }
    }

    /// The same, by their scores, the greatest first.
    pub(super) fn by_score(&self, selection: &TableSelection<'_>) -> Vec<(u32, RoaringBitmap)> {
        let mut levels = vec![(0, self.with_conditions(selection.filter))];
        for (word, terms) in selection.words() {
            let with = self.with_word(word, terms);
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
