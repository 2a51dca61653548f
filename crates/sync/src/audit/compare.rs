//! Compares a list with the stored versions in two passes: which documents are wrong and stay
//! wrong.
//!
//! The first pass reads the list, then the store. The second pass, after everything has arrived
//! that could explain a difference, reads the store, then the list. An object that both lists show
//! in one version existed all the time between them, and therefore while the second pass read the
//! store: its document has to be there. A document that is not newer than the first list, and that
//! this list does not show, has to be deleted or replaced by then.
//!
//! The first pass takes 24 bytes for each object until the store was read. Checksums over ids and
//! versions would not need them, but need the same two complete reads and show only that something
//! changed between them, which in a busy cluster is always so.

use ahash::AHashMap;
use fleetdex_core::model::{IdHash, Version};
use fleetdex_telemetry::metrics::Drift;

/// The most ids in findings.
const EXAMPLES: usize = 5;
/// The most ids that are retained until it is known which of them are wrong.
const CANDIDATES: usize = 1_000;

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Selected objects of the list.
    pub listed: u64,
    /// Stored documents.
    pub stored: u64,
    /// Objects without a document.
    pub missing: u64,
    /// Documents of another version than the object.
    pub differing: u64,
    /// Documents without a selected object.
    pub surplus: u64,
    /// Ids of some documents that are wrong.
    pub examples: Vec<String>,
}

impl Findings {
    /// The number of wrong documents.
    pub fn drift(&self) -> u64 {
        self.missing + self.differing + self.surplus
    }

    /// The number of documents with one kind of drift.
    pub fn count(&self, drift: Drift) -> u64 {
        match drift {
            Drift::Missing => self.missing,
            Drift::Differing => self.differing,
            Drift::Surplus => self.surplus,
        }
    }
}

/// The versions of one object and its document in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct VersionPair {
    listed: Option<Version>,
    stored: Option<Version>,
}

impl VersionPair {
    /// Whether a later pass shows the same fault: the same document, or the same object without
    /// one.
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

/// The first pass: the list, then the store.
#[derive(Debug, Default)]
pub struct FirstPass {
    /// Listed objects whose document was not read yet.
    listed: AHashMap<IdHash, Version>,
    list_version: Option<Version>,
    /// Differences, which may only be late writes.
    differences: AHashMap<IdHash, VersionPair>,
    /// Documents of a newer version than the list.
    newer: Vec<(IdHash, VersionPair)>,
    objects: u64,
    documents: u64,
}

impl FirstPass {
    /// Adds a selected object of the list.
    pub fn listed(&mut self, id: &str, version: Version) {
        self.objects += 1;
        self.listed.insert(IdHash::new(id), version);
    }

    /// Ends the list, which shows the objects at this version.
    pub fn list_ends(&mut self, version: Version) {
        self.list_version = Some(version);
    }

    /// Adds a stored document.
    pub fn stored(&mut self, id: &str, version: Version) {
        self.documents += 1;
        let key = IdHash::new(id);
        let pair = VersionPair {
            listed: self.listed.remove(&key),
            stored: Some(version),
        };
        if pair.listed == pair.stored {
            return;
        }
        if self.list_version.is_some_and(|list| version > list) {
            self.newer.push((key, pair));
        } else {
            self.differences.insert(key, pair);
        }
    }

    /// Whether there are documents of a newer version than the list. Most of them are changes after
    /// the list; those that are newer than the member after the store was read are wrong.
    pub fn has_newer_documents(&self) -> bool {
        !self.newer.is_empty()
    }

    /// The differences. `current`: the member's version after the store was read, if it was
    /// requested.
    pub fn finish(mut self, current: Option<Version>) -> Differences {
        let missing = self.listed.into_iter().map(|(key, version)| {
            (
                key,
                VersionPair {
                    listed: Some(version),
                    stored: None,
                },
            )
        });
        self.differences.extend(missing);
        let cannot_be =
            |pair: &VersionPair| current.is_some_and(|current| pair.stored > Some(current));
        self.differences
            .extend(self.newer.into_iter().filter(|(_, pair)| cannot_be(pair)));
        let differences = self.differences.into_iter().map(|(key, first)| {
            (
                key,
                Difference {
                    first,
                    second: VersionPair::default(),
                },
            )
        });
        Differences {
            by_id: differences.collect(),
            objects: self.objects,
            documents: self.documents,
            candidates: Vec::new(),
        }
    }
}

#[derive(Debug)]
struct Difference {
    first: VersionPair,
    second: VersionPair,
}

/// The differences of the first pass, and the second pass over them: the store, then the list.
#[derive(Debug)]
pub struct Differences {
    by_id: AHashMap<IdHash, Difference>,
    objects: u64,
    documents: u64,
    candidates: Vec<(IdHash, String)>,
}

impl Differences {
    /// The number of differences.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are no differences.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The version up to which changes must have arrived before the second pass is conclusive. A
    /// listed object is unchanged since its own version, but an unlisted object may have been
    /// deleted just before the list.
    pub fn conclusive_from(&self, list_version: Version) -> Version {
        let since = self
            .by_id
            .values()
            .map(|difference| difference.first.listed.unwrap_or(list_version));
        since.max().unwrap_or(list_version)
    }

