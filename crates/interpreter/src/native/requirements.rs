//! What a pod of a template requires of a cluster.
//!
//! Source: `GenerateReplicaRequirements` and `Resource` of Karmada.

use std::collections::BTreeMap;

use fleetdex_core::{
    model::{JsonTree, TreeMembers},
    selector::{LabelRequirement, LabelTest},
};
use serde_json::{Map, Value};

use super::quantity::{Amount, Notation};
use crate::{
    InterpretError,
    request::{NodeClaim, ReplicaRequirements},
    value::{Tree, at, list, map},
};

/// How many bytes of a resource's name an error shows.
const MAX_SHOWN_NAME: usize = 128;

/// What a pod requires: nodes and resources; `None` if it requires nothing. `template` has the
/// pod's `spec`.
///
/// An error names a quantity that is none.
pub fn of_pod_template(template: Tree<'_>) -> Result<Option<ReplicaRequirements>, InterpretError> {
    let spec = at(template, &["spec"]);
    let requests = Requests::of_pod(spec);
    if let Some(fault) = requests.fault {
        return Err(InterpretError(fault));
    }
    let resource_request = written(&requests.totals);
    let node_claim = node_claim(spec);
    if node_claim.is_none() && resource_request.is_empty() {
        return Ok(None);
    }
    Ok(Some(ReplicaRequirements {
        node_claim,
        resource_request,
        ..ReplicaRequirements::default()
    }))
}

/// The CPU cores and the bytes of memory that a pod of a spec requests. A quantity that is none
/// counts as zero.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to nine trillion cores"
)]
pub fn requests_of_pod_spec(spec: Tree<'_>) -> (f64, i64) {
    let totals = Requests::of_pod(spec).totals;
    let total = |name| totals.get(name).copied().unwrap_or_default().max(0);
    (total("cpu") as f64 / 1000.0, total("memory"))
}

/// What a pod of a spec requests of each resource: CPU in thousandths, others in units. A quantity
/// that is none counts as zero.
pub fn resources_of_pod_spec(spec: Tree<'_>) -> BTreeMap<String, i64> {
    Requests::of_pod(spec).into_resources()
}

/// The same for a list of quantities by resource, such as the allocatable resources of a node.
pub fn resources_of(quantities: Tree<'_>) -> BTreeMap<String, i64> {
    let mut requests = Requests::default();
    for (name, quantity) in quantities
        .as_object()
        .into_iter()
        .flat_map(TreeMembers::iter)
    {
        requests.add(name, quantity, i64::saturating_add);
    }
    requests.into_resources()
}

/// The nodes that a pod of a spec may run on; `None`: any.
pub fn node_claim(spec: Tree<'_>) -> Option<NodeClaim> {
    let affinity = at(
        spec,
        &[
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ],
    );
    let claim = NodeClaim {
        hard_node_affinity: affinity.is_object().then(|| affinity.into()),
        node_selector: map(spec, &["nodeSelector"])
            .map(Into::into)
            .unwrap_or_default(),
        tolerations: list(spec, &["tolerations"])
            .iter()
            .map(Into::into)
            .collect(),
    };
    (claim != NodeClaim::default()).then_some(claim)
}

/// What a pod requests of each resource that counts, in the units of [`Measure`].
#[derive(Default)]
struct Requests<'t> {
    totals: BTreeMap<&'t str, i64>,
    /// The first request that is no quantity.
    fault: Option<String>,
}

impl<'t> Requests<'t> {
    /// Containers run together, after the init containers, of which each one runs alone. The
    /// overhead comes on top.
    fn of_pod(spec: Tree<'t>) -> Self {
        let mut requests = Self::default();
        for container in list(spec, &["containers"]) {
            requests.add_container(container, i64::saturating_add);
        }
        for container in list(spec, &["initContainers"]) {
            requests.add_container(container, i64::max);
        }
        for (name, quantity) in map(spec, &["overhead"])
            .into_iter()
            .flat_map(TreeMembers::iter)
        {
            requests.add(name, quantity, i64::saturating_add);
        }
        requests
    }

