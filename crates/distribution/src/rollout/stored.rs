//! The state of a rollout as the status of a `Distribution` has it.

use fleetdex_crds::distribution::{KeptRevision, RolloutStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{RolloutPhase, RolloutState};

impl RolloutPhase {
    /// All phases.
    const ALL: [Self; 5] = [
        Self::Progressing,
        Self::Paused,
        Self::Failed,
        Self::Complete,
        Self::Undone,
    ];

    /// Its name in a status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Progressing => "Progressing",
            Self::Paused => "Paused",
            Self::Failed => "Failed",
            Self::Complete => "Complete",
            Self::Undone => "Undone",
        }
    }
}

impl RolloutState {
    /// Reads a status; `None`: it says nothing, or nothing that makes sense.
    pub fn read(status: &RolloutStatus) -> Option<Self> {
        let filled = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let mut phases = RolloutPhase::ALL.into_iter();
        Some(Self {
            phase: phases.find(|phase| phase.as_str() == status.phase)?,
            revision: filled(&status.revision)?,
            stable: filled(&status.stable),
            previous: filled(&status.previous),
            wave: usize::try_from(status.wave).ok()?,
            waves: usize::try_from(status.waves).ok()?,
            reached: status.reached.iter().cloned().collect(),
            began: status.wave_began_at.as_ref()?.0,
            healthy_since: status.healthy_since.as_ref().map(|time| time.0),
            message: status.message.clone(),
        })
    }

    /// The status, with the revisions that are kept.
    pub fn status(&self, revisions: Vec<KeptRevision>) -> RolloutStatus {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        RolloutStatus {
            phase: self.phase.as_str().to_owned(),
            revision: self.revision.clone(),
            stable: self.stable.clone().unwrap_or_default(),
            previous: self.previous.clone().unwrap_or_default(),
            wave: number(self.wave),
            waves: number(self.waves),
            progress: format!("{}/{}", self.wave, self.waves),
            reached: self.reached.iter().cloned().collect(),
            wave_began_at: Some(Time(self.began)),
            healthy_since: self.healthy_since.map(Time),
            message: self.message.clone(),
            revisions,
        }
    }
}
