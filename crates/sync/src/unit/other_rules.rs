//! Ends the task of a unit when other rules hold for its objects; the supervisor starts it again
//! with those.

use fleetdex_interpreter::rules::KindRules;
use fleetdex_store::{Extent, IndexRevision, KindExtent, MadeBy, StoreError};

use super::{
    end::{Interruption, UnitEnd},
    task::UnitTask,
};
use crate::checkpoints::UnitKey;

/// The end of the plans of units whose rules know that objects of the kind have had a status. A
/// checkpoint says so, whatever else has changed since.
pub const WITH_STATUS: &str = " status";

impl UnitTask {
    /// Fails once other rules hold, as a script is to be suspended or an object of the kind has a
    /// status. Whatever else the task does is stopped at once.
    pub(super) fn check_rules(&self) -> Result<(), UnitEnd> {
        let have_changed =
            |rules: &KindRules| rules.have_exhausted_script() || rules.have_seen_status();
        if self.rules.as_ref().is_some_and(have_changed) {
            self.progress.require_list();
            self.stop.cancel();
            return Err(UnitEnd::OtherRules);
        }
        Ok(())
    }

    /// Fails if the checkpoint of the unit knows that objects of the kind have had a status, and
    /// its rules do not.
    pub(super) fn check_rules_of_checkpoint(
        &self,
        revision: &IndexRevision,
    ) -> Result<(), UnitEnd> {
        let Some((rules, _)) = self.unaware_rules() else {
            return Ok(());
        };
        let tracker = &self.sink.pipeline.checkpoints.tracker;
        let plan = tracker.plan_of(revision, &UnitKey::from(&self.unit));
        if plan.is_some_and(|plan| plan.ends_with(WITH_STATUS)) {
            rules.note_status();
            self.check_rules()?;
        }
        Ok(())
    }

    /// The same if documents know it.
    pub(super) async fn check_rules_of_documents(
        &self,
        revision: &IndexRevision,
    ) -> Result<(), Interruption<StoreError>> {
        let Some((rules, hash)) = self.unaware_rules() else {
            return Ok(());
        };
        // Also objects outside the namespace of the unit say whether there is a controller.
        let extent = Extent::Kind(KindExtent {
            namespace: None,
            ..KindExtent::of(&self.unit)
        });
        let store = self.sink.pipeline.store.opened().await;
        if store
            .has_documents_made_by(revision, &extent, &MadeBy::Rules(hash))
            .await?
        {
            rules.note_status();
            self.check_rules()?;
        }
        Ok(())
    }

    /// Rules that know of no status, and the hash of those that do.
    fn unaware_rules(&self) -> Option<(&KindRules, &str)> {
        self.rules.as_ref().zip(self.written_status_hash.as_deref())
    }
}
