//! Pages in a real browser.

mod harness;
