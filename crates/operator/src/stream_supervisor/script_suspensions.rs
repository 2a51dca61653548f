//! Scripts that are not run for a while, because too many of their runs reach a limit.
//!
//! A suspension is a change of the rules of one stream: its objects are listed and written again
//! without the script, and again when the suspension ends. So a document always has what the rules
//! in use say of its object.

use std::{collections::BTreeMap, time::Duration};

use fleetdex_interpreter::{
    Operation,
    rules::{KindRules, SuspendedScript},
};
use fleetdex_telemetry::metrics::Metrics;
use tokio::time::Instant;

use crate::plan::{Plan, StreamKey};

/// How long a script is suspended first; each time again twice as long.
const MIN_PAUSE: Duration = Duration::from_mins(1);
/// The longest suspension. A script that has worked for this long since its last one starts with
/// the first again.
const MAX_PAUSE: Duration = Duration::from_hours(1);

/// The suspensions of all streams, with those that have ended a short time ago.
#[derive(Default)]
pub(super) struct ScriptSuspensions(BTreeMap<(StreamKey, Operation), ScriptSuspension>);

struct ScriptSuspension {
    /// The configured rules that have the script: others are not concerned.
    rules: String,
    script: SuspendedScript,
    pause: Duration,
    until: Instant,
}

impl ScriptSuspensions {
    /// Suspends the scripts of a running stream that have reached their limits too often.
    pub(super) fn suspend(
        &mut self,
        stream: &StreamKey,
        rules: &KindRules,
        metrics: &Metrics,
        now: Instant,
    ) {
        for (operation, script) in rules.exhausted_scripts() {
            let key = (stream.clone(), operation);
            let before = self
                .0
                .get(&key)
                .filter(|before| before.rules == rules.configured_hash());
            if before.is_some_and(|before| now < before.until) {
                continue;
            }
            let pause = before.map_or(MIN_PAUSE, |before| MAX_PAUSE.min(before.pause * 2));
            tracing::warn!(
                unit = %stream.unit, script = %script.by, %operation, limit = %script.limit, seconds = pause.as_secs(),
                "a script is suspended because too many of its runs fail; what it would say of objects is unknown meanwhile"
            );
            metrics.script_suspended(&stream.unit.cluster, &stream.unit.resource.gvk);
            let suspension = ScriptSuspension {
                rules: rules.configured_hash().to_owned(),
                script,
                pause,
                until: now + pause,
            };
            self.0.insert(key, suspension);
        }
    }

    /// Takes the suspended scripts out of a plan.
    pub(super) fn apply(&mut self, plan: &mut Plan, now: Instant) {
        self.0
            .retain(|_, suspension| now < suspension.until + MAX_PAUSE);
        let mut suspended: BTreeMap<&StreamKey, BTreeMap<Operation, SuspendedScript>> =
            BTreeMap::new();
        for ((stream, operation), suspension) in &self.0 {
            let rules = plan
                .streams
                .get(stream)
                .and_then(|plan| plan.rules.as_ref());
            let concerns_rules =
                rules.is_some_and(|rules| rules.configured_hash() == suspension.rules);
            if concerns_rules && now < suspension.until {
                suspended
                    .entry(stream)
                    .or_default()
                    .insert(*operation, suspension.script.clone());
            }
        }
        for (stream, scripts) in suspended {
            if let Some(rules) = plan.streams.get_mut(stream).map(|plan| &mut plan.rules) {
                *rules = rules.take().map(|rules| rules.suspending(scripts));
            }
        }
    }

    /// Whether a suspension that a plan has is over.
    pub(super) fn has_ended(&self, plan: &Plan, now: Instant) -> bool {
        self.0.iter().any(|((stream, operation), suspension)| {
            let rules = plan
                .streams
                .get(stream)
                .and_then(|plan| plan.rules.as_ref());
            suspension.until <= now
                && rules.is_some_and(|rules| rules.suspended_scripts().contains_key(operation))
        })
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{
        Gvk, Interpret as _, Interpretation, InterpretationLevel, Object, Resource, Scope,
        StoreName, Unit,
    };
    use fleetdex_interpreter::{
        customization::{Customization, CustomizationSet},
        rules::RuleSet,
        script::ArgoHealth,
    };
    use serde_json::json;

    use super::*;
    use crate::plan::StreamPlan;

    /// Runs without end for objects that say so.
    const SCRIPT: &str =
        "function InterpretHealth(o) while o.spec.endless do end return o.spec.good end";

    fn widgets() -> Resource {
        Resource {
            gvk: Gvk::new("example.com", "v1", "Widget"),
            plural: "widgets".into(),
            namespaced: true,
        }
    }

    fn rules(script: &str) -> KindRules {
        rules_of(&[("widgets", "healthInterpretation", script)])
    }

    /// The rules of customizations, each with a name, a member and its script.
    fn rules_of(customizations: &[(&str, &str, &str)]) -> KindRules {
        let parsed = customizations.iter().map(|(name, member, script)| {
            let object = json!({
                "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": {"name": name},
                "spec": {"target": {"apiVersion": "example.com/v1", "kind": "Widget"}, "customizations": {*member: {"luaScript": script}}}
            });
            Customization::parse(&object).unwrap()
        });
        let parsed: Vec<Customization> = parsed.collect();
        let set = RuleSet::new(
            CustomizationSet::new(&parsed),
            ArgoHealth::default(),
            Vec::new(),
        );
        set.of_kind(&widgets(), true, InterpretationLevel::All)
            .unwrap()
    }

    fn stream() -> StreamKey {
        StreamKey {
            unit: Unit {
                cluster: "member1".parse().unwrap(),
                resource: widgets(),
                scope: Scope::All,
            },
            store: "embedded".parse::<StoreName>().unwrap(),
        }
    }

    fn plan(rules: &KindRules) -> Plan {
        let stream_plan = StreamPlan {
            rules: Some(rules.clone()),
            ..StreamPlan::default()
        };
        Plan {
            streams: [(stream(), stream_plan)].into(),
            ..Plan::default()
        }
    }

    fn interpret(rules: &KindRules, spec: &str) -> Interpretation {
        let json = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"}},"spec":{spec}}}"#
        );
        let object = Object::parse(&json).unwrap();
        rules.interpret(&object.tree("example.org/v1", "Widget", rules.reads()))
    }

