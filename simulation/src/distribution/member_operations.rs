//! What people and controllers do to the objects of members.

use std::{collections::BTreeSet, time::Duration};

use fakes::apiserver::{Editor, Extent, Fault, Server};
use fleetdex_distribution::{
    marks::WRITTEN_ANNOTATION,
    template_name::{NameParts, TemplateName},
    templates::CONTROL_PLANE_LABEL,
};
use rand::{RngExt, seq::IndexedRandom};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    objects,
    servers::{DEPLOYMENTS, DISTRIBUTED, NAMESPACE, NAMESPACES, USER, origin},
    world::{World, refused},
};

/// Longer than an operator takes for a write after a look at an object.
const LOOKED_AT: Duration = Duration::from_secs(1);
/// What fields of copies are set to by hand.
pub const EDITED: &str = "edited";
/// What others set fields of their objects to.
pub const FOREIGN: &str = "foreign";
/// The user who changes objects of members by hand.
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

impl World {
    /// One random operation in a random member.
    pub(super) async fn change_member(&mut self) -> anyhow::Result<()> {
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
                Self::edit_copy(&server, resource, &name, HAND, |object| {
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
        Self::edit_copy(server, resource, name, HAND, |object| match choice {
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

    /// A user deletes a copy and creates another object of its name. Fleetdex sees that late, when
    /// it may have reasons to change or to delete it.
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
        let name = TemplateName::from(NameParts {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            ..NameParts::clone(&TemplateName::of(&object))
        });
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

    /// Deletes the objects of these names that are not Fleetdex's.
    pub(super) fn remove_foreign(&mut self, names: &BTreeSet<TemplateName>) -> anyhow::Result<()> {
        for (member, server) in self.members.clone() {
            let origin = origin(&self.control_plane.identity(), member.as_str());
            for (resource, _, _) in DISTRIBUTED {
                for object in super::expected::objects(&server, resource)? {
                    let name = TemplateName::of(&object);
                    if names.contains(&name) && !origin.has_written(&object) {
                        self.delete_in(member.as_str(), &server, resource, &name)?;
                    }
                }
            }
        }
        Ok(())
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
        let namespace = TemplateName::from(NameParts {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            namespace: String::new(),
            name: NAMESPACE.to_owned(),
        });
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
            return Self::edit_copy(server, DEPLOYMENTS, &name, SCALE, set);
        }
        self.note("copy scaled by an autoscaler");
        Self::edit_copy(server, DEPLOYMENTS, &name, AUTOSCALER, set)?;
        self.guard.scaled(member, &name);
        // It scales again soon.
        sleep(LOOKED_AT).await;
        Self::edit_copy(server, DEPLOYMENTS, &name, AUTOSCALER, |object| {
            object["spec"]["replicas"] = (replicas + 1).into();
        })?;
        self.guard.scaled(member, &name);
        Ok(())
    }
}
