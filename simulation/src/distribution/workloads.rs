//! The controllers of members: they write how the workloads of sets are.

use fakes::apiserver::Editor;
use fleetdex_distribution::template_name::TemplateName;
use serde_json::{Value, json};

use super::{
    expected::objects,
    servers::DEPLOYMENTS,
    set_sources::mark,
    world::{World, refused},
};

/// The controller of Deployments.
const CONTROLLER: Editor<'static> = Editor {
    manager: "kube-controller-manager",
    subresource: Some("status"),
};

impl World {
    /// Lets controllers write how the workloads of sets are.
    pub fn run_workloads(&mut self) -> anyhow::Result<()> {
        let Some(sets) = &self.sets else {
            return Ok(());
        };
        for (member, server) in &self.members {
            for object in objects(server, DEPLOYMENTS)? {
                let Some(mark) = mark(&object) else {
                    continue;
                };
                let name = TemplateName::of(&object);
                let is_healthy = !sets.is_ill(member.as_str(), &name, mark);
                let status = status(&object, is_healthy);
                if object["status"] != status {
                    let namespace = Some(name.namespace.as_str());
                    let edit = |object: &mut Value| object["status"] = status;
                    let edited = server.edit(DEPLOYMENTS, namespace, &name.name, CONTROLLER, edit);
                    edited.map_err(refused)?;
                }
                self.guard.workload_seen(member.as_str(), &name, is_healthy);
            }
        }
        Ok(())
    }
}

fn status(object: &Value, is_healthy: bool) -> Value {
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let available = if is_healthy { replicas } else { 0 };
    let mut status = json!({
        "observedGeneration": object["metadata"]["generation"],
        "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": available,
    });
    if replicas != available {
        status["unavailableReplicas"] = (replicas - available).into();
    }
    status
}
