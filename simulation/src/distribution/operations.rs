//! What users, controllers and accidents do.

use std::time::Duration;

use fakes::apiserver::{Editor, Extent, Fault, Server};
use fleetdex_distribution::{
    marks::WRITTEN_ANNOTATION, template_name::TemplateName, templates::CONTROL_PLANE_LABEL,
};
use rand::{RngExt, seq::IndexedRandom};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    objects::{self, POLICY_NAMES},
    servers::{DEPLOYMENTS, DISTRIBUTED, MAPS, NAMESPACE, NAMESPACES, OVERRIDES, USER, origin},
    world::{World, refused},
};

/// Longer than an operator takes for a write after a look at an object.
const LOOKED_AT: Duration = Duration::from_secs(1);
/// What fields of copies are set to by hand.
pub const EDITED: &str = "edited";
/// What others set fields of their objects to.
pub const FOREIGN: &str = "foreign";
/// Whoever changes objects of members by hand.
const HAND: Editor<'static> = Editor {
    manager: "kubectl-edit",
    subresource: None,
};
/// The autoscaler of a member.
const AUTOSCALER: Editor<'static> = Editor {
    manager: "kube-controller-manager",
    subresource: Some("scale"),
};
/// `kubectl scale`.
const SCALE: Editor<'static> = Editor {
    manager: "kubectl",
    subresource: Some("scale"),
};

/// All operations, for counting.
pub const OPERATIONS: [&str; 27] = [
    "template written",
    "template field removed",
    "template deleted",
    "template relabelled",
    "template scaled",
    "policy replaced",
    "policy deleted",
    "override replaced",
    "override deleted",
    "copy edited",
    "copy deleted",
    "copy unlabelled",
    "copy replaced by another object",
    "copy scaled by an autoscaler",
    "copy scaled by hand",
    "namespace deleted in a member",
    "object created in a member",
    "object of another control plane",
    "object deleted in a member",
    "operator killed",
    "operator stopped",
    "second operator",
    "member fault",
    "control plane fault",
    "many objects deleted",
    "many objects moved",
    "held deletion let go",
];

impl World {
    /// One random operation.
    pub async fn operate(&mut self) -> anyhow::Result<()> {
        match self.random.random_range(0..40) {
            0..=8 => self.template_written(),
            9..=11 => self.template_deleted(),
            12 | 13 => self.template_relabelled(),
            14 if self.random.random_ratio(1, 2) => self.template_scaled(),
            14 => self.template_field_removed(),
            15..=17 => self.policy_replaced(),
            18 => self.policy_deleted(),
            19 => self.override_changed(),
            20..=29 => self.change_member().await,
            30..=32 => self.disturb_operators().await,
            33..=36 => {
                let (_, server) = self.some_member();
                self.note("member fault");
                self.disturb(&server);
                Ok(())
            }
            _ => {
                let server = self.control_plane.clone();
                self.note("control plane fault");
                self.disturb(&server);
                Ok(())
            }
        }
    }

    fn template_written(&mut self) -> anyhow::Result<()> {
        self.note("template written");
        self.write_template()
    }

    fn some_template(&mut self) -> anyhow::Result<Option<(&'static str, TemplateName)>> {
        let templates = self.templates()?;
        Ok(templates.choose(&mut self.random).cloned())
    }

    fn template_deleted(&mut self) -> anyhow::Result<()> {
        let Some((resource, name)) = self.some_template()? else {
            return Ok(());
        };
        self.note("template deleted");
        let namespace = Some(name.namespace.as_str());
        let deleted = self.control_plane.delete(resource, namespace, &name.name);
        deleted.map(drop).map_err(refused)
    }

    fn edit_template(
        &self,
        resource: &str,
        name: &TemplateName,
        change: impl FnOnce(&mut Value),
    ) -> anyhow::Result<()> {
        let namespace = Some(name.namespace.as_str());
        let edited = self
            .control_plane
            .edit(resource, namespace, &name.name, USER, change);
        edited.map(drop).map_err(refused)
    }

    fn template_relabelled(&mut self) -> anyhow::Result<()> {
        let Some((resource, name)) = self.some_template()? else {
            return Ok(());
        };
        self.note("template relabelled");
        let tier = objects::tier(&mut self.random);
        self.edit_template(resource, &name, |object| {
            object["metadata"]["labels"]["tier"] = tier.into();
        })
    }

    fn template_scaled(&mut self) -> anyhow::Result<()> {
        let Some((resource, name)) = self.some_template()? else {
            return Ok(());
        };
        if resource != DEPLOYMENTS {
            return Ok(());
        }
        self.note("template scaled");
        let replicas = self.random.random_range(1..12);
        self.edit_template(resource, &name, |object| {
            object["spec"]["replicas"] = replicas.into();
        })
    }

