//! Makes a store ready for writing.

use crate::{StoreError, opensearch::engine::Engine};

use super::index_template::{index_template, state_template};

impl Engine {
    /// Makes the store ready: claims the prefix, writes the index templates, and gives existing
    /// indices the settings of the registry. Idempotent.
    pub async fn prepare(&self) -> Result<(), StoreError> {
        let (prefix, settings) = (&self.options.prefix, &self.options.settings);
        self.claim_prefix().await?;
        let operation = "writing the index templates";
        let templates = [
            (
                prefix.all(),
                index_template(prefix, settings, &self.options.fields),
            ),
            (
                prefix.state(),
                state_template(prefix, settings, &self.options.owner),
            ),
        ];
        for (name, template) in templates {
            let path = format!("/_index_template/{name}");
            self.send_excluding(operation, path, &template, "/template/settings/index")
                .await?;
        }
        self.update_settings().await;
        Ok(())
    }
}
