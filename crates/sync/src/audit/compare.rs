//! A list against what is stored, looked at twice: which documents are wrong and stay so.
//!
//! The first look reads the list, then what is stored. The second one, when everything has arrived that could explain a difference, reads
//! what is stored, then the list. An object that both lists show in one version was there all the time between them, and with it the
//! second look at what is stored: its document has to be there, whatever else happens meanwhile. A document that is not newer than the
//! first list and that this list does not show has to be gone by then, or replaced.
//!
//! A first look costs 32 bytes for each object until what is stored has been read. A sum over ids and versions on either side would not
//! need them, but it needs the same two complete readings, and says no more than that something has changed between them, as in a busy
//! cluster it always has.

use ahash::AHashMap;
use fleetdex_core::model::Version;
use fleetdex_telemetry::metrics::Drift;

use crate::id_hashes::IdHashes;

/// Ids that findings name.
const EXAMPLES: usize = 5;
/// Ids that are kept until it is certain which of them are wrong.
const CANDIDATES: usize = 1_000;

/// What an audit has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Objects that should be stored.
    pub listed: u64,
    /// Documents.
    pub stored: u64,
    /// Objects without a document.
    pub missing: u64,
    /// Documents of another version than the object.
    pub differing: u64,
    /// Documents of no object that should be stored.
    pub surplus: u64,
    /// Ids of some documents that are wrong.
    pub examples: Vec<String>,
}

impl Findings {
    /// How many documents are wrong, in whatever way.
    pub fn drift(&self) -> u64 {
        self.missing + self.differing + self.surplus
    }

    /// How many are wrong in one way.
    pub fn count(&self, drift: Drift) -> u64 {
        match drift {
            Drift::Missing => self.missing,
            Drift::Differing => self.differing,
            Drift::Surplus => self.surplus,
        }
    }
}

/// One document, as one look shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    listed: Option<Version>,
    stored: Option<Version>,
}

impl Seen {
    /// Whether a later look shows the same fault: the same document, or the same object without one.
    fn is_still_wrong(self, later: Self) -> bool {
        let is_same =
            self.stored == later.stored && (self.stored.is_some() || self.listed == later.listed);
        is_same && later.listed != later.stored
    }

    fn drift(self) -> Drift {
        match (self.listed, self.stored) {
            (_, None) => Drift::Missing,
            (Some(_), Some(_)) => Drift::Differing,
            (None, Some(_)) => Drift::Surplus,
        }
    }
}

/// The first look: a list, then what is stored.
#[derive(Debug, Default)]
pub struct FirstLook {
    ids: IdHashes,
    /// What has been listed and is not known to be stored.
    listed: AHashMap<u128, Version>,
    list_version: Option<Version>,
    /// What is wrong, unless it is late.
    suspects: AHashMap<u128, Seen>,
    /// Documents of a later version than the list.
    later: Vec<(u128, Seen)>,
    objects: u64,
    documents: u64,
}

impl FirstLook {
    /// The list shows an object that should be stored.
    pub fn listed(&mut self, id: &str, version: Version) {
        self.objects += 1;
        self.listed.insert(self.ids.of(id), version);
    }

    /// The list has been read to its end; it shows the collection at this version.
    pub fn list_ends(&mut self, version: Version) {
        self.list_version = Some(version);
    }

    /// A document is stored.
    pub fn stored(&mut self, id: &str, version: Version) {
        self.documents += 1;
        let key = self.ids.of(id);
        let seen = Seen {
            listed: self.listed.remove(&key),
            stored: Some(version),
        };
        if seen.listed == seen.stored {
            return;
        }
        if self.list_version.is_some_and(|list| version > list) {
            self.later.push((key, seen));
        } else {
            self.suspects.insert(key, seen);
        }
    }

    /// Whether there are documents of a later version than the list: mostly changes that came after it. Which of them cannot be, tells the
    /// version that the member is at when what is stored has been read.
    pub fn shows_later_documents(&self) -> bool {
        !self.later.is_empty()
    }

    /// What may be wrong. `current` is the member's version after everything that is stored was read, if that was asked for.
    pub fn finish(mut self, current: Option<Version>) -> Suspects {
        let missing = self.listed.into_iter().map(|(key, version)| {
            (
                key,
                Seen {
                    listed: Some(version),
                    stored: None,
                },
            )
        });
        self.suspects.extend(missing);
        let cannot_be = |seen: &Seen| current.is_some_and(|current| seen.stored > Some(current));
        self.suspects
            .extend(self.later.into_iter().filter(|(_, seen)| cannot_be(seen)));
        let suspects = self.suspects.into_iter().map(|(key, first)| {
            (
                key,
                Suspect {
                    first,
                    second: Seen::default(),
                },
            )
        });
        Suspects {
            by_id: suspects.collect(),
            ids: self.ids,
            objects: self.objects,
            documents: self.documents,
            candidates: Vec::new(),
        }
    }
}

#[derive(Debug)]
struct Suspect {
    first: Seen,
    second: Seen,
}

