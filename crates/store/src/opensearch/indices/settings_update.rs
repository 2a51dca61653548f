//! Settings of existing indices: those that a registry names, and those that keep policies away.

use std::collections::BTreeMap;

use fleetdex_core::model::IndexName;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{index_settings::IndexSettings, policy_exclusion::ISM};
use crate::{
    StoreError,
    opensearch::{
        connection::client::parse,
        engine::{Engine, targets},
    },
};

/// One index, of an answer about settings.
#[derive(Deserialize)]
struct IndexWithSettings {
    #[serde(default)]
    settings: Value,
}

impl IndexWithSettings {
    /// Whether a setting, named without `index.`, has this value.
    fn has(&self, name: &str, value: &str) -> bool {
        let stored = format!("/index/{}", name.replace('.', "/"));
        self.settings.pointer(&stored).and_then(Value::as_str) == Some(value)
    }
}

impl Engine {
    /// PUT with settings of an index at a JSON pointer of the body, and those that exclude the
    /// index from policies, if the server has them.
    pub(crate) async fn send_excluding(
        &self,
        operation: &str,
        path: String,
        body: &Value,
        settings: &str,
    ) -> Result<(), StoreError> {
        loop {
            let exclusion = self.exclusion.settings();
            let mut with_exclusion = body.clone();
            if let Some(Value::Object(members)) = with_exclusion.pointer_mut(settings) {
                members.extend(
                    exclusion
                        .iter()
                        .map(|name| ((*name).to_owned(), json!(false))),
                );
            }
            let sent = self
                .send(operation, Method::PUT, path.clone(), Some(&with_exclusion))
                .await;
            match sent {
                Err(StoreError::Refused { reason, .. })
                    if reason.contains("unknown setting")
                        && reason.contains(ISM)
                        && self.exclusion.refuse(exclusion) => {}
                other => return other.map(drop),
            }
        }
    }

    /// Gives existing indices the settings that the registry names, and excludes them from
    /// policies.
    ///
    /// Documents can be written and found without that, so that a failure is only logged: a user
    /// who may not change settings, or a block of an index, must not stop the store.
    pub(crate) async fn update_settings(&self) {
        if let Err(error) = self.try_update_settings().await {
            tracing::warn!(%error, prefix = self.options.prefix.as_str(), "the settings of existing indices are not as the registry says");
        }
    }

    async fn try_update_settings(&self) -> Result<(), StoreError> {
        let found = self.survey(&self.every_index()).await?;
        let own = found.into_iter().filter(|found| self.is_own(found));
        let mut indices: Vec<IndexName> = own.map(|found| found.index).collect();
        indices.push(self.options.prefix.state());
        let stored = self.stored_settings().await?;
        // Indices with the same difference are changed by one request.
        let mut by_changes: BTreeMap<String, (Value, Vec<IndexName>)> = BTreeMap::new();
        for index in indices {
            let Some(stored) = stored.get(&index) else {
                continue;
            };
            let is_state = index == self.options.prefix.state();
            let mut changes = desired(&self.options.settings, is_state);
            changes.retain(|name, value| !stored.has(name, value));
            let mut exclusion = self.exclusion.settings().iter();
            let is_excluded = exclusion.all(|name| stored.has(name, "false"));
            if !changes.is_empty() || !is_excluded {
                let changes = json!(changes);
                let same = by_changes.entry(changes.to_string());
                same.or_insert_with(|| (changes, Vec::new())).1.push(index);
            }
        }
        for (changes, indices) in by_changes.into_values() {
            for target in targets(indices.iter().map(IndexName::as_str)) {
                let body = json!({ "index": changes });
                tracing::info!(indices = target, %changes, "changing the settings of indices");
                let operation = "changing the settings of indices";
                self.send_excluding(operation, format!("/{target}/_settings"), &body, "/index")
                    .await?;
            }
        }
        Ok(())
    }

    async fn stored_settings(&self) -> Result<BTreeMap<IndexName, IndexWithSettings>, StoreError> {
        let operation = "reading the settings of indices";
        let prefix = &self.options.prefix;
        let path = format!(
            "/{},{}/_settings?allow_no_indices=true&ignore_unavailable=true",
            self.every_index(),
            prefix.state()
        );
        let answer = self.get_optional(operation, path).await?;
        answer.map_or(Ok(BTreeMap::new()), |body| parse(operation, &body))
    }
}

