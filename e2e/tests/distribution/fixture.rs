//! A control plane with members, and an operator that distributes.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    http,
    objects::Objects,
    operator::{CommandResult, Operator},
    scenario::{prepare, repository_file, start_operator, until},
};
use serde_json::{Value, json};

/// The definitions that distribution needs.
const CRDS: [&str; 8] = [
    "apps.karmada.io_workloadrebalancers.yaml",
    "distribute.fleetdex.io_distributions.yaml",
    "policy.karmada.io_clusteroverridepolicies.yaml",
    "policy.karmada.io_clusterpropagationpolicies.yaml",
    "policy.karmada.io_overridepolicies.yaml",
    "policy.karmada.io_propagationpolicies.yaml",
    "work.karmada.io_clusterresourcebindings.yaml",
    "work.karmada.io_resourcebindings.yaml",
];

/// A control plane with members, and an operator that distributes.
pub struct Distributing {
    /// The servers.
    pub fleet: Fleet,
    /// The operator.
    pub operator: Operator,
    /// The control plane.
    pub hub: Objects,
    /// The members.
    pub members: Vec<Objects>,
}

impl Distributing {
    /// With so many members, and flags besides `--distribute`.
    pub async fn start(members: usize, more_flags: &[&str]) -> Result<Self> {
        let fleet = Fleet::start(Options {
            members,
            opensearch: OpenSearchKind::None,
            own_etcds: true,
            ..Options::default()
        })
        .await?;
        prepare(&fleet).await?;
        let hub = Objects::of(fleet.control_plane())?;
        install_definitions(&fleet, &hub).await?;
        let mut flags = vec!["--distribute", "--member-qps=500", "--member-burst=500"];
        flags.extend(more_flags);
        let operator = start_operator(&fleet, &flags).await?;
        let members = (1..=members).map(|number| Objects::of(fleet.member(number)));
        Ok(Self {
            operator,
            hub,
            members: members.collect::<Result<_>>()?,
            fleet,
        })
    }

    /// Applies an object to the control plane, at its path.
    pub async fn apply(&self, object: &Value) -> Result<Value> {
        self.hub.apply(&path_of(object)?, object).await
    }

    /// A `PropagationPolicy` of the namespace `default` for one object.
    pub async fn propagate(&self, name: &str, object: &Value, placement: &Value) -> Result<Value> {
        let spec = json!({"resourceSelectors": [selector(object)], "placement": placement});
        self.apply(&policy(name, &spec)).await
    }

    /// Waits until a member has an object of which something holds, and returns it.
    pub async fn until_member(
        &self,
        member: usize,
        path: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let objects = &self.members[member - 1];
        let what = format!("member{member}: {path}: {what}");
        until(&what, || async {
            let object = objects.get(path).await?;
            ensure!(holds(&object), "{object}");
            Ok(object)
        })
        .await
        .with_context(|| self.log())
    }

    /// Waits until a member does not have an object.
    pub async fn until_gone(&self, member: usize, path: &str) -> Result<()> {
        let objects = &self.members[member - 1];
        let what = format!("member{member} has no {path}");
        until(&what, || async {
            let found = objects.find(path).await?;
            ensure!(found.is_none(), "{found:?}");
            Ok(())
        })
        .await
        .with_context(|| self.log())
    }

    /// Waits until something holds of an object of the control plane, and returns it.
    pub async fn until_hub(
        &self,
        path: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        until(&format!("{path}: {what}"), || async {
            let object = self.hub.get(path).await?;
            ensure!(holds(&object), "{object}");
            Ok(object)
        })
        .await
        .with_context(|| self.log())
    }

    /// Waits until a condition of a binding has a status, and returns its message.
    pub async fn until_condition(&self, binding: &str, kind: &str, status: &str) -> Result<String> {
        let object = self
            .until_hub(binding, &format!("{kind} is {status}"), |binding| {
                condition(binding, kind)["status"] == status
            })
            .await?;
        let message = condition(&object, kind)["message"].as_str();
        Ok(message.unwrap_or_default().to_owned())
    }