    fn exhaust(rules: &KindRules) {
        while rules.exhausted_scripts().is_empty() {
            interpret(rules, r#"{"endless":true}"#);
        }
    }

    fn of_plan(plan: &Plan) -> &KindRules {
        plan.streams[&stream()].rules.as_ref().unwrap()
    }

    #[test]
    fn a_script_is_left_out_of_the_plan_for_a_growing_time() {
        let (mut suspensions, metrics) = (ScriptSuspensions::default(), Metrics::new());
        let mut now = Instant::now();
        let running = rules(SCRIPT);
        exhaust(&running);
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            suspensions.suspend(&stream(), &running, &metrics, now);
            let mut planned = plan(&rules(SCRIPT));
            suspensions.apply(&mut planned, now);
            let suspended = of_plan(&planned).clone();
            assert_ne!(suspended, running);
            let found = interpret(&suspended, r#"{"good":true}"#);
            assert_eq!(
                (found.health, found.health_reason.as_str()),
                ("Unknown", "ScriptSuspended")
            );
            assert!(
                found.health_message.starts_with(
                    "customization/widgets is suspended for InterpretHealth: too many of its runs fail (script took more than "
                ),
                "{}",
                found.health_message
            );
            now += Duration::from_secs(minutes * 60 - 1);
            assert!(!suspensions.has_ended(&planned, now), "{minutes}");
            now += Duration::from_secs(1);
            assert!(suspensions.has_ended(&planned, now), "{minutes}");
            let mut next = plan(&rules(SCRIPT));
            suspensions.apply(&mut next, now);
            assert_eq!(of_plan(&next), &running);
            assert!(!suspensions.has_ended(&next, now));
        }
        now += MAX_PAUSE;
        suspensions.apply(&mut plan(&running), now);
        suspensions.suspend(&stream(), &running, &metrics, now);
        let mut planned = plan(&running);
        suspensions.apply(&mut planned, now);
        assert!(suspensions.has_ended(&planned, now + MIN_PAUSE));
        let counted = r#"fleetdex_script_suspensions_total{cluster="member1",kind="example.com/v1/Widget"} 9"#;
        let text = metrics.encode().unwrap();
        assert!(text.contains(counted), "{text}");
    }

    #[test]
    fn united_dependency_scripts_are_suspended_together_and_all_are_named() {
        let member = "dependencyInterpretation";
        let one = "function GetDependencies(o) return {{apiVersion = 'v1', kind = 'Secret', namespace = 'n', name = 's'}} end";
        let endless = "function GetDependencies(o) while o.spec.endless do end return {} end";
        let rules = rules_of(&[("good", member, one), ("endless", member, endless)]);
        let by = ["customization/endless", "customization/good"];
        let found = interpret(&rules, "{}");
        assert_eq!(found.dependencies, ["v1/Secret/n/s"]);
        assert_eq!(found.interpreted_by, by);
        exhaust(&rules);
        let exhausted = rules.exhausted_scripts();
        let script = &exhausted[&Operation::InterpretDependency];
        assert_eq!(script.by.to_string(), by.join(", "));
        let found = interpret(&rules.suspending(exhausted), "{}");
        assert_eq!(found.dependencies, [""; 0]);
        assert_eq!(found.interpreted_by, by);
    }

    #[test]
    fn a_changed_script_and_other_streams_are_not_concerned() {
        let (mut suspensions, metrics) = (ScriptSuspensions::default(), Metrics::new());
        let (running, now) = (rules(SCRIPT), Instant::now());
        exhaust(&running);
        suspensions.suspend(&stream(), &running, &metrics, now);
        let changed = rules("function InterpretHealth(o) return o.spec.good end");
        let mut planned = plan(&changed);
        suspensions.apply(&mut planned, now);
        assert_eq!(of_plan(&planned), &changed);
        let mut other = plan(&rules(SCRIPT));
        let of_stream = other.streams.remove(&stream()).unwrap();
        let mut elsewhere = stream();
        elsewhere.unit.cluster = "member2".parse().unwrap();
        other.streams.insert(elsewhere.clone(), of_stream);
        suspensions.apply(&mut other, now);
        assert_eq!(other.streams[&elsewhere].rules, Some(rules(SCRIPT)));
    }

    #[test]
    fn a_script_that_reaches_its_limits_now_and_then_is_not_suspended() {
        let rules = rules(SCRIPT);
        for _ in 0..15 {
            interpret(&rules, r#"{"endless":true}"#);
            for _ in 0..20 {
                assert_eq!(interpret(&rules, r#"{"good":true}"#).health, "Healthy");
            }
        }
        assert!(rules.exhausted_scripts().is_empty());
    }
}
