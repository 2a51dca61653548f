//! What users, controllers and accidents do.

use std::time::Duration;

use fakes::apiserver::{Extent, Fault, Server};
use fleetdex_distribution::template_name::TemplateName;
use rand::{RngExt, seq::IndexedRandom};
use serde_json::{Value, json};

use super::{
    objects::{self, POLICY_NAMES},
    servers::{CLUSTERS, DEPLOYMENTS, MAPS, NAMESPACE, OVERRIDES, USER},
    world::{World, refused},
};

/// All operations, for counting.
pub const OPERATIONS: [&str; 29] = [
    "template written",
    "template field removed",
    "template deleted",
    "template relabelled",
    "template scaled",
    "policy replaced",
    "policy deleted",
    "override replaced",
    "override deleted",
    "cluster tainted",
    "taint removed",
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
        if self.sets.is_some() && self.random.random_ratio(3, 5) {
            return self.operate_sets();
        }
        match self.random.random_range(0..42) {
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
            // Rollouts are judged by placements alone.
            37 | 38 if self.sets.is_some() => Ok(()),
            37 | 38 => self.taint_changed(),
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

    pub(super) fn edit_template(
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
        let mut templates = self.templates()?;
        templates.retain(|(resource, _)| *resource == DEPLOYMENTS);
        let Some((resource, name)) = templates.choose(&mut self.random) else {
            return Ok(());
        };
        self.note("template scaled");
        let replicas = self.random.random_range(1..12);
        self.edit_template(resource, name, |object| {
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

    /// A cluster gets a taint that drives objects out, or loses it.
    fn taint_changed(&mut self) -> anyhow::Result<()> {
        let (member, _) = self.some_member();
        let is_tainted = self.guard.is_tainted(member);
        self.note(if is_tainted {
            "taint removed"
        } else {
            "cluster tainted"
        });
        self.set_taint(member, !is_tainted)
    }

    pub(super) fn set_taint(&self, member: &str, is_tainted: bool) -> anyhow::Result<()> {
        let edited = self
            .control_plane
            .edit(CLUSTERS, None, member, USER, |object| {
                object["spec"]["taints"] = if is_tainted {
                    json!([{ "key": "down", "effect": "NoExecute" }])
                } else {
                    json!([])
                };
            });
        edited.map_err(refused)?;
        self.guard.set_tainted(member, is_tainted);
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
