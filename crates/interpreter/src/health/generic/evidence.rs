//! What speaks for or against an object's health, and which piece of evidence wins.

use std::borrow::Cow;

use super::super::{Assessment, Health};

/// What one piece of evidence says, in the order in which they win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indication {
    Suspended,
    Degraded,
    Progressing,
    /// Not fine, for a reason that is not understood.
    NotOk,
    Healthy,
}

impl Indication {
    const ALL: [Self; 5] = [
        Self::Suspended,
        Self::Degraded,
        Self::Progressing,
        Self::NotOk,
        Self::Healthy,
    ];

    fn health(self) -> Health {
        match self {
            Self::Suspended => Health::Suspended,
            Self::Degraded | Self::NotOk => Health::Degraded,
            Self::Progressing => Health::Progressing,
            Self::Healthy => Health::Healthy,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Basis<'v> {
    /// A condition, or a container's state.
    Condition {
        name: &'v str,
        status: &'static str,
        reason: &'v str,
        message: &'v str,
    },
    /// A condition about an earlier generation.
    Stale { name: &'v str },
    /// A field and its text.
    Text { field: &'v str, text: &'v str },
    /// A field and what is read from it.
    Flag { field: &'v str, value: bool },
    /// A counter that should reach a number.
    Count { field: &'v str, count: i64, of: i64 },
}

impl<'v> Basis<'v> {
    /// A word for the cause: a reason, a status word, or the name of what decided.
    pub(super) fn reason(self) -> Cow<'v, str> {
        match self {
            Self::Condition { reason, .. } if !reason.is_empty() => reason.into(),
            Self::Condition {
                name,
                status: "False",
                ..
            } => format!("Not{name}").into(),
            Self::Text { text, .. } if is_word(text) => text.into(),
            Self::Condition { name, .. } => name.into(),
            Self::Stale { .. } => "observedGeneration".into(),
            Self::Text { field, .. } | Self::Flag { field, .. } | Self::Count { field, .. } => {
                field.into()
            }
        }
    }

    /// The text as the object has it, or what was read.
    pub(super) fn message(self) -> Cow<'v, str> {
        match self {
            Self::Condition { message, .. } if !message.is_empty() => message.into(),
            Self::Condition { name, status, .. } => format!("{name} is {status}").into(),
            Self::Stale { name } => format!("{name} is about an earlier generation").into(),
            Self::Text { field, text } if is_word(text) => format!("{field} is {text}").into(),
            Self::Text { text, .. } => text.into(),
            Self::Flag { field, value } => format!("{field} is {value}").into(),
            Self::Count { field, count, of } => format!("{field} is {count} of {of}").into(),
        }
    }

    /// Whether it says more than one word.
    fn explains(self) -> bool {
        match self {
            Self::Condition { message, .. } => !message.is_empty(),
            Self::Text { text, .. } => !is_word(text),
            Self::Flag { .. } => false,
            Self::Stale { .. } | Self::Count { .. } => true,
        }
    }
}

/// Whether a text is one word, as reasons and phases are.
fn is_word(text: &str) -> bool {
    text.len() <= super::super::MAX_REASON_BYTES
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/'))
}

/// An indication and where it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'v> {
    pub(super) indication: Indication,
    pub(super) basis: Basis<'v>,
}

impl Evidence<'_> {
    /// What the evidence says about the object, if it wins.
    pub(super) fn assessment(self) -> Assessment {
        let reason = self.basis.reason();
        Assessment::new(self.indication.health(), &reason, &self.basis.message())
    }
}

/// The evidence found: for each indication the first piece, or the first that explains.
#[derive(Clone, Debug, Default)]
pub(super) struct EvidenceSet<'v>([Option<Evidence<'v>>; Indication::ALL.len()]);

impl<'v> EvidenceSet<'v> {
    pub(super) fn add(&mut self, indication: Indication, basis: Basis<'v>) {
        let place = &mut self.0[indication as usize];
        let keeps = place.is_some_and(|earlier| earlier.basis.explains() || !basis.explains());
        if !keeps {
            *place = Some(Evidence { indication, basis });
        }
    }

    pub(super) fn extend(&mut self, others: &Self) {
        for evidence in others.0.iter().flatten() {
            self.add(evidence.indication, evidence.basis);
        }
    }

    pub(super) fn winner(&self) -> Option<Evidence<'v>> {
        self.0.iter().flatten().next().copied()
    }

    pub(super) fn of(&self, indication: Indication) -> Option<Evidence<'v>> {
        self.0[indication as usize]
    }
}