    fn policy_replaced(&mut self) -> anyhow::Result<()> {
        self.note("policy replaced");
        let number = self.random.random_range(0..POLICY_NAMES.len());
        let policy = objects::policy(&mut self.random, number);
        self.apply(POLICY_NAMES[number].0, policy)
    }

    fn policy_deleted(&mut self) -> anyhow::Result<()> {
        self.note("policy deleted");
        let number = self.random.random_range(0..POLICY_NAMES.len());
        let (resource, namespace, name) = POLICY_NAMES[number];
        let deleted = self.control_plane.delete(resource, namespace, name);
        deleted.map(drop).map_err(refused)
    }

    fn override_changed(&mut self) -> anyhow::Result<()> {
        if self.random.random_ratio(1, 3) {
            self.note("override deleted");
            let deleted = self
                .control_plane
                .delete(OVERRIDES, Some(NAMESPACE), "differences");
            return deleted.map(drop).map_err(refused);
        }
        self.note("override replaced");
        let policy = objects::override_policy(&mut self.random);
        self.apply(OVERRIDES, policy)
    }

    async fn change_member(&mut self) -> anyhow::Result<()> {
        let (member, server) = self.some_member();
        let choice = self.random.random_range(0..20);
        if choice >= 17 {
            return self.object_created(member, &server);
        }
        if choice == 16 {
            return self.namespace_deleted(member, &server);
        }
        if choice == 15 {
            return self.object_deleted(member, &server);
        }
        let copies = self.copies(member, &server)?;
        let Some((resource, copy)) = copies.choose(&mut self.random).cloned() else {
            return Ok(());
        };
        let name = TemplateName::of(&copy);
        match choice {
            0..=4 => self.copy_edited(&server, resource, &name),
            5..=7 => {
                self.note("copy deleted");
                self.delete_in(member, &server, resource, &name)
            }
            8 => {
                self.note("copy unlabelled");
                let (member_of, mark) = if self.random.random_ratio(1, 2) {
                    ("labels", CONTROL_PLANE_LABEL)
                } else {
                    ("annotations", WRITTEN_ANNOTATION)
                };
                self.edit_copy(&server, resource, &name, HAND, |object| {
                    if let Some(marks) = object["metadata"][member_of].as_object_mut() {
                        marks.shift_remove(mark);
                    }
                })?;
                self.guard.add_foreign(member, &name, true);
                Ok(())
            }
            9 | 10 => self.copy_replaced(member, &server, resource, &name).await,
            _ => self.copy_scaled(member, &server, &copies).await,
        }
    }

    fn edit_copy(
        &self,
        server: &Server,
        resource: &str,
        name: &TemplateName,
        editor: Editor<'_>,
        change: impl FnOnce(&mut Value),
    ) -> anyhow::Result<()> {
        let namespace = Some(name.namespace.as_str());
        let edited = server.edit(resource, namespace, &name.name, editor, change);
        edited.map(drop).map_err(refused)
    }

    fn copy_edited(
        &mut self,
        server: &Server,
        resource: &'static str,
        name: &TemplateName,
    ) -> anyhow::Result<()> {
        self.note("copy edited");
        let choice = self.random.random_range(0..5);
        let number = self.random.random_range(0..9);
        self.edit_copy(server, resource, name, HAND, |object| match choice {
            0 => object["metadata"]["labels"]["hand"] = number.to_string().into(),
            1 => object["metadata"]["labels"]["tier"] = EDITED.into(),
            2 => object["metadata"]["annotations"]["hand"] = number.to_string().into(),
            3 if resource == DEPLOYMENTS => {
                object["spec"]["template"]["spec"]["containers"][0]["image"] = EDITED.into();
            }
            3 => object["data"] = json!({ "hand": number.to_string() }),
            _ if resource == DEPLOYMENTS => {
                let sidecar = json!({ "name": "hand", "image": number.to_string() });
                let containers = &mut object["spec"]["template"]["spec"]["containers"];
                if let Some(containers) = containers.as_array_mut() {
                    containers.retain(|container| container["name"] != "hand");
                    containers.push(sidecar);
                }
            }
            _ => object["data"]["a"] = EDITED.into(),
        })
    }

