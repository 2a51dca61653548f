//! Bounds and CEL rules of [`OverrideSpec`](super::OverrideSpec).
//!
//! Karmada has no bounds. These bound the cost of the rules: a rule for a change within a rule for
//! clusters may run once for each pair of them. Operators and JSON pointers are an enumeration and
//! a pattern and no CEL rules, so that nothing multiplies.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Most rules for clusters: a fleet of 1,000 clusters may have one for each.
pub(super) const RULES: usize = 1_000;
/// Most changes of one sort in one rule.
pub(super) const OVERRIDERS: usize = 100;
/// Most operations within one text.
pub(super) const OPERATIONS: usize = 100;
/// A JSON pointer other than the whole object.
pub(super) const POINTER: &str = "^/";

pub(super) const ONE_FORM: &str =
    "targetCluster and overriders are the old form of one rule: remove them, or overrideRules";
pub(super) const ONE_LANGUAGE: &str = "changes of json or of yaml are needed, not both";
pub(super) const VALUE_NEEDED: &str = "add and replace need a value, and remove has none";

pub(super) const OVERRIDE_RULES: &[(&str, &str)] = &[(
    "(!has(self.targetCluster) && !has(self.overriders)) || !has(self.overrideRules) || size(self.overrideRules) == 0",
    ONE_FORM,
)];

/// Of one of `imageOverrider`. The values of other overriders may be of any type, which CEL does
/// not see: `definitions::require_values` has their rule.
pub(super) const IMAGE_RULES: &[(&str, &str)] = &[(
    "(has(self.value) && self.value != '') == (self.operator != 'remove')",
    VALUE_NEEDED,
)];

/// Of one of `fieldOverrider`.
pub(super) const FIELD_RULES: &[(&str, &str)] = &[(
    "(has(self.json) && size(self.json) > 0) != (has(self.yaml) && size(self.yaml) > 0)",
    ONE_LANGUAGE,
)];

/// Labels or annotations.
pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 1_000,
        "additionalProperties": {"type": "string"},
    })
}