/// What may be wrong, and the second look at it: at what is stored, then at the list.
#[derive(Debug)]
pub struct Suspects {
    by_id: AHashMap<u128, Suspect>,
    ids: IdHashes,
    objects: u64,
    documents: u64,
    candidates: Vec<(u128, String)>,
}

impl Suspects {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether nothing can be wrong.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Up to where changes must have arrived before a second look proves anything: a listed object is as it is since its own version, but
    /// one that is not listed may have been deleted just before the list, whose version this is.
    pub fn conclusive_from(&self, list_version: Version) -> Version {
        let since = self
            .by_id
            .values()
            .map(|suspect| suspect.first.listed.unwrap_or(list_version));
        since.max().unwrap_or(list_version)
    }

    /// The second look begins.
    pub fn look_again(&mut self) {
        (self.objects, self.documents) = (0, 0);
    }

    /// A document is stored.
    pub fn stored(&mut self, id: &str, version: Version) {
        self.documents += 1;
        self.see(id, |seen| seen.stored = Some(version));
    }

    /// The list shows an object that should be stored.
    pub fn listed(&mut self, id: &str, version: Version) {
        self.objects += 1;
        self.see(id, |seen| seen.listed = Some(version));
    }

    fn see(&mut self, id: &str, note: impl FnOnce(&mut Seen)) {
        let key = self.ids.of(id);
        let Some(suspect) = self.by_id.get_mut(&key) else {
            return;
        };
        let is_new = suspect.second == Seen::default();
        note(&mut suspect.second);
        if is_new && self.candidates.len() < CANDIDATES {
            self.candidates.push((key, id.to_owned()));
        }
    }

