//! An apiserver: objects with a history of revisions, lists in pages, watches, and faults.
