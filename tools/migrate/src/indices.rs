//! The indices of karmada-search, which nothing reads after a migration.

use fleetdex_operator::{
    plan::StorePlan,
    store_settings::{CredentialSource, store_settings},
};
use fleetdex_store::opensearch::Authentication;
use serde::Deserialize;

use fleetdex_checks::{result::Checks, store_probe::StoreProbe};

/// karmada-search has an index for each kind, and no setting for their prefix.
const PATH: &str = "/_cat/indices/kubernetes-*?format=json&h=index,docs.count";
const CHECK: &str = "old indices";

#[derive(Deserialize)]
struct IndexLine {
    index: String,
    #[serde(rename = "docs.count", default)]
    documents: Option<String>,
}

/// Names the indices, and checks that the credentials may be sent to the store.
pub async fn check_store(checks: &mut Checks, plan: &StorePlan, credentials: &CredentialSource) {
    let Some(config) = &plan.config else {
        return;
    };
    let settings = match store_settings(config, credentials).await {
        Ok(settings) => {
            let login = match &settings.authentication {
                Authentication::Basic { user, .. } => {
                    format!("user {user:?}, whose Secret may be sent there")
                }
                Authentication::Bearer(_) => "a token, which may be sent there".to_owned(),
                Authentication::Aws(_) => "requests are signed for AWS".to_owned(),
                Authentication::None => {
                    "no secretRef: requests carry no credentials, as before".to_owned()
                }
            };
            checks.ok("login", login);
            settings
        }
        Err(unavailable) => {
            checks.warning(
                "login",
                format!(
                    "{}: {}; the registries of this store are not Ready until then",
                    unavailable.reason, unavailable.message
                ),
                "correct the Secret or the reference before or after the migration",
            );
            checks.skipped(CHECK, "no login", "");
            return;
        }
    };
    let listed = match StoreProbe::new(&settings) {
        Ok(node) => node.get(PATH).await.map_err(|none| none.message),
        Err(error) => Err(error.to_string()),
    };
    let lines = listed.and_then(|answer| {
        serde_json::from_value::<Vec<IndexLine>>(answer).map_err(|error| error.to_string())
    });
    match lines {
        Ok(lines) if lines.is_empty() => checks.ok(CHECK, "no index kubernetes-<kind>"),
        Ok(mut lines) => {
            lines.sort_by(|left, right| left.index.cmp(&right.index));
            let names: Vec<String> = lines.iter().map(IndexLine::describe).collect();
            checks.warning(
                CHECK,
                format!("nothing reads or deletes these after the migration: {}", names.join(", ")),
                "delete them when you do not want to go back any more",
            );
        }
        Err(problem) => checks.skipped(
            CHECK,
            problem,
            "look for indices kubernetes-<kind> from where the store is reached: nothing reads or deletes them after the migration",
        ),
    }
}

impl IndexLine {
    fn describe(&self) -> String {
        match &self.documents {
            Some(documents) => format!("{} (documents: {documents})", self.index),
            None => self.index.clone(),
        }
    }
}
