//! Which grants an account needs: each is taken away from a copy of its roles, and the API server
//! has to deny a request that the account has sent.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::ensure;
use e2e::{fleet::ApiServer, objects::Objects, scenario::until};
use serde_json::{Value, json};

use super::tool::NAMESPACE;

const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";
/// The groups of a service account of the release.
const GROUPS: [&str; 3] = [
    "system:authenticated",
    "system:serviceaccounts",
    "system:serviceaccounts:fleetdex-system",
];

/// What service accounts requested of the control plane.
pub struct Audit {
    events: Vec<Value>,
}

impl Audit {
    pub fn read(server: &ApiServer) -> Self {
        let text = fs::read_to_string(server.audit_log()).unwrap();
        let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
        Self {
            events: events.collect(),
        }
    }

    pub fn of_account(&self, account: &str) -> impl Iterator<Item = &Value> {
        let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
        let events = self.events.iter();
        events.filter(move |event| event["user"]["username"] == user.as_str())
    }

    /// What the account was allowed to request, each once.
    fn requests_of(&self, account: &str) -> Vec<Request> {
        let allowed = self.of_account(account).filter(|event| is_allowed(event));
        let attributes = allowed
            .filter(|event| event["objectRef"].is_object())
            .map(|event| (Request::of(event).0.to_string(), Request::of(event)));
        let distinct: BTreeMap<String, Request> = attributes.collect();
        assert!(!distinct.is_empty(), "{account} has requested nothing");
        distinct.into_values().collect()
    }
}

pub fn is_allowed(event: &Value) -> bool {
    event["annotations"]["authorization.k8s.io/decision"] == "allow"
}

/// The `resourceAttributes` of a recorded request.
struct Request(Value);

impl Request {
    fn of(event: &Value) -> Self {
        let object = &event["objectRef"];
        Self(json!({
            "verb": event["verb"],
            "group": object["apiGroup"].as_str().unwrap_or_default(),
            "version": object["apiVersion"],
            "resource": object["resource"],
            "subresource": object["subresource"].as_str().unwrap_or_default(),
            "namespace": object["namespace"].as_str().unwrap_or_default(),
            "name": object["name"].as_str().unwrap_or_default(),
        }))
    }
}

/// A role that is bound to the account, by a binding of the chart.
struct BoundRole {
    /// The role and the binding, as they are in the manifests. The role is absent if Kubernetes has
    /// it.
    role: Option<Value>,
    binding: Value,
    /// The names of its copies begin with it.
    copy: String,
}

impl BoundRole {
    fn all_of(manifests: &str, account: &str) -> Vec<Self> {
        let objects: Vec<Value> = manifests
            .split("\n---\n")
            .map(|manifest| serde_saphyr::from_str(manifest).unwrap())
            .collect();
        let subject = json!({ "kind": "ServiceAccount", "name": account, "namespace": NAMESPACE });
        let bindings = objects.iter().filter(|object| {
            let subjects = object["subjects"].as_array();
            subjects.is_some_and(|subjects| subjects.contains(&subject))
        });
        let bound = bindings.enumerate().map(|(number, binding)| {
            let role = objects.iter().find(|object| {
                object["kind"] == binding["roleRef"]["kind"]
                    && object["metadata"]["name"] == binding["roleRef"]["name"]
                    && (object["kind"] == "ClusterRole"
                        || object["metadata"]["namespace"] == binding["metadata"]["namespace"])
            });
            Self {
                role: role.cloned(),
                binding: binding.clone(),
                copy: format!("copy-{account}-{number}"),
            }
        });
        bound.collect()
    }

    fn grants(&self) -> Vec<Grant> {
        let rules = self.role.iter().flat_map(|role| {
            let rules = role["rules"].as_array().unwrap();
            rules.iter().flat_map(Grant::of_rule)
        });
        rules.collect()
    }

    fn text_of(&self, grant: &Grant) -> String {
        let name = self.binding["roleRef"]["name"].as_str().unwrap();
        format!("{name}: {}", grant.text())
    }

    /// The namespace in which the binding grants the role; none for all of them.
    fn namespace(&self) -> Option<&str> {
        self.binding["metadata"]["namespace"].as_str()
    }

    /// Binds the role, or a copy of these rules, to a user or a group.
    async fn bind(&self, hub: &Objects, rules: Option<&[&Grant]>, subject: (&str, &str)) {
        let (kind, name) = subject;
        let mut role = self.binding["roleRef"].clone();
        if let Some(rules) = rules {
            let rules: Vec<Value> = rules.iter().map(|grant| grant.rule()).collect();
            role["name"] = json!(name);
            let object = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": role["kind"],
                "metadata": { "name": name }, "rules": rules,
            });
            hub.apply(&self.path(&object, name), &object).await.unwrap();
        }
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": self.binding["kind"],
            "metadata": { "name": name }, "roleRef": role,
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name }],
        });
        let path = self.path(&binding, name);
        hub.apply(&path, &binding).await.unwrap();
    }

    fn path(&self, object: &Value, name: &str) -> String {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        match self.namespace() {
            Some(namespace) if !kind.starts_with("cluster") => {
                format!("{RBAC}/namespaces/{namespace}/{kind}s/{name}")
            }
            _ => format!("{RBAC}/{kind}s/{name}"),
        }
    }
}

/// The roles of an account, and what it has requested.
pub struct Needs<'a> {
    hub: &'a Objects,
    roles: Vec<BoundRole>,
    requests: Vec<Request>,
}

