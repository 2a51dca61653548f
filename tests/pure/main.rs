//! Tests without servers: property tests, tables, and consistency of the repository and its
//! documentation.

mod architecture;
mod book;
mod boundaries;
mod built_in_rules;
mod chart;
mod circles;
mod crds;
mod dashboards;
mod fuzz_corpus;
mod line_width;
mod manifests;
mod memory_laws;
mod memory_table;
mod metrics;
mod monitoring;
mod parsed_values;
mod query_laws;
mod query_reference;
mod readme;
mod reference_crds;
mod selector_laws;
mod type_names;
