//! What objects mean, by scripts and built-in rules.

use std::{cell::RefCell, collections::BTreeSet};

use fleetdex_core::model::Gvk;
use fleetdex_distribution::desired::Operations;
use fleetdex_interpreter::{
    Request, Response,
    customization::{Customization, CustomizationSet},
    levels::{LevelAnswer, Levels},
    webhook::configuration::{Webhook, guessed_resource},
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
        let resource = guessed_resource(request.object());
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