    /// What is wrong in the way that it was wrong before.
    pub fn finish(mut self) -> Findings {
        self.by_id
            .retain(|_, suspect| suspect.first.is_still_wrong(suspect.second));
        let is_wrong = |(key, _): &(u128, String)| self.by_id.contains_key(key);
        let examples = self
            .candidates
            .into_iter()
            .filter(is_wrong)
            .map(|(_, id)| id)
            .take(EXAMPLES)
            .collect();
        let mut findings = Findings {
            listed: self.objects,
            stored: self.documents,
            examples,
            ..Findings::default()
        };
        for suspect in self.by_id.values() {
            match suspect.second.drift() {
                Drift::Missing => findings.missing += 1,
                Drift::Differing => findings.differing += 1,
                Drift::Surplus => findings.surplus += 1,
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn version(number: u64) -> Version {
        number.to_string().parse().unwrap()
    }

    /// Versions by id.
    type Shown = BTreeMap<String, u64>;

    fn first_look(list: &Shown, list_version: u64, stored: &Shown, current: u64) -> Suspects {
        let mut look = FirstLook::default();
        for (id, number) in list {
            look.listed(id, version(*number));
        }
        look.list_ends(version(list_version));
        for (id, number) in stored {
            look.stored(id, version(*number));
        }
        let current = look.shows_later_documents().then(|| version(current));
        look.finish(current)
    }

    fn second_look(mut suspects: Suspects, stored: &Shown, list: &Shown) -> Findings {
        suspects.look_again();
        for (id, number) in stored {
            suspects.stored(id, version(*number));
        }
        for (id, number) in list {
            suspects.listed(id, version(*number));
        }
        suspects.finish()
    }

    fn shown(entries: &[(&str, u64)]) -> Shown {
        entries
            .iter()
            .map(|(id, number)| ((*id).to_owned(), *number))
            .collect()
    }

    #[test]
    fn what_is_wrong_twice_is_told_by_its_sort_and_some_of_the_ids() {
        let list = shown(&[("old", 7), ("gone", 5), ("fine", 3), ("ahead", 4)]);
        let stored = shown(&[("old", 6), ("fine", 3), ("extra", 2), ("ahead", 99)]);
        let suspects = first_look(&list, 10, &stored, 12);
        assert_eq!(suspects.len(), 4);
        let findings = second_look(suspects, &stored, &list);
        assert_eq!(
            findings,
            Findings {
                listed: 4,
                stored: 4,
                missing: 1,
                differing: 2,
                surplus: 1,
                examples: ["ahead", "extra", "old", "gone"]
                    .map(str::to_owned)
                    .to_vec(),
            }
        );
        assert_eq!(findings.drift(), 4);
    }

    #[test]
    fn a_document_is_as_wrong_as_before_although_its_object_changes_all_the_time() {
        let stored = shown(&[("hot", 1_000)]);
        let suspects = first_look(&shown(&[("hot", 7)]), 10, &stored, 12);
        assert_eq!(
            second_look(suspects, &stored, &shown(&[("hot", 20)])).differing,
            1
        );
    }

    #[test]
    fn a_change_after_the_list_is_no_suspect() {
        let suspects = first_look(
            &shown(&[("a", 7)]),
            10,
            &shown(&[("a", 11), ("new", 12)]),
            12,
        );
        assert!(suspects.is_empty());
    }

    /// An object over time: from each of these revisions on it is as told, at that revision or gone.
    type History = Vec<(u64, bool)>;

    /// Few enough for everything to happen close together.
    const LAST: u64 = 16;

    fn history() -> impl Strategy<Value = History> {
        prop::collection::btree_map(1..=LAST, any::<bool>(), 0..6)
            .prop_map(|changes| changes.into_iter().collect())
    }

    fn at(history: &History, revision: u64) -> Option<u64> {
        let (number, exists) = history.iter().rfind(|(number, _)| *number <= revision)?;
        exists.then_some(*number)
    }

    /// How far each document follows its object at each look, and what somebody else has made of it.
    #[derive(Clone, Debug)]
    struct Fate {
        history: History,
        first: f64,
        second: f64,
        document: Document,
    }

    /// What becomes of a document.
    #[derive(Clone, Copy, Debug)]
    enum Document {
        /// It follows its object.
        Honest,
        /// Somebody has removed it, or written it in this version.
        Tampered(Option<u64>),
    }

    fn fate() -> impl Strategy<Value = Fate> {
        let tampered = prop::option::of(1..2 * LAST).prop_map(Document::Tampered);
        let document = prop_oneof![4 => Just(Document::Honest), 1 => tampered];
        let parts = (history(), 0.0..1.0, 0.0..1.0, document);
        parts.prop_map(|(history, first, second, document)| Fate {
            history,
            first,
            second,
            document,
        })
    }

    /// A revision between two others, both of them included.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small numbers"
    )]
    fn between(low: u64, high: u64, part: f64) -> u64 {
        low + ((high - low + 1) as f64 * part) as u64
    }

    /// The member at the first list, when what is stored is read, and at the second list.
    struct Times {
        list: u64,
        stored: u64,
        stored_again: u64,
        list_again: u64,
    }

    impl Times {
        fn of(mut marks: [u64; 4]) -> Self {
            marks.sort_unstable();
            let [list, stored, stored_again, list_again] = marks;
            Self {
                list,
                stored,
                stored_again,
                list_again,
            }
        }
    }

    fn listed(fates: &[Fate], revision: u64) -> Shown {
        let shown = fates
            .iter()
            .enumerate()
            .filter_map(|(name, fate)| Some((name.to_string(), at(&fate.history, revision)?)));
        shown.collect()
    }

    fn stored(fates: &[Fate], followed: impl Fn(&Fate) -> u64) -> Shown {
        let document = |fate: &Fate| match fate.document {
            Document::Honest => at(&fate.history, followed(fate)),
            Document::Tampered(document) => document,
        };
        fates
            .iter()
            .enumerate()
            .filter_map(|(name, fate)| Some((name.to_string(), document(fate)?)))
            .collect()
    }

    fn audit(fates: &[Fate], times: &Times) -> Findings {
        // At the first look, documents may be late by any time.
        let first = stored(fates, |fate| between(0, times.stored, fate.first));
        let suspects = first_look(&listed(fates, times.list), times.list, &first, times.stored);
        // At the second, everything that has to has arrived, and perhaps more.
        let arrived = suspects.conclusive_from(version(times.list)).get();
        let second = stored(fates, |fate| {
            between(arrived, times.stored_again, fate.second)
        });
        second_look(suspects, &second, &listed(fates, times.list_again))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn nothing_is_found_whatever_happens_meanwhile(
            fates in prop::collection::vec(fate(), 0..8),
            marks in prop::array::uniform4(1..=LAST),
        ) {
            let honest: Vec<Fate> = fates.into_iter().map(|fate| Fate { document: Document::Honest, ..fate }).collect();
            prop_assert_eq!(audit(&honest, &Times::of(marks)).drift(), 0);
        }

        #[test]
        fn everything_that_is_wrong_and_stays_so_is_found_and_nothing_else(
            fates in prop::collection::vec(fate(), 0..8),
            marks in prop::array::uniform4(1..=LAST),
        ) {
            let times = Times::of(marks);
            let findings = audit(&fates, &times);
            let mut wrong = Vec::new();
            for (name, fate) in fates.iter().enumerate() {
                let Document::Tampered(document) = fate.document else { continue };
                let (before, after) = (at(&fate.history, times.list), at(&fate.history, times.list_again));
                // A version between the list and the look at what is stored could be a change that came after the list.
                let looks_new = document.is_some_and(|number| number > times.list && number <= times.stored);
                let stays = document.is_some() || before == after;
                if document != before && document != after && stays && !looks_new {
                    wrong.push((name.to_string(), after, document));
                }
            }
            let count = |drift: Drift| {
                let is_such = |(_, listed, stored): &&(String, Option<u64>, Option<u64>)| {
                    Seen { listed: listed.map(version), stored: stored.map(version) }.drift() == drift
                };
                wrong.iter().filter(is_such).count() as u64
            };
            let expected = [Drift::Missing, Drift::Differing, Drift::Surplus].map(count);
            prop_assert_eq!([findings.missing, findings.differing, findings.surplus], expected);
            prop_assert!(findings.examples.iter().all(|id| wrong.iter().any(|(name, ..)| name == id)));
            prop_assert_eq!(findings.examples.len(), wrong.len().min(EXAMPLES));
        }
    }
}