impl<'a> Needs<'a> {
    /// Of the roles that these manifests bind to the account.
    pub fn of(hub: &'a Objects, manifests: &str, account: &str, audit: &Audit) -> Self {
        Self {
            hub,
            roles: BoundRole::all_of(manifests, account),
            requests: audit.requests_of(account),
        }
    }

    /// A request to the operator itself, which it has reviewed by the control plane: no audit log
    /// has it.
    pub fn also(&mut self, attributes: Value) {
        self.requests.push(Request(attributes));
    }

    /// The grants that could be taken away, as `role: verb resource.group name`; `proven` gets the
    /// others.
    pub async fn unused(&self, proven: &mut BTreeSet<String>) -> BTreeSet<String> {
        for role in &self.roles {
            let grants = role.grants();
            let all: Vec<&Grant> = grants.iter().collect();
            let rules = role.role.is_some().then_some(&*all);
            role.bind(self.hub, rules, ("Group", &role.copy)).await;
        }
        let mut unused = BTreeSet::new();
        for role in &self.roles {
            let grants = role.grants();
            for (number, grant) in grants.iter().enumerate() {
                let user = format!("{}-without-{number}", role.copy);
                let others: Vec<&Grant> = grants
                    .iter()
                    .filter(|other| !std::ptr::eq(*other, grant))
                    .collect();
                role.bind(self.hub, Some(&others), ("User", &user)).await;
                self.until_in_force(role, &others, &user).await;
                let set = if self.is_needed(role, grant, &user).await {
                    &mut *proven
                } else {
                    &mut unused
                };
                set.insert(role.text_of(grant));
            }
        }
        unused
    }

    /// Waits until the authorizer knows the copy: otherwise everything would be denied.
    async fn until_in_force(&self, role: &BoundRole, others: &[&Grant], user: &str) {
        let Some(other) = others.first() else {
            return;
        };
        let request = other.request(role.namespace());
        until("the copy of a role is in force", || async {
            let allowed = self.allows(user, &[], &request).await?;
            ensure!(allowed, "{user}: {}", request.0);
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Whether some request is denied to a user who has everything but this grant.
    async fn is_needed(&self, role: &BoundRole, grant: &Grant, user: &str) -> bool {
        let groups_of = |roles: &mut dyn Iterator<Item = &BoundRole>| -> Vec<String> {
            let copies = roles.map(|role| role.copy.clone());
            copies.chain(GROUPS.map(str::to_owned)).collect()
        };
        let all = groups_of(&mut self.roles.iter());
        let others = groups_of(&mut self.roles.iter().filter(|other| other.copy != role.copy));
        for request in &self.requests {
            if !grant.allows(role.namespace(), request) {
                continue;
            }
            until("the copies allow what the roles do", || async {
                let allowed = self.allows("any-user", &all, request).await?;
                ensure!(allowed, "{}", request.0);
                Ok(())
            })
            .await
            .unwrap();
            if !self.allows(user, &others, request).await.unwrap() {
                return true;
            }
        }
        false
    }

    async fn allows(
        &self,
        user: &str,
        groups: &[String],
        request: &Request,
    ) -> anyhow::Result<bool> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": { "user": user, "groups": groups, "resourceAttributes": request.0 },
        });
        let path = "apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.hub.create(path, &review).await?;
        let status = &answer["status"];
        ensure!(status["evaluationError"].is_null(), "{status}");
        Ok(status["allowed"] == true)
    }
}

/// One verb on one resource.
struct Grant {
    group: String,
    resource: String,
    name: Option<String>,
    verb: String,
}

impl Grant {
    fn of_rule(rule: &Value) -> Vec<Self> {
        assert!(rule["nonResourceURLs"].is_null(), "not proven: {rule}");
        let texts = |field: &str| -> Vec<String> {
            serde_json::from_value(rule[field].clone()).unwrap_or_default()
        };
        let names = texts("resourceNames");
        let names: Vec<Option<String>> = if names.is_empty() {
            vec![None]
        } else {
            names.into_iter().map(Some).collect()
        };
        let mut grants = Vec::new();
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                for verb in texts("verbs") {
                    grants.extend(names.iter().map(|name| Self {
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                        verb: verb.clone(),
                    }));
                }
            }
        }
        grants
    }

    fn rule(&self) -> Value {
        let mut rule = json!({ "apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb] });
        if let Some(name) = &self.name {
            rule["resourceNames"] = json!([name]);
        }
        rule
    }

    /// A request that it allows.
    fn request(&self, namespace: Option<&str>) -> Request {
        let (resource, subresource) = self
            .resource
            .split_once('/')
            .unwrap_or((&self.resource, ""));
        Request(json!({
            "verb": self.verb, "group": self.group, "version": "*", "resource": resource, "subresource": subresource,
            "namespace": namespace.unwrap_or_default(), "name": self.name.as_deref().unwrap_or_default(),
        }))
    }

    fn text(&self) -> String {
        let Self {
            group,
            resource,
            name,
            verb,
        } = self;
        let name = name.as_deref().unwrap_or("*");
        format!("{verb} {resource}.{group} {name}")
    }

    /// Whether this grant, in a namespace or in all of them, allows a request.
    fn allows(&self, namespace: Option<&str>, Request(request): &Request) -> bool {
        let text = |field: &str| request[field].as_str().unwrap_or_default();
        let resource = match text("subresource") {
            "" => text("resource").to_owned(),
            subresource => format!("{}/{subresource}", text("resource")),
        };
        text("verb") == self.verb
            && text("group") == self.group
            && resource == self.resource
            && self.name.as_deref().is_none_or(|name| text("name") == name)
            && namespace.is_none_or(|namespace| text("namespace") == namespace)
    }
}
