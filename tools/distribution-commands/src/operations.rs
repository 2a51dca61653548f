//! What objects mean, by scripts and built-in rules.

use fleetdex_core::{
    kinds::{self, BuiltIn},
    model::{Gvk, Resource},
};
use fleetdex_distribution::desired::Operations;
use fleetdex_interpreter::{
    Request, Response,
    customization::{Customization, CustomizationSet},
    levels::{LevelAnswer, Levels},
    value::text,
    webhook::configuration::Webhook,
};

/// Customizations and built-in rules. A webhook is not asked: its answer is an error.
pub struct OfflineOperations(Levels);

impl OfflineOperations {
    /// By these customizations, before the built-in rules.
    pub fn new(customizations: &[Customization], webhooks: Vec<Webhook>) -> Self {
        let set = CustomizationSet::new(customizations);
        Self(
            Levels::built_in()
                .with_customizations(&set)
                .with_webhooks(webhooks),
        )
    }
}

impl Operations for OfflineOperations {
    fn run(&self, request: &Request<'_>) -> Result<Option<Response>, String> {
        let object = request.object();
        let gvk = Gvk::from_api_version(text(object, &["apiVersion"]), text(object, &["kind"]));
        let known = kinds::find(&gvk).map(BuiltIn::resource);
        let resource = known.unwrap_or_else(|| Resource {
            plural: gvk.kind.to_lowercase().into(),
            namespaced: !text(object, &["metadata", "namespace"]).is_empty(),
            gvk,
        });
        match self.0.answer(request, &resource) {
            LevelAnswer::Decided { result, .. } => result.map(Some).map_err(|error| error.0),
            LevelAnswer::AskWebhook(webhook) => Err(format!(
                "the webhook {} decides, and webhooks are not asked offline",
                webhook.id
            )),
            LevelAnswer::NoRule => Ok(None),
        }
    }
}
