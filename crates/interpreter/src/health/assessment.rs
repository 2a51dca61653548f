//! The words for health, and what an assessment says.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest reason, in bytes.
pub const MAX_REASON_BYTES: usize = 128;
/// The longest message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// How an object is, from best to worst. Source: Argo CD, `gitops-engine/pkg/health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Health {
    /// It works as declared.
    Healthy,
    /// It is paused on purpose.
    Suspended,
    /// It is on its way to being healthy.
    Progressing,
    /// It is declared and does not exist. Only scripts, and applications of Argo CD, say so.
    Missing,
    /// It has failed, or does not get on.
    Degraded,
    /// It cannot be said.
    Unknown,
}

impl Health {
    /// All words.
    pub const ALL: [Self; 6] = [
        Self::Healthy,
        Self::Suspended,
        Self::Progressing,
        Self::Missing,
        Self::Degraded,
        Self::Unknown,
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Suspended => "Suspended",
            Self::Progressing => "Progressing",
            Self::Missing => "Missing",
            Self::Degraded => "Degraded",
            Self::Unknown => "Unknown",
        }
    }

    /// The health of a word; `None` if there is no such word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|health| health.as_str() == word)
    }
}

impl fmt::Display for Health {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The health of an object, with what it says about the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// The word.
    pub health: Health,
    /// A word for the cause in CamelCase, such as `CrashLoopBackOff`; empty if there is none.
    pub reason: String,
    /// A sentence for people; empty if there is none.
    pub message: String,
}

impl Assessment {
    /// An assessment. A reason or message that is too long is cut.
    pub fn new(health: Health, reason: &str, message: &str) -> Self {
        Self {
            health,
            reason: cut(reason, MAX_REASON_BYTES).to_owned(),
            message: cut(message, MAX_MESSAGE_BYTES).to_owned(),
        }
    }

    /// That it is [`Health::Progressing`].
    pub fn progressing(reason: &str, message: &str) -> Self {
        Self::new(Health::Progressing, reason, message)
    }

    /// That it is [`Health::Degraded`].
    pub fn degraded(reason: &str, message: &str) -> Self {
        Self::new(Health::Degraded, reason, message)
    }

    /// An assessment without a reason or message.
    pub fn plain(health: Health) -> Self {
        Self::new(health, "", "")
    }
}

/// The first bytes of a text, at most `most`, ending between characters.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
