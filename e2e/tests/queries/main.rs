//! Query results equal those of API servers, with every store; and simulated servers respond like
//! real ones.

mod cli;
mod dashboards;
mod embedded;
mod every_path;
mod explain;
mod fakes_apiserver;
mod fakes_opensearch;
mod health_and_relations;
mod informers;
mod interpreters;
mod kinds;
mod local;
mod orders_and_counts;
#[path = "../../../tests/pure/query_reference.rs"]
mod query_reference;
mod reflectors;
mod scenarios;
mod selectors;
mod store;
mod tables;
mod watched_searches;
