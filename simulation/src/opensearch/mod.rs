//! An OpenSearch: indices, aliases, external versions, points in time, and faults.
