//! What a binding says of its object, as rows for people: what each cluster shall have, what it
//! has, and why they differ.
//!
//! The command line and the page show the same rows. `distributor::status_writer::conditions`
//! writes the messages that are read here; a message of another form, such as one of Karmada, is
//! shown as it is. What is read has at most the size of the binding.

use fleetdex_core::model::{qualified, split_api_version};
use fleetdex_interpreter::value::{list, text};
use serde::Serialize;
use serde_json::Value;

use crate::{
    binding::BindingPlace,
    binding_name::{binding_kind, binding_name},
    claim::PolicyName,
    sets::{SetName, bound_object},
    template_name::TemplateName,
};

mod messages;
mod ready;
mod row;
#[cfg(test)]
mod tests;

pub use messages::NotChosenClusters;
use messages::{BindingCondition, split_unschedulable, split_with_choice};
use row::RowReader;
pub use row::{AppliedState, PlacementRow};

/// An object of the control plane with its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementReport {
    /// The object.
    pub object: TemplateName,
    /// The name of its binding.
    pub binding: String,
    /// Whether Fleetdex ignores the binding, because it has another name than Fleetdex gives it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_ignored: bool,
    /// The policy that the object belongs to, with its namespace; `None` for an object that others
    /// need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The set that it belongs to, as namespace and name.
    #[serde(skip)]
    pub set: Option<(String, String)>,
    /// The replicas of the object; `None` for an object without replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Why the object could not be placed; its clusters are then those of before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_placed: Option<String>,
    /// The clusters that are chosen, by name, and then those that the object leaves.
    pub clusters: Vec<PlacementRow>,
    /// Clusters that [`Self::keep_within`] has left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// The clusters that are not chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_chosen: Vec<NotChosenClusters>,
    /// What the binding says of itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PlacementCondition>,
}

/// A condition of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementCondition {
    /// Such as `Scheduled`, `FullyApplied` or `DeletionHeld`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when.
    pub last_transition_time: String,
    /// Why, as one word for programs.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl PlacementReport {
    /// Reads a binding. A member of an odd type counts as absent.
    pub fn of(binding: &Value) -> Self {
        let set = SetName::of_binding(binding);
        let object = bound_object(binding, set.as_ref());
        let name = text(binding, &["metadata", "name"]).to_owned();
        let scheduled = BindingCondition::of(binding, "Scheduled");
        let (not_placed, not_chosen) = if scheduled.status == "False" {
            let (why, others) = split_unschedulable(scheduled.message);
            (Some(why), others)
        } else {
            (None, split_with_choice(scheduled.message))
        };
        let reader = RowReader::new(binding, &object);
        Self {
            is_ignored: is_ignored(binding, &object, set.as_ref()),
            policy: match &set {
                Some(set) => Some(set.shown()),
                None => PolicyName::of_annotations(binding).map(|policy| shown_policy(&policy)),
            },
            set: set.map(|set| (set.namespace, set.name)),
            replicas: reader.replicas,
            not_placed,
            clusters: reader.rows(),
            left_out: 0,
            not_chosen,
            conditions: conditions(binding),
            object,
            binding: name,
        }
    }

    /// Whether the object is placed, and all of its clusters have it as it shall be.
    pub fn is_applied(&self) -> bool {
        let mut chosen = self.chosen().peekable();
        self.not_placed.is_none()
            && chosen.peek().is_some()
            && chosen.all(|row| row.applied == AppliedState::Yes)
    }

    /// The clusters that are chosen.
    fn chosen(&self) -> impl Iterator<Item = &PlacementRow> {
        let rows = self.clusters.iter();
        rows.filter(|row| row.applied != AppliedState::Leaving)
    }

    /// Such as `deployment.apps/web`, as commands take it.
    pub fn object_word(&self) -> String {
        let (group, _) = split_api_version(&self.object.api_version);
        let kind = qualified(&self.object.kind.to_lowercase(), group);
        format!("{kind}/{}", self.object.name)
    }

    /// What is to be said of the object as a whole; empty: nothing.
    pub fn remark(&self) -> String {
        if self.is_ignored {
            let kind = binding_kind(&self.object);
            let expected = binding_name(&self.object);
            return format!(
                "Fleetdex ignores this binding: that of the object is the {kind} {expected}"
            );
        }
        match &self.not_placed {
            Some(why) => format!("not placed: {why}"),
            None if self.clusters.is_empty() => "no cluster is chosen yet".to_owned(),
            None => String::new(),
        }
    }

    /// The bytes that it takes, without what the allocator adds.
    pub fn size(&self) -> usize {
        let names = [&self.object.api_version, &self.object.kind];
        let more_names = [&self.object.namespace, &self.object.name, &self.binding];
        let texts: usize = names.into_iter().chain(more_names).map(String::len).sum();
        let optional = self.policy.iter().chain(&self.not_placed);
        let rows = self.clusters.iter().map(PlacementRow::size);
        let others = self.not_chosen.iter().map(NotChosenClusters::size);
        let conditions = self.conditions.iter().map(PlacementCondition::size);
        size_of::<Self>()
            + texts
            + optional.map(String::len).sum::<usize>()
            + rows.chain(others).chain(conditions).sum::<usize>()
    }

    /// Leaves out what does not fit into so many bytes: clusters that are not chosen, then the last
    /// ones of those that are.
    pub fn keep_within(&mut self, bytes: usize) {
        let mut size = self.size();
        while size > bytes
            && let Some(others) = self.not_chosen.pop()
        {
            size -= others.size();
            self.left_out += others.clusters.len();
        }
        while size > bytes
            && let Some(row) = self.clusters.pop()
        {
            size -= row.size();
            self.left_out += 1;
        }
    }
}

impl PlacementCondition {
    fn size(&self) -> usize {
        let texts = [&self.kind, &self.status, &self.reason, &self.message];
        let texts: usize = texts.into_iter().map(String::len).sum();
        size_of::<Self>() + texts + self.last_transition_time.len()
    }
}

/// Whether a binding is not the one that Fleetdex writes for the object.
fn is_ignored(binding: &Value, object: &TemplateName, set: Option<&SetName>) -> bool {
    let of = |member: &str| text(binding, &["metadata", member]);
    let expected = BindingPlace::of(object, set);
    of("name") != expected.name || of("namespace") != expected.namespace
}

fn shown_policy(policy: &PolicyName) -> String {
    match &policy.namespace {
        Some(namespace) => format!("{namespace}/{}", policy.name),
        None => policy.name.clone(),
    }
}

fn conditions(binding: &Value) -> Vec<PlacementCondition> {
    let conditions = list(binding, &["status", "conditions"]).iter();
    let read = conditions.map(|one| {
        let of = |member: &str| text(one, &[member]).to_owned();
        PlacementCondition {
            kind: of("type"),
            status: of("status"),
            last_transition_time: of("lastTransitionTime"),
            reason: of("reason"),
            message: of("message"),
        }
    });
    read.collect()
}
