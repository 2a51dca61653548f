//! Indices as such: whose they are, their settings and mapping, and what there is.

pub(crate) mod alias_actions;
pub(crate) mod claim;
pub(crate) mod complete_resources;
pub(crate) mod index_settings;
pub(crate) mod index_template;
pub(crate) mod policy_exclusion;
pub(crate) mod preparation;
pub(crate) mod refresh;
pub(crate) mod retirement;
pub(crate) mod settings_update;
pub(crate) mod survey;
pub(crate) mod surveyed_index;
