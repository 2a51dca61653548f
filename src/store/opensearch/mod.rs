//! OpenSearch.
