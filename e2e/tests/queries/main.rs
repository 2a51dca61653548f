//! Questions have the answers that API servers give, whichever store is asked; and simulated servers answer as real ones do.

mod cli;
mod embedded;
mod every_path;
mod explain;
mod fakes_apiserver;
mod fakes_opensearch;
mod informers;
mod kinds;
mod local;
mod orders_and_counts;
mod reflectors;
mod scenarios;
mod selectors;
mod store;
mod tables;
