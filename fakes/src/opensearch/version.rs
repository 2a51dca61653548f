//! Optimistic concurrency: which writes are accepted, by version or by sequence number.

/// The versioning of a write: its condition on the current document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versioning {
    /// No condition; the index counts versions.
    Internal,
    /// The document must not exist.
    Create,
    /// The document must have a lower version.
    External(u64),
    /// The document must have a lower or the same version.
    ExternalGte(u64),
    /// The document must have this sequence number and primary term.
    IfSequence { sequence: u64, term: u64 },
}

/// The current state of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Current {
    /// Version of the document, or of its tombstone.
    pub version: Option<u64>,
    /// Sequence number of the document.
    pub sequence: Option<u64>,
    /// Version of a lost or expired tombstone.
    pub forgotten: Option<u64>,
}

/// There is only one node, so the primary never changes.
const PRIMARY_TERM: u64 = 1;

impl Versioning {
    /// Returns the version of an accepted write, or the reason of the conflict.
    pub fn next(self, current: &Current) -> Result<u64, String> {
        let found = current.version;
        match (self, found) {
            (Self::Create, Some(version)) if current.sequence.is_some() => Err(format!(
                "document already exists (current version [{version}])"
            )),
            (Self::External(given), Some(version)) if version >= given => Err(format!(
                "current version [{version}] is higher or equal to the one provided [{given}]"
            )),
            (Self::ExternalGte(given), Some(version)) if version > given => Err(format!(
                "current version [{version}] is higher than the one provided [{given}]"
            )),
            (Self::IfSequence { sequence, term }, _)
                if (current.sequence, PRIMARY_TERM) != (Some(sequence), term) =>
            {
                let found = match current.sequence {
                    None => "but no document was found".to_owned(),
                    Some(found) => format!(
                        "current document has seqNo [{found}] and primary term [{PRIMARY_TERM}]"
                    ),
                };
                Err(format!(
                    "required seqNo [{sequence}], primary term [{term}]. {found}"
                ))
            }
            (Self::External(given) | Self::ExternalGte(given), _) => Ok(given),
            (Self::Internal | Self::Create | Self::IfSequence { .. }, found) => {
                Ok(found.unwrap_or(0) + 1)
            }
        }
    }

    /// Whether the index counts versions.
    pub fn is_internal(self) -> bool {
        !matches!(self, Self::External(_) | Self::ExternalGte(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_document_decides_whether_a_write_is_accepted() {
        let absent = Current::default();
        let deleted = Current {
            version: Some(5),
            ..absent
        };
        let live = Current {
            sequence: Some(3),
            ..deleted
        };
        let this = |sequence: u64| Versioning::IfSequence { sequence, term: 1 };
        for (versioning, current, expected) in [
            (Versioning::Internal, absent, Some(1)),
            (Versioning::Internal, deleted, Some(6)),
            (Versioning::Internal, live, Some(6)),
            (Versioning::Create, deleted, Some(6)),
            (Versioning::Create, live, None),
            (Versioning::External(5), live, None),
            (Versioning::External(6), live, Some(6)),
            (Versioning::External(0), absent, Some(0)),
            (Versioning::ExternalGte(4), live, None),
            (Versioning::ExternalGte(4), deleted, None),
            (Versioning::ExternalGte(5), live, Some(5)),
            (Versioning::ExternalGte(9), deleted, Some(9)),
            (this(3), live, Some(6)),
            (this(4), live, None),
            (this(3), deleted, None),
            (
                Versioning::IfSequence {
                    sequence: 3,
                    term: 2,
                },
                live,
                None,
            ),
        ] {
            assert_eq!(
                versioning.next(&current).ok(),
                expected,
                "{versioning:?} {current:?}"
            );
        }
    }
}
