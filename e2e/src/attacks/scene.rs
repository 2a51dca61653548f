//! Where the attacks happen: a real control plane, a real member with the objects of another user,
//! hostile members, and an operator with limited memory.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fleetdex_core::{
    kinds,
    model::{Gvk, Resource},
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    attack::{MemberNumber, Planted},
    control_group::ControlGroup,
    front::{Front, RequestUser, USUAL_ADDRESS},
    member::{HostileMember, HostileMembers},
    memory,
    names::{ATTACKED, ATTACKERS, KINDS, MERGED_MEMBERS, TENANT, TENANTS},
    tables,
    watchdog::{Watched, check_list},
};
use crate::{
    fleet::{Fleet, OpenSearchKind, Options},
    objects::Objects,
    operator::{API_PORT, Operator, OperatorOptions},
    poll::eventually,
    query_api::{GROUP, make_service},
    scenario::{DEADLINE, Registry, flags, prepare, until},
};

const NEIGHBOURS: &str = "neighbours";
const NEIGHBOUR: &str = "neighbour";
const NEIGHBOUR_OBJECTS: usize = 5;
const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";
/// How long a first list of an attack's objects is waited for. Objects may be refused.
const PLANTED: Duration = Duration::from_secs(20);

/// The running servers. The operator is stopped first.
#[derive(Debug)]
pub struct Scene {
    /// The operator.
    pub operator: Operator,
    /// How to reach it as any user.
    pub front: Front,
    /// What limits its memory.
    pub group: ControlGroup,
    /// Objects of the control plane.
    pub hub: Objects,
    limit: u64,
    members: HostileMembers,
    _fleet: Fleet,
}

impl Scene {
    /// Starts everything, with a limit of the operator's memory in bytes and so many kinds beside
    /// those of Kubernetes.
    pub async fn start(limit: u64, kinds: usize) -> Result<Self> {
        let fleet = Fleet::start(Options::of(1, OpenSearchKind::Plain)).await?;
        prepare(&fleet).await?;
        let hub = Objects::of(fleet.control_plane())?;
        make_service(&hub).await?;
        give_rights(&hub).await?;
        fill_member(&fleet, &hub).await?;

        let resources = resources(kinds)?;
        let mut names: Vec<String> = (1..=MERGED_MEMBERS)
            .map(|number| format!("hostile{number}"))
            .collect();
        names.push("redacted".to_owned());
        let members = HostileMembers::start(&names, &resources)?;
        for member in members.all() {
            for namespace in [ATTACKED, TENANT] {
                let object = json!({ "metadata": { "name": namespace } });
                member.server.apply("namespaces", object)?;
            }
            tables::define(&member.server)?;
            member.register(&hub).await?;
        }
        let selectors = selectors(&resources);
        let mut plain: Vec<&str> = names.iter().map(String::as_str).collect();
        let redacted = plain.pop().context("no member")?;
        plain.push("member1");
        Registry::in_fleet(&fleet, "attacked", &plain, &selectors)?
            .apply()
            .await?;
        let mut registry = Registry::in_fleet(&fleet, "redacting", &[redacted], &selectors)?;
        registry.spec["redact"] = json!(["..x"]);
        registry.apply().await?;

        let group = ControlGroup::create(limit);
        let operator = start_operator(&fleet)?;
        let pid = operator.process().pid().context("the operator exited")?;
        group.add(pid)?;
        operator.wait_ready(DEADLINE).await?;
        let (control_plane, address) = (fleet.control_plane(), operator.api_address());
        let front = until("the operator's certificate is stored", || {
            Front::new(control_plane, &address)
        })
        .await?;
        let scene = Self {
            operator,
            front,
            group,
            hub,
            limit,
            members,
            _fleet: fleet,
        };
        scene.until_right(DEADLINE).await?;
        Ok(scene)
    }

    /// What is asked during an attack.
    pub fn watched(&self, pid: u32) -> Watched {
        Watched {
            pid,
            health_url: format!("{}/healthz", self.operator.admin_url()),
            front: self.front.clone(),
            neighbour: neighbour(),
            list_path: neighbour_list(),
            list_length: NEIGHBOUR_OBJECTS,
            kill_above: (!self.group.is_enforced()).then_some(self.limit),
        }
    }