    fn delete_in(
        &mut self,
        member: &str,
        server: &Server,
        resource: &str,
        name: &TemplateName,
    ) -> anyhow::Result<()> {
        let namespace = Some(name.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        server
            .delete(resource, namespace, &name.name)
            .map_err(refused)?;
        self.guard.deleted_by_hand(member, name);
        Ok(())
    }

    /// Somebody deletes a copy and creates another object of its name, of which Fleetdex is told
    /// late, when it may have reasons to change or to delete it.
    async fn copy_replaced(
        &mut self,
        member: &str,
        server: &Server,
        resource: &'static str,
        name: &TemplateName,
    ) -> anyhow::Result<()> {
        self.note("copy replaced by another object");
        if self.random.random_ratio(1, 2) {
            server.inject(Fault::Lag(Duration::from_secs(5)), Extent::Times(2));
        }
        self.delete_in(member, server, resource, name)?;
        self.create_foreign(member, server, resource, name, None)?;
        sleep(LOOKED_AT).await;
        match self.random.random_range(0..4) {
            0 => {
                let namespace = Some(name.namespace.as_str());
                let deleted = self.control_plane.delete(resource, namespace, &name.name);
                deleted.map(drop).map_err(refused)
            }
            1 | 2 => {
                let note = self.random.random_range(0..1_000).to_string();
                self.edit_template(resource, name, |object| {
                    object["metadata"]["annotations"] = json!({ "note": note });
                })
            }
            _ => Ok(()),
        }
    }

    fn create_foreign(
        &mut self,
        member: &str,
        server: &Server,
        resource: &str,
        name: &TemplateName,
        control_plane: Option<&str>,
    ) -> anyhow::Result<()> {
        let mut metadata = json!({ "namespace": name.namespace, "name": name.name });
        if let Some(control_plane) = control_plane {
            metadata["labels"] = json!({ CONTROL_PLANE_LABEL: control_plane });
        }
        let object = if resource == DEPLOYMENTS {
            json!({ "metadata": metadata, "spec": { "replicas": 3 } })
        } else {
            json!({ "metadata": metadata, "data": { "a": FOREIGN } })
        };
        server.apply_as(resource, object, USER).map_err(refused)?;
        self.guard.add_foreign(member, name, false);
        Ok(())
    }

    fn object_created(&mut self, member: &str, server: &Server) -> anyhow::Result<()> {
        let is_of_another = self.random.random_ratio(1, 3);
        let (resource, object) = if self.random.random_ratio(1, 4) {
            let object = objects::deployment(&mut self.random, 0);
            (DEPLOYMENTS, object)
        } else {
            (DISTRIBUTED[0].0, objects::config_map(&mut self.random, 0))
        };
        let kind = DISTRIBUTED.iter().find(|kind| kind.0 == resource);
        let (_, api_version, kind) = kind.copied().unwrap_or_default();
        let name = TemplateName {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            ..TemplateName::of(&object)
        };
        let namespace = name.namespace.as_str();
        let is_there = server.object(resource, Some(namespace), &name.name);
        let has_namespace = server.object(NAMESPACES, None, namespace);
        if is_there.map_err(refused)?.is_some() || has_namespace.map_err(refused)?.is_none() {
            return Ok(());
        }
        let another = "11111111-2222-4333-8444-555555555555";
        if is_of_another {
            self.note("object of another control plane");
            self.create_foreign(member, server, resource, &name, Some(another))
        } else {
            self.note("object created in a member");
            self.create_foreign(member, server, resource, &name, None)
        }
    }

    /// Deletes an object that is not Fleetdex's.
    fn object_deleted(&mut self, member: &str, server: &Server) -> anyhow::Result<()> {
        let origin = origin(&self.control_plane.identity(), member);
        let mut foreign = Vec::new();
        for (resource, _, _) in DISTRIBUTED {
            if resource != NAMESPACES {
                let objects = super::expected::objects(server, resource)?.into_iter();
                foreign.extend(
                    objects
                        .filter(|one| !origin.has_written(one))
                        .map(|one| (resource, TemplateName::of(&one))),
                );
            }
        }
        let Some((resource, name)) = foreign.choose(&mut self.random).cloned() else {
            return Ok(());
        };
        self.note("object deleted in a member");
        self.delete_in(member, server, resource, &name)
    }

    fn namespace_deleted(&mut self, member: &str, server: &Server) -> anyhow::Result<()> {
        self.note("namespace deleted in a member");
        for (resource, _, _) in DISTRIBUTED {
            if resource == NAMESPACES {
                continue;
            }
            for object in super::expected::objects(server, resource)? {
                let name = TemplateName::of(&object);
                if name.namespace == NAMESPACE {
                    self.delete_in(member, server, resource, &name)?;
                }
            }
        }
        let namespace = TemplateName {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            namespace: String::new(),
            name: NAMESPACE.to_owned(),
        };
        self.delete_in(member, server, NAMESPACES, &namespace)
    }

    async fn copy_scaled(
        &mut self,
        member: &str,
        server: &Server,
        copies: &[(&'static str, Value)],
    ) -> anyhow::Result<()> {
        let workloads = copies
            .iter()
            .filter(|(resource, _)| *resource == DEPLOYMENTS);
        let workloads: Vec<TemplateName> =
            workloads.map(|(_, copy)| TemplateName::of(copy)).collect();
        let Some(name) = workloads.choose(&mut self.random).cloned() else {
            return Ok(());
        };
        let replicas = self.random.random_range(0..20);
        let set = |object: &mut Value| object["spec"]["replicas"] = replicas.into();
        if self.random.random_ratio(1, 3) {
            self.note("copy scaled by hand");
            return self.edit_copy(server, DEPLOYMENTS, &name, SCALE, set);
        }
        self.note("copy scaled by an autoscaler");
        self.edit_copy(server, DEPLOYMENTS, &name, AUTOSCALER, set)?;
        self.guard.scaled(member, &name);
        // It scales again soon.
        sleep(LOOKED_AT).await;
        self.edit_copy(server, DEPLOYMENTS, &name, AUTOSCALER, |object| {
            object["spec"]["replicas"] = (replicas + 1).into();
        })?;
        self.guard.scaled(member, &name);
        Ok(())
    }

    /// A template loses a field, and nothing else changes.
    fn template_field_removed(&mut self) -> anyhow::Result<()> {
        let Some((resource, name)) = self.some_template()? else {
            return Ok(());
        };
        self.note("template field removed");
        let key = ["a", "b", "c"][self.random.random_range(0..3)];
        self.edit_template(resource, &name, |object| {
            if let Some(data) = object["data"].as_object_mut() {
                data.shift_remove(key);
            }
            if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
                labels.shift_remove("more");
            }
        })
    }

    async fn disturb_operators(&mut self) -> anyhow::Result<()> {
        let is_second = self.surroundings.has_replicas
            && self.operators.len() < 2
            && self.random.random_ratio(1, 2);
        if is_second {
            self.note("second operator");
            self.start_operator();
            return Ok(());
        }
        if self.operators.is_empty() {
            self.start_operator();
            return Ok(());
        }
        let at = self.random.random_range(0..self.operators.len());
        let operator = self.operators.remove(at);
        let agent = operator.agent.clone();
        if self.random.random_ratio(2, 3) {
            self.note("operator killed");
            operator.kill().await;
        } else {
            self.note("operator stopped");
            operator.stop().await?;
        }
        self.guard.operator_ended(&agent);
        if self.random.random_ratio(1, 3) {
            // The next one does not know all templates at first.
            let unknown = [MAPS, DEPLOYMENTS][self.random.random_range(0..2)];
            let seconds = self.random.random_range(3..30);
            let extent = Extent::For(Duration::from_secs(seconds));
            self.control_plane
                .inject(Fault::Forbidden(unknown.into()), extent);
        }
        if self.operators.is_empty() && self.random.random_ratio(4, 5) {
            self.start_operator();
        }
        Ok(())
    }

    fn disturb(&mut self, server: &Server) {
        let seconds = |world: &mut Self| Duration::from_secs(world.random.random_range(1..30));
        let fault = match self.random.random_range(0..19) {
            0 => Fault::Refuse,
            1 => Fault::Hang,
            2 => Fault::Throttle(Some(1)),
            3 => Fault::InternalError,
            4 => Fault::Unavailable,
            5 => Fault::Timeout,
            6 => Fault::Forbidden("configmaps".into()),
            7 => Fault::CutList,
            8 => Fault::SlowList(seconds(self)),
            9 => Fault::ExpireWatch,
            10 => Fault::CutWatch,
            11 => Fault::CutLine,
            12 => Fault::FailWatch,
            13 | 14 => Fault::Lag(seconds(self)),
            15 if self.freezes => Fault::FreezeWatch,
            16 => {
                server.restart();
                return;
            }
            _ => Fault::LoseAnswer,
        };
        let extent = match self.random.random_range(0..3) {
            0 => Extent::For(seconds(self) * 2),
            1 => Extent::Times(self.random.random_range(1..6)),
            _ => Extent::After {
                skip: self.random.random_range(0..5),
                times: self.random.random_range(1..4),
            },
        };
        tracing::info!(?fault, ?extent, "injecting a fault");
        server.inject(fault, extent);
    }
}