    /// What `fleetdex distribute status` prints about an object of the namespace `default`.
    pub async fn status(&self, object: &str) -> Result<CommandResult> {
        let kubeconfig = self.fleet.control_plane().kubeconfig();
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let words = ["distribute", "status", object, "--namespace=default"];
        let words: Vec<&str> = words.into_iter().chain([&*kubeconfig]).collect();
        self.operator.run_command(&words).await
    }

    /// The view of what is distributed from the namespace `default`.
    pub async fn page(&self) -> Result<String> {
        self.view("/distribution?namespace=default").await
    }

    /// A view of the page.
    pub async fn view(&self, path: &str) -> Result<String> {
        let address = self.operator.api_address();
        let url = format!("http://{address}/ui{path}");
        let request = http::client(None)?.get(&url);
        let response = request.bearer_auth(self.operator.token()?).send().await?;
        Ok(response.error_for_status()?.text().await?)
    }

    /// The end of the operator's log.
    pub fn log(&self) -> String {
        self.operator.process().log_tail(40)
    }
}

/// Installs the definitions that distribution needs.
async fn install_definitions(fleet: &Fleet, hub: &Objects) -> Result<()> {
    let kubectl = fleet.control_plane().kubectl()?;
    for file in CRDS {
        let path = Path::new("crds").join(file);
        let path = path.to_str().context("a path")?;
        kubectl.apply_server_side(&repository_file(path)?).await?;
    }
    until("the definitions are served", || async {
        hub.get("apis/policy.karmada.io/v1alpha1/clusteroverridepolicies")
            .await?;
        hub.get("apis/apps.karmada.io/v1alpha1/workloadrebalancers")
            .await?;
        hub.get("apis/distribute.fleetdex.io/v1alpha1/distributions")
            .await?;
        hub.get("apis/work.karmada.io/v1alpha2/resourcebindings")
            .await
    })
    .await
    .map(drop)
}

/// The selector of an object by its name.
pub fn selector(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"],
    })
}

/// A `PropagationPolicy` of the namespace `default`.
pub fn policy(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

/// A `Deployment` of nginx in the namespace `default`.
pub fn nginx(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "nginx", "image": "nginx",
                    // The server stores it as "1".
                    "resources": {"requests": {"cpu": "1000m"}},
                }]},
            },
        },
    })
}

/// A `ConfigMap` of the namespace `default`.
pub fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"value": value},
    })
}

/// Weights of two members.
pub fn weights(one: u32, two: u32) -> Value {
    let weight = |name: &str, weight: u32| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    json!({
        "clusterAffinity": {"clusterNames": ["member1", "member2"]},
        "replicaScheduling": {
            "replicaDivisionPreference": "Weighted", "replicaSchedulingType": "Divided",
            "weightPreference": {"staticWeightList": [weight("member1", one), weight("member2", two)]},
        },
    })
}

/// All clusters of these names.
pub fn clusters(names: &[&str]) -> Value {
    json!({"clusterAffinity": {"clusterNames": names}})
}

/// The path of an object's binding; that of a custom resource has its group besides.
pub fn binding_path(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map(|(group, _)| group);
    let is_custom = |group: &&str| group.contains("example") || group.contains("fluxcd");
    let group = group.filter(is_custom);
    let suffix = group.map(|group| format!(".{group}")).unwrap_or_default();
    format!(
        "apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/{name}-{kind}{suffix}"
    )
}

/// A condition of an object.
pub fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}

/// The path of an object.
pub fn path_of(object: &Value) -> Result<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let root = if api_version.contains('/') {
        "apis"
    } else {
        "api"
    };
    let kind = text(&object["kind"]).to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    let name = text(&object["metadata"]["name"]);
    ensure!(!name.is_empty(), "{object} has no name");
    let namespace = text(&object["metadata"]["namespace"]);
    if namespace.is_empty() {
        return Ok(format!("{root}/{api_version}/{plural}/{name}"));
    }
    Ok(format!(
        "{root}/{api_version}/namespaces/{namespace}/{plural}/{name}"
    ))
}
