//! Reads the bindings that the arguments ask for.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::{Gvk, Namespace, Resource, Scope, is_dns_label};
use fleetdex_distribution::{
    binding::BINDING_API_VERSION,
    binding_name::binding_name,
    placement_report::PlacementReport,
    template_name::{NameParts, TemplateName},
};

use super::args::StatusArgs;
use crate::control_plane::{ControlPlaneError, ControlPlaneReader};

/// Bindings of a page. With a thousand clusters one has up to 100 kB.
const PAGE: u32 = 100;
/// Objects and clusters that are printed: at some 300 bytes each, 30 MB.
const MAX_ROWS: usize = 100_000;

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub(super) enum StatusError {
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
    #[error(
        "the control plane does not serve {kind} of {BINDING_API_VERSION}, so nothing is \
         distributed: install the definitions with `fleetdex crd apply --distribute`, and start \
         `fleetdex run --distribute`"
    )]
    NotServed { kind: &'static str },
    #[error(
        "the control plane has no resource type {0:?}: `kubectl api-resources` lists those that it \
         has"
    )]
    UnknownResource(String),
    #[error(
        "{word} has no binding {place}: no policy selects it, or `fleetdex run --distribute` does \
         not run; `fleetdex plan` says which policy selects it"
    )]
    NoBinding { word: String, place: String },
    #[error("{0:?} is no name of a namespace")]
    InvalidNamespace(String),
    #[error("{0:?}: either RESOURCE is TYPE/NAME, or the name follows it")]
    TwoNames(String),
    #[error(
        "more than {MAX_ROWS} objects and clusters are distributed: name a namespace with \
         --namespace, a kind, or an object"
    )]
    TooMany,
}

/// The bindings that were asked for.
pub(super) struct FoundBindings {
    /// Each with its clusters.
    pub(super) reports: Vec<PlacementReport>,
    /// Where they were looked for.
    pub(super) place: String,
    /// Whether one object was named.
    pub(super) is_of_one_object: bool,
}

/// Reads them, by object.
pub(super) async fn read(args: &StatusArgs) -> Result<FoundBindings, StatusError> {
    let (word, name) = named_object(args)?;
    let reader = ControlPlaneReader::connect(&args.control_plane).await?;
    let selected = SelectedBindings::new(args, word, name, &reader)?;
    let mut reports = Vec::new();
    let mut rows = 0;
    for (resource, scope) in selected.collections(&reader)? {
        let binding = selected.only_binding();
        let mut pages = reader.pages(resource, &scope, binding.as_deref(), PAGE);
        while let Some(objects) = pages.next().await? {
            let read = objects.iter().map(PlacementReport::of);
            for report in read.filter(|report| selected.matches(&report.object)) {
                rows += 1 + report.clusters.len();
                if rows > MAX_ROWS {
                    return Err(StatusError::TooMany);
                }
                reports.push(report);
            }
        }
    }
    if let (Some(name), true) = (name, reports.is_empty()) {
        return Err(StatusError::NoBinding {
            word: format!("{}/{name}", word.unwrap_or_default()),
            place: selected.place(),
        });
    }
    reports.sort_by(|one, other| place_of(one).cmp(&place_of(other)));
    Ok(FoundBindings {
        reports,
        place: selected.place(),
        is_of_one_object: name.is_some(),
    })
}

/// Objects are listed by namespace, kind and name.
fn place_of(report: &PlacementReport) -> (&str, &str, &str, &str) {
    let object = &report.object;
    (
        &object.namespace,
        &object.kind,
        &object.name,
        &object.api_version,
    )
}

/// The kind and the name of the arguments.
fn named_object(args: &StatusArgs) -> Result<(Option<&str>, Option<&str>), StatusError> {
    let (Some(resource), name) = (args.resource.as_deref(), args.name.as_deref()) else {
        return Ok((None, None));
    };
    match (resource.split_once('/'), name) {
        (None, name) => Ok((Some(resource), name)),
        (Some((word, name)), None) if !name.is_empty() => Ok((Some(word), Some(name))),
        (Some(_), _) => Err(StatusError::TwoNames(resource.to_owned())),
    }
}

