//! Churn: which write an object gets next, and how many writes there were. The simulated API server
//! churns its pods ([`crate::apiserver::Churn`]), the end-to-end tests churn objects of real
//! servers.

use serde::Serialize;

/// A write of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The object does not exist.
    Create,
    /// The object exists and changes.
    Update,
    /// The object exists and is deleted.
    Delete,
}

/// Writes that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Writes {
    /// Objects created.
    pub created: u64,
    /// Objects changed.
    pub updated: u64,
    /// Objects deleted.
    pub deleted: u64,
}

impl Action {
    /// Creates an object that does not exist, and deletes or changes one that does; `is_deletion`
    /// is called for the latter.
    pub fn next(exists: bool, is_deletion: impl FnOnce() -> bool) -> Self {
        match exists {
            false => Self::Create,
            true if is_deletion() => Self::Delete,
            true => Self::Update,
        }
    }
}

impl Writes {
    /// Counts a write.
    pub fn count(&mut self, action: Action) {
        match action {
            Action::Create => self.created += 1,
            Action::Update => self.updated += 1,
            Action::Delete => self.deleted += 1,
        }
    }

    /// All writes.
    pub fn total(self) -> u64 {
        self.created + self.updated + self.deleted
    }
}

impl std::ops::Add for Writes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            created: self.created + other.created,
            updated: self.updated + other.updated,
            deleted: self.deleted + other.deleted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_exist_are_changed_or_deleted_and_others_created() {
        let mut writes = Writes::default();
        for (exists, is_deletion) in [(false, true), (true, false), (true, true), (true, true)] {
            writes.count(Action::next(exists, || is_deletion));
        }
        let expected = Writes {
            created: 1,
            updated: 1,
            deleted: 2,
        };
        assert_eq!((writes, writes.total()), (expected, 4));
    }
}
