//! Writes documents and checkpoints.

mod checkpoints;
mod writer;
