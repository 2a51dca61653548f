//! Tables, golden errors and laws of the grammar.

mod completions;
mod errors;
mod grammar;
mod laws;
