//! The control plane, the members and the operators of one run.

use std::{collections::BTreeMap, time::Duration};

use fakes::apiserver::{Server, Status};
use fleetdex_core::{model::ClusterName, planted::without_bugs};
use fleetdex_distribution::template_name::TemplateName;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::Value;

use super::{
    clock,
    expected::Expected,
    guard::Guard,
    objects::{self, POLICY_NAMES},
    operator::{Operator, Surroundings},
    servers::{self, DEPLOYMENTS, DISTRIBUTED, MAPS, MEMBERS, NAMESPACES, OVERRIDES, USER, origin},
    set_contents::object_sets,
    set_users::{SOURCE_MAP, SetUsers},
};

/// Templates at the start.
const TEMPLATES: std::ops::Range<usize> = 10..30;
/// The same where there are sets.
const FEWER_TEMPLATES: std::ops::Range<usize> = 2..8;

/// The state of one run.
pub struct World {
    /// The random number generator of the run.
    pub random: StdRng,
    /// The control plane.
    pub control_plane: Server,
    /// The members.
    pub members: BTreeMap<ClusterName, Server>,
    /// Judges what operators write.
    pub guard: Guard,
    /// Whether watches of this run may freeze.
    pub freezes: bool,
    /// How often each operation took place.
    pub operations: BTreeMap<&'static str, u64>,
    /// What users know of sets; `None`: there are none.
    pub(super) sets: Option<SetUsers>,
    pub(super) surroundings: Surroundings,
    pub(super) operators: Vec<Operator>,
    pub(super) writes: u64,
    next_operator: u32,
}

impl World {
    /// Creates servers with some templates and policies, and a running operator.
    /// `has_sets`: whether users have sets besides.
    pub fn new(seed: u64, has_sets: bool) -> anyhow::Result<Self> {
        clock::start();
        let mut random = StdRng::seed_from_u64(seed.rotate_left(17));
        fastrand::seed(seed);
        let control_plane = servers::control_plane(&mut random, has_sets).map_err(refused)?;
        let mut members = BTreeMap::new();
        for name in MEMBERS {
            let member = servers::member(&mut random, has_sets).map_err(refused)?;
            members.insert(name.parse()?, member);
        }
        let freezes = random.random_ratio(1, 4);
        let stale = Duration::from_secs(if freezes { 330 } else { 45 });
        let guard = Guard::new(&control_plane, &members, stale);
        let surroundings = Surroundings {
            control_plane: control_plane.clone(),
            members: members.clone(),
            has_replicas: random.random_ratio(1, 3),
        };
        let mut world = Self {
            random,
            control_plane,
            members,
            guard,
            freezes,
            operations: BTreeMap::new(),
            sets: has_sets.then(SetUsers::default),
            surroundings,
            operators: Vec::new(),
            writes: 0,
            next_operator: 0,
        };
        world.populate()?;
        world.evaluate()?;
        world.start_operator();
        Ok(world)
    }

    fn populate(&mut self) -> anyhow::Result<()> {
        for (number, (resource, _, _)) in POLICY_NAMES.iter().enumerate() {
            if self.random.random_ratio(3, 4) {
                let policy = objects::policy(&mut self.random, number);
                self.apply(resource, policy)?;
            }
        }
        if self.random.random_ratio(1, 2) {
            let policy = objects::override_policy(&mut self.random);
            self.apply(OVERRIDES, policy)?;
        }
        if self.sets.is_some() {
            for _ in 0..self.random.random_range(FEWER_TEMPLATES) {
                self.write_template()?;
            }
            return self.populate_sets();
        }
        for _ in 0..self.random.random_range(TEMPLATES) {
            self.write_template()?;
        }
        Ok(())
    }

    /// Creates or replaces an object of the control plane.
    pub fn apply(&self, resource: &str, object: Value) -> anyhow::Result<()> {
        let applied = self.control_plane.apply_as(resource, object, USER);
        applied.map(drop).map_err(refused)
    }

    /// Creates or replaces a random template.
    pub fn write_template(&mut self) -> anyhow::Result<()> {
        self.writes += 1;
        if self.random.random_ratio(1, 4) {
            let object = objects::deployment(&mut self.random, self.writes);
            self.apply(DEPLOYMENTS, object)
        } else {
            let object = objects::config_map(&mut self.random, self.writes);
            self.apply(MAPS, object)
        }
    }

    /// Tells the guard what the plan is now.
    pub fn evaluate(&self) -> anyhow::Result<Expected> {
        let sets = self.sets.as_ref();
        let sets = sets.map(|_| without_bugs(|| object_sets(&self.control_plane, &self.guard)));
        let expected = Expected::of(&self.control_plane, &self.members, sets.transpose()?)?;
        self.guard.set_expected(&expected);
        Ok(expected)
    }

    /// A random member.
    pub fn some_member(&mut self) -> (&'static str, Server) {
        let name = MEMBERS[self.random.random_range(0..MEMBERS.len())];
        let found = self
            .members
            .iter()
            .find(|(known, _)| known.as_str() == name);
        // Every name has a server.
        let server = found.map_or_else(|| self.control_plane.clone(), |(_, server)| server.clone());
        (name, server)
    }

    /// The templates of the control plane, without namespaces: resource and name.
    pub fn templates(&self) -> anyhow::Result<Vec<(&'static str, TemplateName)>> {
        let mut found = Vec::new();
        for (resource, _, kind) in DISTRIBUTED {
            if kind == "Namespace" {
                continue;
            }
            let objects = expected_objects(&self.control_plane, resource)?;
            let names = objects.iter().map(TemplateName::of);
            let names = names.filter(|name| name.name != SOURCE_MAP);
            found.extend(names.map(|name| (resource, name)));
        }
        Ok(found)
    }

    /// The copies of a member, without namespaces: resource and object.
    pub fn copies(
        &self,
        member: &str,
        server: &Server,
    ) -> anyhow::Result<Vec<(&'static str, Value)>> {
        let origin = origin(&self.control_plane.identity(), member);
        let mut found = Vec::new();
        for (resource, _, _) in DISTRIBUTED {
            if resource == NAMESPACES {
                continue;
            }
            let objects = expected_objects(server, resource)?.into_iter();
            let copies = objects.filter(|object| origin.has_written(object));
            found.extend(copies.map(|object| (resource, object)));
        }
        Ok(found)
    }

    /// Starts one more operator.
    pub fn start_operator(&mut self) {
        let operator = Operator::start(&self.surroundings, self.next_operator);
        self.next_operator += 1;
        self.operators.push(operator);
    }

    /// Fails if a write was wrong, or if an operator ended by itself.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.operators.iter().any(Operator::has_ended),
            "an operator ended without being stopped"
        );
        self.guard.check()
    }

    /// Ends all operators at once, and starts as many as there shall be.
    pub async fn restart_operators(&mut self) {
        for operator in std::mem::take(&mut self.operators) {
            let agent = operator.agent.clone();
            operator.kill().await;
            self.guard.operator_ended(&agent);
        }
        self.start_operator();
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.control_plane.heal();
        for server in self.members.values() {
            server.heal();
        }
        if self.operators.is_empty() {
            self.start_operator();
        }
    }

    pub(super) fn note(&mut self, operation: &'static str) {
        tracing::info!(operation);
        *self.operations.entry(operation).or_default() += 1;
    }
}

/// A refusal of a fake server as an error.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub fn refused(status: Status) -> anyhow::Error {
    anyhow::anyhow!("{status:?}")
}

fn expected_objects(server: &Server, resource: &str) -> anyhow::Result<Vec<Value>> {
    super::expected::objects(server, resource)
}
