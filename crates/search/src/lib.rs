//! The language of searches over all kinds, such as
//! `kind:Pod -health:Healthy label:app=web checkout`.
//!
//! ```text
//!  parse, complete ──> values ──> scan, qualifiers ──> search
//!  wanted_values ──> complete ──> vocabulary
//! ```
//!
//! Guarantees: [`parse`] and [`complete`] accept any text without a panic; every error has a
//! position and says what to write; for every search `x` that [`parse`] returns,
//! `parse(&x.to_string())` returns `x` again.
//!
//! # Grammar
//!
//! ```text
//! search     = [ term { white-space term } ]                   all terms must hold; none: every object
//! term       = [ "-" | "NOT" white-space ] ( word | qualifier )
//! word       = bare | quoted                                   bare: without white space and '"'
//! qualifier  = name ":" value { "," value }                    a name of QUALIFIERS, in any case; one of the values
//! value      = bare | quoted                                   bare: without white space, ',' and '"'
//! quoted     = '"' { any character | '\"' | '\\' } '"'
//! label      = "label:" ( key | "!" key | key ( "=" | "==" | "!=" ) value { "," value } | key ( "<" | ">" ) integer )
//! age        = "age:" ( "<" | "<=" | ">" | ">=" ) { number ( "s" | "m" | "h" | "d" | "w" ) }
//! uses       = "uses:" kind "/" [ namespace "/" ] name { "," … }
//! ```
//!
//! - `nginx:1.27` is a word, because `nginx` is no qualifier. A name that differs from a qualifier
//!   by a typing error is refused.
//! - `AND`, `OR` and `NOT` in capitals are no words unless quoted: all terms are combined by "and",
//!   and alternatives are values.
//! - A text has at most [`MAX_BYTES`] bytes, as written and as printed, [`MAX_TERMS`] terms,
//!   [`MAX_VALUES`] values for each term, and [`MAX_WORD_BYTES`] bytes in a word.

mod age;
mod complete;
mod error;
mod parse;
mod print;
mod qualifiers;
mod scan;
mod search;
#[cfg(test)]
mod tests;
mod values;
mod vocabulary;
mod wanted;

pub use complete::{Completion, Completions, MAX_ITEMS, complete, other_terms};
pub use error::SyntaxError;
pub use parse::{MAX_BYTES, MAX_TERMS, MAX_WORD_BYTES, parse};
pub use qualifiers::{HEALTH_WORDS, HealthWord, QUALIFIERS, Qualifier, QualifierKey};
pub use scan::MAX_VALUES;
pub use search::{AgeTest, Condition, Search, Term, UsedObject};
pub use vocabulary::{NoVocabulary, ValueSet, Vocabulary, WantedValues};
pub use wanted::wanted_values;
