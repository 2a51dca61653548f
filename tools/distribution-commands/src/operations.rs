//! What objects mean, by scripts and built-in rules.

use std::{cell::RefCell, collections::BTreeSet};

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
pub struct OfflineOperations {
    levels: Levels,
    required: RefCell<BTreeSet<Gvk>>,
}

impl OfflineOperations {
    /// By these customizations, before the built-in rules.
    pub fn new(customizations: &[Customization], webhooks: Vec<Webhook>) -> Self {
        let set = CustomizationSet::new(customizations);
        Self {
            levels: Levels::built_in()
                .with_customizations(&set)
                .with_webhooks(webhooks),
            required: RefCell::default(),
        }
    }

    /// The kinds of what objects needed, of all answers so far.
    pub fn required(&self) -> BTreeSet<Gvk> {
        self.required.borrow().clone()
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
        match self.levels.answer(request, &resource) {
            LevelAnswer::Decided { result, .. } => {
                if let Ok(Response::Dependencies(needed)) = &result {
                    let kinds = needed
                        .iter()
                        .map(|one| Gvk::from_api_version(&one.api_version, &one.kind));
                    self.required.borrow_mut().extend(kinds);
                }
                result.map(Some).map_err(|error| error.0)
            }
            LevelAnswer::AskWebhook(webhook) => Err(format!(
                "the webhook {} decides, and a plan does not ask webhooks",
                webhook.id
            )),
            LevelAnswer::NoRule => Ok(None),
        }
    }
}
