//! Who answers an operation: customizations, Argo CD's health scripts, webhooks, built-in rules.
//!
//! The levels are tried in this order. The first that has a rule for the kind and the operation
//! decides, and its error is final, with two exceptions: a health script of Argo CD that returns
//! nothing leaves the answer to the next level, and so does a webhook that fails where its
//! configuration says `Ignore`.
//!
//! Scripts and built-in rules run here. A webhook is only named: the caller asks it, and continues
//! with [`Levels::after_webhook`].

use fleetdex_core::model::Resource;

use crate::{
    InterpretError, Request, Response,
    customization::CustomizationSet,
    health::{self, Health},
    native,
    script::{ArgoHealth, ScriptCompiler},
    webhook::configuration::{FailurePolicy, Webhook, select},
};

mod answering_level;
mod compiled;

pub use answering_level::AnsweringLevel;
use compiled::CompiledCustomizations;

/// The rules of all levels.
#[derive(Debug)]
pub struct Levels {
    customizations: CompiledCustomizations,
    argocd: ArgoHealth,
    webhooks: Vec<Webhook>,
    has_built_in_rules: bool,
}

/// What the levels say to a request.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum LevelAnswer<'l> {
    /// A level has decided.
    Decided {
        /// The level.
        by: AnsweringLevel,
        /// Its result.
        result: Result<Response, InterpretError>,
    },
    /// This webhook decides.
    AskWebhook(&'l Webhook),
    /// No level has a rule.
    NoRule,
}

impl LevelAnswer<'_> {
    fn decided(by: AnsweringLevel, result: Result<Response, InterpretError>) -> Self {
        Self::Decided { by, result }
    }
}

impl Default for Levels {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Levels {
    /// Only the built-in rules.
    pub fn built_in() -> Self {
        Self {
            customizations: CompiledCustomizations::default(),
            argocd: ArgoHealth::default(),
            webhooks: Vec::new(),
            has_built_in_rules: true,
        }
    }

    /// Compiles the scripts of customizations. One that does not compile still decides, with its
    /// error.
    #[must_use]
    pub fn with_customizations(self, customizations: &CustomizationSet) -> Self {
        self.with_customizations_by(&mut ScriptCompiler::default(), customizations)
    }

    /// The same with a compiler that may have compiled some of them already.
    #[must_use]
    pub fn with_customizations_by(
        mut self,
        compiler: &mut ScriptCompiler,
        customizations: &CustomizationSet,
    ) -> Self {
        self.customizations = CompiledCustomizations::new(customizations, compiler);
        self
    }

    /// Adds health scripts of Argo CD. A script that fails assesses its objects Unknown, as in Argo
    /// CD.
    #[must_use]
    pub fn with_argocd(mut self, scripts: ArgoHealth) -> Self {
        self.argocd = scripts;
        self
    }

    /// Adds webhooks, in any order.
    #[must_use]
    pub fn with_webhooks(mut self, webhooks: impl IntoIterator<Item = Webhook>) -> Self {
        self.webhooks.extend(webhooks);
        self
    }

    /// Takes the built-in rules away, as where only a customization is tried out.
    #[must_use]
    pub fn without_built_in_rules(mut self) -> Self {
        self.has_built_in_rules = false;
        self
    }

    /// Whether the built-in rules are among the levels.
    pub fn has_built_in_rules(&self) -> bool {
        self.has_built_in_rules
    }

    /// Answers a request on an object of a resource, or names the webhook that does.
    pub fn answer(&self, request: &Request<'_>, resource: &Resource) -> LevelAnswer<'_> {
        if let Some((by, result)) = self.customizations.run(request, resource) {
            let result = result.map(|response| with_cause(request, response));
            return LevelAnswer::decided(by, result);
        }
        if let Some((by, result)) = self.argocd_health(request, resource) {
            return LevelAnswer::decided(by, result);
        }
        match select(&self.webhooks, request.operation(), resource) {
            Some(webhook) => LevelAnswer::AskWebhook(webhook),
            None => self.built_in_answer(request),
        }
    }

    /// Continues after the webhook that [`Levels::answer`] named was asked. `result` is its
    /// response, or what went wrong.
    pub fn after_webhook(
        &self,
        webhook: &Webhook,
        request: &Request<'_>,
        result: Result<Response, String>,
    ) -> LevelAnswer<'_> {
        let by = AnsweringLevel::Webhook(webhook.id.as_str().into());
        match result {
            Ok(response) => LevelAnswer::decided(by, Ok(with_cause(request, response))),
            Err(_) if webhook.failure_policy == FailurePolicy::Ignore => {
                self.built_in_answer(request)
            }
            Err(reason) => {
                let error = InterpretError(format!("webhook {}: {reason}", webhook.id));
                LevelAnswer::decided(by, Err(error))
            }
        }
    }

    fn argocd_health(
        &self,
        request: &Request<'_>,
        resource: &Resource,
    ) -> Option<(AnsweringLevel, Result<Response, InterpretError>)> {
        let Request::Health { object } = request else {
            return None;
        };
        let script = self
            .argocd
            .script_for(&resource.gvk.group, &resource.gvk.kind)?;
        // As in Argo CD, a pending deletion counts more than what a script says.
        let assessment = match health::deletion::assess(*object) {
            Some(pending) => pending,
            None => script.run(object)?,
        };
        let healthy = matches!(assessment.health, Health::Healthy | Health::Suspended);
        let response = Response::Health {
            assessment,
            healthy,
        };
        Some((AnsweringLevel::ArgoCd, Ok(response)))
    }

    fn built_in_answer(&self, request: &Request<'_>) -> LevelAnswer<'_> {
        if !self.has_built_in_rules {
            return LevelAnswer::NoRule;
        }
        match native::interpret(request).transpose() {
            Some(result) => LevelAnswer::decided(AnsweringLevel::BuiltIn, result),
            None => LevelAnswer::NoRule,
        }
    }
}

/// The response of a customization or webhook, which say of health only whether it is good, with
/// what the built-in rules know about the cause.
fn with_cause(request: &Request<'_>, response: Response) -> Response {
    match response {
        Response::Health { healthy, .. } => Response::Health {
            assessment: health::from_boolean(request.object(), healthy),
            healthy,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests;