    /// The operator's process, which is started again if an attack has ended it.
    pub async fn running(&self) -> Result<u32> {
        if self.operator.process().pid().is_none() {
            self.operator.restart()?;
            let pid = self.operator.process().pid().context("no process")?;
            self.group.add(pid)?;
            self.operator.wait_ready(DEADLINE).await?;
            self.until_right(DEADLINE).await?;
        }
        let pid = self.operator.process().pid().context("no process")?;
        memory::reset_peak(pid);
        Ok(pid)
    }

    /// Waits until the operator is ready and the other user's list is right.
    pub async fn until_right(&self, deadline: Duration) -> Result<()> {
        let client = self.front.client(USUAL_ADDRESS)?;
        let (user, path) = (neighbour(), neighbour_list());
        eventually("the operator answers right", deadline, || async {
            self.operator.readiness().await?;
            check_list(&client, &user, &path, NEIGHBOUR_OBJECTS).await
        })
        .await
    }

    /// Puts the objects of an attack into the hostile members.
    pub fn plant(&self, planted: &[Planted]) -> Result<()> {
        for object in planted {
            for member in self.members_of(object.member) {
                object.plant(member)?;
            }
        }
        Ok(())
    }

    /// Changes those that change.
    pub fn change(&self, planted: &[Planted], round: u64) -> Result<()> {
        for object in planted.iter().filter(|object| object.changes) {
            for member in self.members_of(object.member) {
                object.change(member, round)?;
            }
        }
        Ok(())
    }

    /// Removes them.
    pub fn remove(&self, planted: &[Planted]) -> Result<()> {
        for object in planted {
            for member in self.members_of(object.member) {
                object.remove(member)?;
            }
        }
        Ok(())
    }

    /// Waits until a request of an attacker is answered 200, which may never be.
    pub async fn until_found(&self, path: &str) -> Result<()> {
        let client = self.front.client(USUAL_ADDRESS)?;
        let user = RequestUser {
            name: "scout".to_owned(),
            group: ATTACKERS,
        };
        eventually("the objects of the attack are found", PLANTED, || async {
            let response = client.request(Method::GET, path, &user).send().await?;
            let status = response.status();
            let text = response.text().await?;
            ensure!(
                status.is_success() && !text.contains("\"items\":[]"),
                "{status}: {}",
                text.chars().take(300).collect::<String>()
            );
            Ok(())
        })
        .await
    }

    fn members_of(&self, number: MemberNumber) -> &[HostileMember] {
        let all = self.members.all();
        match number {
            MemberNumber::First => &all[..1],
            MemberNumber::Merged => &all[..MERGED_MEMBERS],
            MemberNumber::Redacted => &all[MERGED_MEMBERS..],
        }
    }
}

fn neighbour() -> RequestUser {
    RequestUser {
        name: NEIGHBOUR.to_owned(),
        group: NEIGHBOURS,
    }
}

fn neighbour_list() -> String {
    format!("{GROUP}/search/api/v1/namespaces/{NEIGHBOUR}/configmaps?limit=10")
}

fn start_operator(fleet: &Fleet) -> Result<Operator> {
    let mut arguments = flags();
    arguments.push("--api-service=search/fleetdex".to_owned());
    arguments.push(format!("--api-service-port={API_PORT}"));
    Operator::start(OperatorOptions {
        arguments,
        ..OperatorOptions::of(fleet)
    })
}

