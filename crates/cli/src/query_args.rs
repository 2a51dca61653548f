//! The arguments that say what to look for, as kubectl words them.

use fleetdex_core::{
    kinds::{self, UnknownKind},
    model::{ClusterName, Gvk, InvalidName, Namespace},
    query::{Query, ResourceName, Selectable, dsl},
    selector::{FieldSelector, LabelSelector, SelectorError},
};

use super::completion;

/// What to look for.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct QueryArgs {
    /// Resource: pods, po, deployments.apps, or plural.version.group for one that is not built in
    #[arg(value_name = "RESOURCE", add = completion::resources())]
    pub resource: String,

    /// Only objects of these names
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// Only objects in this namespace
    #[arg(short, long, value_name = "NS", env = "FLEETDEX_NAMESPACE", add = completion::namespaces())]
    pub namespace: Option<String>,

    /// Objects of all namespaces; wins over --namespace
    #[arg(short = 'A', long, env = "FLEETDEX_ALL_NAMESPACES")]
    pub all_namespaces: bool,

    /// Label selector, such as 'app in (web,api),tier!=db,!canary'
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true,
        env = "FLEETDEX_SELECTOR"
    )]
    pub selector: String,

    /// Field selector, such as 'status.phase=Running' or 'spec.nodeName in (n1,n2)'
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true,
        env = "FLEETDEX_FIELD_SELECTOR"
    )]
    pub field_selector: String,

    /// Only objects of these clusters (repeatable, or separated by commas)
    #[arg(long = "cluster", value_name = "CLUSTER", value_delimiter = ',', env = "FLEETDEX_CLUSTER", add = completion::clusters())]
    pub clusters: Vec<String>,

    /// At most this many objects
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = limit, env = "FLEETDEX_LIMIT")]
    pub limit: usize,
}

/// Arguments that make no query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// Without a cluster to ask, only built-in resources have short names.
    #[error(
        "{0}; name a resource that is not built in fully, as plural.version.group, such as widgets.v1.example.com"
    )]
    UnknownResource(UnknownKind),
    /// The value of `-l`.
    #[error("label selector {text:?}: {source}")]
    LabelSelector {
        /// The selector.
        text: String,
        /// What is wrong with it.
        source: SelectorError,
    },
    /// The value of `--field-selector`.
    #[error("field selector {text:?}: {source}")]
    FieldSelector {
        /// The selector.
        text: String,
        /// What is wrong with it.
        source: SelectorError,
    },
    /// An empty name.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl QueryArgs {
    /// The query, with nothing but Kubernetes' built-in kinds known. Of any other kind, every field path counts as selectable.
    pub fn offline_query(&self) -> Result<Query, ArgsError> {
        let (resource, selectable) = known_resource(&self.resource)?;
        Ok(Query {
            clusters: self.cluster_names()?,
            namespaces: self.namespace()?.into_iter().collect(),
            names: self.names.clone(),
            labels: self.label_selector()?,
            fields: self.parsed_field_selector()?,
            ..Query::all_of(resource, selectable, self.limit)
        })
    }

    /// The namespace to look in; nothing for all.
    pub fn namespace(&self) -> Result<Option<Namespace>, ArgsError> {
        match &self.namespace {
            Some(name) if !self.all_namespaces => Ok(Some(name.parse()?)),
            _ => Ok(None),
        }
    }

    fn cluster_names(&self) -> Result<Vec<ClusterName>, ArgsError> {
        self.clusters.iter().map(|name| Ok(name.parse()?)).collect()
    }

    fn label_selector(&self) -> Result<LabelSelector, ArgsError> {
        self.selector
            .parse()
            .map_err(|source| ArgsError::LabelSelector {
                text: self.selector.clone(),
                source,
            })
    }

    fn parsed_field_selector(&self) -> Result<FieldSelector, ArgsError> {
        self.field_selector
            .parse()
            .map_err(|source| ArgsError::FieldSelector {
                text: self.field_selector.clone(),
                source,
            })
    }
}

fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=dsl::MAX_LIMIT).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from 1 to {}", dsl::MAX_LIMIT)),
    }
}

fn known_resource(name: &str) -> Result<(ResourceName, Selectable), ArgsError> {
    let unknown = match kinds::resolve(name) {
        Ok(built_in) => return Ok(built_in_resource(built_in)),
        Err(unknown) => unknown,
    };
    let Some((plural, version, group)) = full_name(name) else {
        return Err(ArgsError::UnknownResource(unknown));
    };
    // A version that is not served by default: the fields are those of the group's other versions.
    if let Some(built_in) = kinds::find_plural(group, plural) {
        return Ok(built_in_resource(built_in));
    }
    let selectable = Selectable::of(&Gvk::new(group, version, ""), &[]).and_any_path();
    Ok((ResourceName::new(group, plural), selectable))
}

fn built_in_resource(built_in: &kinds::BuiltIn) -> (ResourceName, Selectable) {
    (
        ResourceName::new(built_in.group, built_in.plural),
        Selectable::of(&built_in.gvk(), &[]),
    )
}

/// Plural, version and group of a full name.
fn full_name(name: &str) -> Option<(&str, &str, &str)> {
    let (plural, qualifier) = name.split_once('.')?;
    let (version, group) = qualifier.split_once('.')?;
    let is_version = version
        .strip_prefix('v')
        .is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()));
    let is_complete = is_version && !plural.is_empty() && !group.is_empty();
    is_complete.then_some((plural, version, group))
}
