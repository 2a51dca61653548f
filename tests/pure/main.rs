//! Tests of the library that need no server: laws, tables, and what the repository says of itself.

mod boundaries;
mod circles;
mod crds;
mod fuzz_corpus;
mod manifests;
mod memory_laws;
mod query_laws;
mod readme;
mod selector_laws;
mod type_names;