/// The kinds of the hostile members.
fn resources(kinds: usize) -> Result<Vec<Resource>> {
    let built_in = [
        ("", "configmaps"),
        ("", "namespaces"),
        ("", "pods"),
        ("", "secrets"),
        ("", "services"),
        ("apps", "deployments"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
    ];
    let mut resources = Vec::new();
    for (group, plural) in built_in {
        let found = kinds::find_plural(group, plural);
        resources.push(found.with_context(|| plural.to_owned())?.resource());
    }
    let custom = |group: &str, kind: &str, plural: &str| Resource {
        gvk: Gvk::new(group, "v1", kind),
        plural: plural.into(),
        namespaced: true,
    };
    resources.extend([
        custom("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
        custom("monitoring.coreos.com", "PodMonitor", "podmonitors"),
        custom(KINDS, tables::KIND, tables::PLURAL),
    ]);
    let numbered =
        (0..kinds).map(|number| custom(KINDS, &format!("Kind{number}"), &kind_plural(number)));
    resources.extend(numbered);
    Ok(resources)
}

/// The plural of one of the kinds that an attack has many of.
pub fn kind_plural(number: usize) -> String {
    format!("kind{number}s")
}

fn selectors(resources: &[Resource]) -> Value {
    let selected = resources
        .iter()
        .filter(|resource| &*resource.gvk.kind != "CustomResourceDefinition");
    selected
        .map(|resource| json!({ "apiVersion": resource.gvk.api_version(), "kind": &*resource.gvk.kind }))
        .collect()
}

/// All may query. Attackers may read everything, tenants one namespace, and the neighbour the
/// config maps of another one.
async fn give_rights(hub: &Objects) -> Result<()> {
    let everything = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] });
    let queries =
        json!({ "apiGroups": ["search.fleetdex.io"], "resources": ["*"], "verbs": ["*"] });
    let config_maps = json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"] });
    bind(hub, "", "attack-everything", &everything, &[ATTACKERS]).await?;
    let all = [TENANTS, NEIGHBOURS, "system:serviceaccounts"];
    bind(hub, "", "attack-queries", &queries, &all).await?;
    for namespace in [TENANT, NEIGHBOUR] {
        hub.create_namespace(namespace).await?;
    }
    bind(hub, TENANT, "attack-tenant", &everything, &[TENANTS]).await?;
    bind(
        hub,
        NEIGHBOUR,
        "attack-neighbour",
        &config_maps,
        &[NEIGHBOURS],
    )
    .await
}

/// Binds a role with one rule to groups, in a namespace or, if it is empty, in all.
async fn bind(
    server: &Objects,
    namespace: &str,
    name: &str,
    rule: &Value,
    groups: &[&str],
) -> Result<()> {
    let (kind, folder) = if namespace.is_empty() {
        ("ClusterRole", RBAC.to_owned())
    } else {
        ("Role", format!("{RBAC}/namespaces/{namespace}"))
    };
    let plural = kind.to_lowercase();
    let api_version = "rbac.authorization.k8s.io/v1";
    let role = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name }, "rules": [rule] });
    let subjects: Vec<Value> = groups
        .iter()
        .map(|group| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }))
        .collect();
    let binding = json!({
        "apiVersion": api_version, "kind": format!("{kind}Binding"), "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name }, "subjects": subjects,
    });
    server
        .apply(&format!("{folder}/{plural}s/{name}"), &role)
        .await?;
    server
        .apply(&format!("{folder}/{plural}bindings/{name}"), &binding)
        .await
        .map(drop)
}

/// The objects of the neighbour in the real member, in which attackers may write what they want.
async fn fill_member(fleet: &Fleet, hub: &Objects) -> Result<()> {
    let member = Objects::of(fleet.member(1))?;
    for namespace in [NEIGHBOUR, ATTACKED] {
        member.create_namespace(namespace).await?;
    }
    for number in 0..NEIGHBOUR_OBJECTS {
        let data = json!({ "a": "b" });
        member
            .apply_config_map(NEIGHBOUR, &format!("map-{number}"), &data)
            .await?;
    }
    member
        .apply_config_map(ATTACKED, "patched", &json!({ "a": "b" }))
        .await?;
    let everything = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] });
    bind(&member, "", "attack-everything", &everything, &[ATTACKERS]).await?;
    let path = "apis/cluster.karmada.io/v1alpha1/clusters/member1";
    let cluster = hub.get(path).await?;
    let impersonates = json!({ "spec": { "impersonatorSecretRef": cluster["spec"]["secretRef"] } });
    hub.merge(path, &impersonates).await.map(drop)
}