/// The settings that an existing index should have, because the registry names them.
fn desired(settings: &IndexSettings, is_state: bool) -> BTreeMap<&'static str, String> {
    let mut desired = BTreeMap::new();
    if let Some(replicas) = settings.replicas {
        desired.insert("number_of_replicas", replicas.to_string());
    }
    // Checkpoints are read by id, which needs no refresh.
    if let Some(interval) = settings.refresh_interval.as_ref().filter(|_| !is_state) {
        desired.insert("refresh_interval", interval.clone());
    }
    desired
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use fleetdex_core::model::IndexPrefix;
    use http::{Request, Response, StatusCode};
    use parking_lot::Mutex;
    use tower::{service_fn, util::BoxCloneSyncService};

    use super::*;
    use crate::opensearch::{
        EngineOptions, PlacementRules, engine::MAX_TARGET_BYTES,
        indices::policy_exclusion::EXCLUSIONS,
    };

    /// An engine on a server that knows only these settings of ISM, and the bodies of its requests.
    fn engine(known: &'static [&'static str]) -> (Engine, Arc<Mutex<Vec<Value>>>) {
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let record = Arc::clone(&requests);
        let service = BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            let names: Vec<String> = body["index"].as_object().unwrap().keys().cloned().collect();
            record.lock().push(body);
            let unknown = names
                .iter()
                .find(|name| name.contains(ISM) && !known.contains(&name.as_str()));
            let mut answer = Response::new(Bytes::from_static(b"{}"));
            if let Some(unknown) = unknown {
                let reason = format!(
                    "unknown setting [index.{unknown}] please check that any required plugins are installed"
                );
                let error = json!({ "error": { "type": "settings_exception", "reason": reason }, "status": 400 });
                answer = Response::new(Bytes::from(error.to_string()));
                *answer.status_mut() = StatusCode::BAD_REQUEST;
            }
            async { Ok(answer) }
        }));
        let options = EngineOptions {
            prefix: IndexPrefix::default(),
            settings: IndexSettings::default(),
            fields: Vec::new(),
            projection: String::new(),
            placement: PlacementRules::default(),
            owner: String::new(),
            address: String::new(),
        };
        (Engine::new(service, options), requests)
    }

    #[tokio::test]
    async fn a_server_gets_the_settings_of_ism_that_it_knows_and_only_once_others() {
        for (position, known) in EXCLUSIONS.into_iter().enumerate() {
            let (engine, requests) = engine(known);
            let body = json!({ "index": { "number_of_replicas": 2 } });
            for _ in 0..2 {
                engine
                    .send_excluding("a test", "/a/_settings".to_owned(), &body, "/index")
                    .await
                    .unwrap();
            }
            let requests = requests.lock();
            assert_eq!(requests.len(), position + 2, "{requests:?}");
            let mut expected = body.clone();
            for name in known {
                expected["index"][name] = json!(false);
            }
            assert_eq!(requests.last(), Some(&expected));
        }
    }

    #[test]
    fn stored_settings_are_nested() {
        let stored = IndexWithSettings {
            settings: json!({ "index": {
                "number_of_replicas": "2",
                "plugins": { "index_state_management": { "auto_manage": "false" } },
            } }),
        };
        assert!(stored.has("number_of_replicas", "2"));
        assert!(!stored.has("number_of_replicas", "1"));
        assert!(stored.has(EXCLUSIONS[1][0], "false"));
        assert!(!stored.has("refresh_interval", "1s"));
    }

    #[test]
    fn existing_indices_get_only_what_the_registry_names() {
        let unnamed = IndexSettings::default();
        assert!(desired(&unnamed, false).is_empty());
        let named = IndexSettings {
            replicas: Some(2),
            refresh_interval: Some("5s".to_owned()),
            ..unnamed
        };
        let names = |is_state| -> Vec<&str> { desired(&named, is_state).into_keys().collect() };
        assert_eq!(names(false), ["number_of_replicas", "refresh_interval"]);
        assert_eq!(names(true), ["number_of_replicas"]);
    }

    #[test]
    fn names_of_many_indices_are_sent_in_several_requests() {
        let index = |number: usize| {
            let cluster = format!("cluster-{number}").parse().unwrap();
            IndexPrefix::default().revision(&cluster, 1)
        };
        let indices: Vec<IndexName> = (0..1000).map(index).collect();
        let targets = targets(indices.iter().map(IndexName::as_str));
        assert!(targets.len() > 1);
        assert!(
            targets
                .iter()
                .all(|target| target.len() <= MAX_TARGET_BYTES)
        );
        let joined = targets.join(",");
        assert_eq!(joined.split(',').count(), indices.len());
    }
}
