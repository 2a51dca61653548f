//! Applications of Argo CD, which have assessed what they deploy themselves.

use crate::{
    health::{Assessment, Health},
    value::{Tree, list, text},
};

/// The application's own word. `None` while it has none, or one that is not of Argo CD. Source:
/// `Application/health.lua` in `resource_customizations/argoproj.io` of Argo CD. The cause of a bad
/// one is its first condition, such as `ComparisonError`.
pub fn application(object: Tree<'_>) -> Option<Assessment> {
    let word = text(object, &["status", "health", "status"]);
    let health = Health::from_word(word)?;
    let message = text(object, &["status", "health", "message"]);
    if health == Health::Healthy {
        return Some(Assessment::new(health, "", message));
    }
    let condition = list(object, &["status", "conditions"]).first();
    let of_condition = |member| condition.map_or("", |condition| text(condition, &[member]));
    let or_else =
        |text: &'_ str, other: &'_ str| if text.is_empty() { other } else { text }.to_owned();
    Some(Assessment::new(
        health,
        &or_else(of_condition("type"), word),
        &or_else(message, of_condition("message")),
    ))
}
