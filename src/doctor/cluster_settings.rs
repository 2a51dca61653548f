//! The settings of an OpenSearch cluster, with its defaults.

use serde_json::Value;

/// What `/_cluster/settings` asks for. Without it, the defaults of nodes are not in the answer.
pub const SETTINGS_PATH: &str = "/_cluster/settings?include_defaults=true&flat_settings=true";

/// The settings of a cluster; without the right to read them, there is none.
#[derive(Debug, Default)]
pub struct ClusterSettings(Value);

impl ClusterSettings {
    /// The answer to [`SETTINGS_PATH`].
    pub const fn new(answer: Value) -> Self {
        Self(answer)
    }

    /// A setting: transient, persistent or the default, in this order, as OpenSearch applies them.
    pub fn text(&self, key: &str) -> Option<&str> {
        let levels = ["transient", "persistent", "defaults"];
        levels.iter().find_map(|level| self.0[level][key].as_str())
    }

    /// A setting that is a number.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.text(key)?.parse().ok()
    }
}