    fn into_resources(self) -> BTreeMap<String, i64> {
        let totals = self.totals.into_iter();
        totals
            .map(|(name, total)| (name.to_owned(), total))
            .collect()
    }

    /// A limit stands for a request that is missing.
    fn add_container(&mut self, container: Tree<'t>, combine: impl Fn(i64, i64) -> i64) {
        let requests = map(container, &["resources", "requests"]);
        let limits = map(container, &["resources", "limits"]);
        for (name, quantity) in requests.into_iter().flat_map(TreeMembers::iter) {
            self.add(name, quantity, &combine);
        }
        for (name, quantity) in limits.into_iter().flat_map(TreeMembers::iter) {
            if !requests.is_some_and(|requests| requests.contains_key(name)) {
                self.add(name, quantity, &combine);
            }
        }
    }

    fn add(&mut self, name: &'t str, quantity: Tree<'_>, combine: impl Fn(i64, i64) -> i64) {
        let Some(measure) = Measure::of(name) else {
            return;
        };
        // API servers take numbers for quantities, too.
        let parsed = match quantity {
            JsonTree::String(text) => Amount::parse(text),
            JsonTree::Number(number) => Amount::parse(&number.to_string()),
            _ => return,
        };
        match parsed {
            Ok(amount) => {
                let total = self.totals.entry(name).or_default();
                *total = combine(*total, measure.number(amount));
            }
            Err(fault) => {
                let shown = &name[..name.floor_char_boundary(MAX_SHOWN_NAME)];
                self.fault
                    .get_or_insert_with(|| format!("resource request {shown}: {fault}"));
            }
        }
    }
}

/// The totals as quantities; what is not requested is left out.
fn written(totals: &BTreeMap<&str, i64>) -> Map<String, Value> {
    totals
        .iter()
        .filter(|(_, total)| **total > 0)
        .filter_map(|(name, total)| {
            let quantity = Measure::of(name)?.amount(*total).to_string();
            Some(((*name).to_owned(), Value::String(quantity)))
        })
        .collect()
}

/// How a resource is counted and written.
#[derive(Clone, Copy)]
enum Measure {
    /// In thousandths.
    Thousandths,
    /// In units, in powers of 1024.
    Bytes,
    /// In units, in powers of 1000.
    Units,
}

impl Measure {
    /// The measure of a resource; `None` for a name that is no resource of nodes.
    fn of(name: &str) -> Option<Self> {
        match name {
            "cpu" => Some(Self::Thousandths),
            "memory" | "ephemeral-storage" => Some(Self::Bytes),
            "pods" => Some(Self::Units),
            _ if name.starts_with("hugepages-") => Some(Self::Bytes),
            _ if name.starts_with("attachable-volumes-") => Some(Self::Units),
            _ if name.contains("kubernetes.io/") => Some(Self::Units),
            _ => is_extended(name).then_some(Self::Units),
        }
    }

    fn number(self, amount: Amount) -> i64 {
        match self {
            Self::Thousandths => amount.thousandths(),
            Self::Bytes | Self::Units => amount.units(),
        }
    }

    fn amount(self, number: i64) -> Amount {
        match self {
            Self::Thousandths => Amount::of_thousandths(number),
            Self::Bytes => Amount::of_units(number, Notation::Binary),
            Self::Units => Amount::of_units(number, Notation::Decimal),
        }
    }
}

/// Whether a name is that of an extended resource, such as `nvidia.com/gpu`: a prefix and a name,
/// also of its quota. Source: `IsExtendedResourceName` of Kubernetes, `pkg/apis/core/v1/helper`.
fn is_extended(name: &str) -> bool {
    let is_qualified = |key: &str| LabelRequirement::new(key, LabelTest::Exists).is_ok();
    name.contains('/')
        && !name.starts_with("requests.")
        && is_qualified(&format!("requests.{name}"))
}