/// Which objects are asked for.
struct SelectedBindings<'a> {
    /// Group and kind, with a version of the group and whether its objects have namespaces; `None`:
    /// all kinds.
    kinds: Option<BTreeMap<(String, String), (String, bool)>>,
    name: Option<&'a str>,
    /// `None`: all.
    namespace: Option<Namespace>,
}

impl<'a> SelectedBindings<'a> {
    fn new(
        args: &'a StatusArgs,
        word: Option<&str>,
        name: Option<&'a str>,
        reader: &ControlPlaneReader,
    ) -> Result<Self, StatusError> {
        let kinds = word.map(|word| {
            let named = reader.named(word).into_iter();
            let named = named.map(|resource| {
                let gvk = &resource.gvk;
                let key = (gvk.group.to_string(), gvk.kind.to_string());
                (key, (gvk.api_version(), resource.namespaced))
            });
            named.collect::<BTreeMap<_, _>>()
        });
        if let (Some(word), Some(kinds)) = (word, &kinds)
            && kinds.is_empty()
        {
            return Err(StatusError::UnknownResource(word.to_owned()));
        }
        let namespace = args.namespace.as_deref().unwrap_or(&reader.namespace);
        if !args.all_namespaces && !is_dns_label(namespace) {
            return Err(StatusError::InvalidNamespace(namespace.to_owned()));
        }
        let namespace = namespace.parse().ok().filter(|_| !args.all_namespaces);
        Ok(Self {
            kinds,
            name,
            namespace,
        })
    }

    /// The bindings that are listed: those of objects without a namespace only where these are
    /// asked for.
    fn collections<'r>(
        &self,
        reader: &'r ControlPlaneReader,
    ) -> Result<Vec<(&'r Resource, Scope)>, StatusError> {
        let scopes: BTreeSet<bool> = match &self.kinds {
            Some(kinds) => kinds.values().map(|(_, namespaced)| *namespaced).collect(),
            None if self.namespace.is_none() => [true, false].into(),
            None => [true].into(),
        };
        let mut collections = Vec::new();
        for namespaced in scopes {
            let (kind, scope) = match (namespaced, &self.namespace) {
                (false, _) => ("ClusterResourceBinding", Scope::All),
                (true, None) => ("ResourceBinding", Scope::All),
                (true, Some(namespace)) => ("ResourceBinding", Scope::Namespace(namespace.clone())),
            };
            let resource = reader.resource(&Gvk::from_api_version(BINDING_API_VERSION, kind));
            let resource = resource.ok_or(StatusError::NotServed { kind })?;
            collections.push((resource, scope));
        }
        Ok(collections)
    }

    /// The name of the only binding that can be the one of the named object.
    fn only_binding(&self) -> Option<String> {
        let (name, kinds) = (self.name?, self.kinds.as_ref()?);
        let names = kinds.iter().map(|((_, kind), (api_version, _))| {
            binding_name(&TemplateName::from(NameParts {
                api_version: api_version.clone(),
                kind: kind.clone(),
                name: name.to_owned(),
                ..NameParts::default()
            }))
        });
        let names: BTreeSet<String> = names.collect();
        names.first().filter(|_| names.len() == 1).cloned()
    }

    fn matches(&self, object: &TemplateName) -> bool {
        let gvk = Gvk::from_api_version(&object.api_version, &object.kind);
        let key = (gvk.group.to_string(), gvk.kind.to_string());
        let is_of_kind = |kinds: &BTreeMap<_, _>| kinds.contains_key(&key);
        self.kinds.as_ref().is_none_or(is_of_kind)
            && self.name.is_none_or(|name| object.name == name)
    }

    /// Such as `in namespace shop`.
    fn place(&self) -> String {
        let is_cluster_scoped =
            |kinds: &BTreeMap<_, (_, bool)>| kinds.values().all(|(_, namespaced)| !namespaced);
        match &self.namespace {
            _ if self.kinds.as_ref().is_some_and(is_cluster_scoped) => {
                "at the control plane".to_owned()
            }
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in any namespace".to_owned(),
        }
    }
}