    /// Begins the second pass.
    pub fn begin_second_pass(&mut self) {
        (self.objects, self.documents) = (0, 0);
    }

    /// Adds a stored document.
    pub fn stored(&mut self, id: &str, version: Version) {
        self.documents += 1;
        self.record(id, |pair| pair.stored = Some(version));
    }

    /// Adds a selected object of the list.
    pub fn listed(&mut self, id: &str, version: Version) {
        self.objects += 1;
        self.record(id, |pair| pair.listed = Some(version));
    }

    fn record(&mut self, id: &str, note: impl FnOnce(&mut VersionPair)) {
        let key = IdHash::new(id);
        let Some(difference) = self.by_id.get_mut(&key) else {
            return;
        };
        let is_new = difference.second == VersionPair::default();
        note(&mut difference.second);
        if is_new && self.candidates.len() < CANDIDATES {
            self.candidates.push((key, id.to_owned()));
        }
    }

    /// The differences that both passes show.
    pub fn finish(mut self) -> Findings {
        self.by_id
            .retain(|_, difference| difference.first.is_still_wrong(difference.second));
        let is_wrong = |(key, _): &(IdHash, String)| self.by_id.contains_key(key);
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
        for difference in self.by_id.values() {
            match difference.second.drift() {
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

    fn first_pass(list: &Shown, list_version: u64, stored: &Shown, current: u64) -> Differences {
        let mut pass = FirstPass::default();
        for (id, number) in list {
            pass.listed(id, version(*number));
        }
        pass.list_ends(version(list_version));
        for (id, number) in stored {
            pass.stored(id, version(*number));
        }
        let current = pass.has_newer_documents().then(|| version(current));
        pass.finish(current)
    }

    fn second_pass(mut differences: Differences, stored: &Shown, list: &Shown) -> Findings {
        differences.begin_second_pass();
        for (id, number) in stored {
            differences.stored(id, version(*number));
        }
        for (id, number) in list {
            differences.listed(id, version(*number));
        }
        differences.finish()
    }

    fn shown(entries: &[(&str, u64)]) -> Shown {
        entries
            .iter()
            .map(|(id, number)| ((*id).to_owned(), *number))
            .collect()
    }

    #[test]
    fn drift_is_counted_by_kind_with_some_ids() {
        let list = shown(&[("old", 7), ("gone", 5), ("fine", 3), ("ahead", 4)]);
        let stored = shown(&[("old", 6), ("fine", 3), ("extra", 2), ("ahead", 99)]);
        let differences = first_pass(&list, 10, &stored, 12);
        assert_eq!(differences.len(), 4);
        let findings = second_pass(differences, &stored, &list);
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
    fn a_wrong_document_is_drift_although_its_object_keeps_changing() {
        let stored = shown(&[("hot", 1_000)]);
        let differences = first_pass(&shown(&[("hot", 7)]), 10, &stored, 12);
        assert_eq!(
            second_pass(differences, &stored, &shown(&[("hot", 20)])).differing,
            1
        );
    }

    #[test]
    fn a_change_after_the_list_is_no_difference() {
        let differences = first_pass(
            &shown(&[("a", 7)]),
            10,
            &shown(&[("a", 11), ("new", 12)]),
            12,
        );
        assert!(differences.is_empty());
    }

    /// An object over time: at each revision, whether it exists from then on.
    type History = Vec<(u64, bool)>;

    /// Few enough revisions for everything to happen close together.
    const LAST: u64 = 16;

    fn history() -> impl Strategy<Value = History> {
        prop::collection::btree_map(1..=LAST, any::<bool>(), 0..6)
            .prop_map(|changes| changes.into_iter().collect())
    }

    fn at(history: &History, revision: u64) -> Option<u64> {
        let (number, exists) = history.iter().rfind(|(number, _)| *number <= revision)?;
        exists.then_some(*number)
    }

    /// How far each document follows its object in each pass, and whether someone tampered with it.
    #[derive(Clone, Debug)]
    struct ObjectFate {
        history: History,
        first: f64,
        second: f64,
        document: DocumentState,
    }

    /// What happens to a document.
    #[derive(Clone, Copy, Debug)]
    enum DocumentState {
        /// It follows its object.
        Honest,
        /// Someone deleted it, or wrote it in this version.
        Tampered(Option<u64>),
    }

    fn fate() -> impl Strategy<Value = ObjectFate> {
        let tampered = prop::option::of(1..2 * LAST).prop_map(DocumentState::Tampered);
        let document = prop_oneof![4 => Just(DocumentState::Honest), 1 => tampered];
        let parts = (history(), 0.0..1.0, 0.0..1.0, document);
        parts.prop_map(|(history, first, second, document)| ObjectFate {
            history,
            first,
            second,
            document,
        })
    }

    /// A revision between two others, inclusive.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small numbers"
    )]
    fn between(low: u64, high: u64, part: f64) -> u64 {
        low + ((high - low + 1) as f64 * part) as u64
    }

    /// The member's revision at the first list, at both reads of the store, and at the second list.
    struct AuditTimes {
        list: u64,
        stored: u64,
        stored_again: u64,
        list_again: u64,
    }

    impl AuditTimes {
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

    fn listed(fates: &[ObjectFate], revision: u64) -> Shown {
        let shown = fates
            .iter()
            .enumerate()
            .filter_map(|(name, fate)| Some((name.to_string(), at(&fate.history, revision)?)));
        shown.collect()
    }

    fn stored(fates: &[ObjectFate], followed: impl Fn(&ObjectFate) -> u64) -> Shown {
        let document = |fate: &ObjectFate| match fate.document {
            DocumentState::Honest => at(&fate.history, followed(fate)),
            DocumentState::Tampered(document) => document,
        };
        fates
            .iter()
            .enumerate()
            .filter_map(|(name, fate)| Some((name.to_string(), document(fate)?)))
            .collect()
    }

    fn audit(fates: &[ObjectFate], times: &AuditTimes) -> Findings {
        // In the first pass, documents may be late by any time.
        let first = stored(fates, |fate| between(0, times.stored, fate.first));
        let differences = first_pass(&listed(fates, times.list), times.list, &first, times.stored);
        // In the second pass, everything up to the conclusive version has arrived, and perhaps
        // more.
        let arrived = differences.conclusive_from(version(times.list)).get();
        let second = stored(fates, |fate| {
            between(arrived, times.stored_again, fate.second)
        });
        second_pass(differences, &second, &listed(fates, times.list_again))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn concurrent_changes_are_no_drift(
            fates in prop::collection::vec(fate(), 0..8),
            marks in prop::array::uniform4(1..=LAST),
        ) {
            let honest: Vec<ObjectFate> = fates.into_iter().map(|fate| ObjectFate { document: DocumentState::Honest, ..fate }).collect();
            prop_assert_eq!(audit(&honest, &AuditTimes::of(marks)).drift(), 0);
        }

        #[test]
        fn exactly_the_documents_that_stay_wrong_are_found(
            fates in prop::collection::vec(fate(), 0..8),
            marks in prop::array::uniform4(1..=LAST),
        ) {
            let times = AuditTimes::of(marks);
            let findings = audit(&fates, &times);
            let mut wrong = Vec::new();
            for (name, fate) in fates.iter().enumerate() {
                let DocumentState::Tampered(document) = fate.document else { continue };
                let (before, after) = (at(&fate.history, times.list), at(&fate.history, times.list_again));
                // A version between the list and the first read of the store could be a change
                // after the list.
                let looks_new = document.is_some_and(|number| number > times.list && number <= times.stored);
                let stays = document.is_some() || before == after;
                if document != before && document != after && stays && !looks_new {
                    wrong.push((name.to_string(), after, document));
                }
            }
            let count = |drift: Drift| {
                let is_such = |(_, listed, stored): &&(String, Option<u64>, Option<u64>)| {
                    VersionPair { listed: listed.map(version), stored: stored.map(version) }.drift() == drift
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
