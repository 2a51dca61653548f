//! Which part of the fleet a completion asks for.

use std::cell::RefCell;

use super::{
    complete::complete,
    vocabulary::{Vocabulary, WantedValues},
};

/// What [`complete`] asks a vocabulary for at `cursor`, a position in bytes.
///
/// For a vocabulary that has to be read from elsewhere: read these values, and complete with the
/// map of them.
pub fn wanted_values(text: &str, cursor: usize) -> Vec<WantedValues> {
    let recorder = Recorder::default();
    complete(text, cursor, &recorder);
    recorder.0.into_inner()
}

/// Records what it is asked for.
#[derive(Default)]
struct Recorder(RefCell<Vec<WantedValues>>);

impl Vocabulary for Recorder {
    fn values(&self, wanted: &WantedValues) -> Vec<String> {
        let mut all = self.0.borrow_mut();
        if !all.contains(wanted) {
            all.push(wanted.clone());
        }
        Vec::new()
    }
}
