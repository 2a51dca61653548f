//! The rules that a customization may have: where each script is, and what it is given and returns.

use fleetdex_core::model::split_api_version;
use fleetdex_interpreter::{
    Operation,
    customization::{self, KIND},
    value::text,
    webhook::API_VERSION,
};
use serde_json::Value;

/// One rule of a `ResourceInterpreterCustomization`.
#[derive(Clone, Copy, Debug)]
pub struct CustomizationRule {
    /// What its script answers.
    pub operation: Operation,
    /// What the script is for, with an example of its function.
    pub document: &'static str,
}

/// All rules, in the order in which Karmada's command line prints them.
pub const RULES: [CustomizationRule; 8] = [
    CustomizationRule {
        operation: Operation::Retain,
        document: "\
Copies the values that a member owns from the object there to the object that is about to be written.
function Retain(desiredObj, observedObj)
  desiredObj.spec.paused = observedObj.spec.paused
  return desiredObj
end",
    },
    CustomizationRule {
        operation: Operation::InterpretReplica,
        document: "\
Returns how many replicas the object declares, and what each of them requires.
local kube = require(\"kube\")
function GetReplicas(desiredObj)
  return desiredObj.spec.replicas, kube.accuratePodRequirements(desiredObj.spec.template)
end",
    },
    CustomizationRule {
        operation: Operation::InterpretComponent,
        document: "\
Returns the groups of pods of an object that has several, each with a name, replicas and requirements.
local kube = require(\"kube\")
function GetComponents(desiredObj)
  local worker = desiredObj.spec.worker
  return {
    {name = \"driver\", replicas = 1},
    {name = \"worker\", replicas = worker.replicas,
     replicaRequirements = kube.accuratePodRequirements(worker.template)},
  }
end",
    },
    CustomizationRule {
        operation: Operation::ReviseReplica,
        document: "\
Returns the object with another number of replicas.
function ReviseReplica(desiredObj, desiredReplica)
  desiredObj.spec.replicas = desiredReplica
  return desiredObj
end",
    },
    CustomizationRule {
        operation: Operation::InterpretStatus,
        document: "\
Returns the part of the status that is reported.
function ReflectStatus(observedObj)
  return {readyReplicas = observedObj.status.readyReplicas}
end",
    },
    CustomizationRule {
        operation: Operation::AggregateStatus,
        document: "\
Returns the object with the status of all members in one; each item has clusterName and status.
function AggregateStatus(desiredObj, statusItems)
  local ready = 0
  for i = 1, #statusItems do
    if statusItems[i].status ~= nil then
      ready = ready + (statusItems[i].status.readyReplicas or 0)
    end
  end
  desiredObj.status = {readyReplicas = ready}
  return desiredObj
end",
    },
    CustomizationRule {
        operation: Operation::InterpretHealth,
        document: "\
Returns whether the object is healthy: true or false.
function InterpretHealth(observedObj)
  return observedObj.status ~= nil and observedObj.status.phase == \"Running\"
end",
    },
    CustomizationRule {
        operation: Operation::InterpretDependency,
        document: "\
Returns the objects that the object needs.
local kube = require(\"kube\")
function GetDependencies(desiredObj)
  return kube.getPodDependencies(desiredObj.spec.template, desiredObj.metadata.namespace)
end",
    },
];

impl CustomizationRule {
    /// Its member of `spec.customizations`.
    pub fn member(&self) -> &'static str {
        customization::member(self.operation).unwrap_or_default()
    }

    /// The script of a customization; `None` if it has none.
    pub fn script<'v>(&self, customization: &'v Value) -> Option<&'v str> {
        customization["spec"]["customizations"][self.member()]["luaScript"]
            .as_str()
            .filter(|script| !script.is_empty())
    }
}

/// Says of a document that is not a customization what it is.
///
/// Source of the text: `pkg/karmadactl/interpret/interpret.go` of
/// <https://github.com/karmada-io/karmada>
pub fn check_type(document: &Value) -> Result<(), String> {
    let (api_version, kind) = (text(document, &["apiVersion"]), text(document, &["kind"]));
    if (api_version, kind) == (API_VERSION, KIND) {
        return Ok(());
    }
    let (group, version) = split_api_version(api_version);
    Err(format!("not a {KIND}, got {group}/{version}, Kind={kind}"))
}

/// The names of all operations in both dialects: first those of rules, in their order.
pub fn names() -> Vec<&'static str> {
    let of_rules = RULES.map(|rule| rule.operation);
    let others = Operation::ALL
        .into_iter()
        .filter(|other| !of_rules.contains(other));
    let all: Vec<Operation> = of_rules.into_iter().chain(others).collect();
    let names = all.iter().map(|operation| operation.name());
    let of_proposal = all.iter().filter_map(|operation| operation.proposal_name());
    names.chain(of_proposal).collect()
}
