//! The arguments that select objects, as in kubectl.

use fleetdex_core::{
    kinds::{self, UnknownKind},
    model::{ClusterName, Gvk, InvalidName, Namespace, interpreted_fields, is_interpreted_field},
    query::{MAX_LIMIT, Query, ResourceName, Selectable},
    selector::{FieldSelector, LabelSelector, SelectorError},
};
use fleetdex_interpreter::field_selector::{MalformedReference, normalized};

use super::completion;

/// Selects objects.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct QueryArgs {
    /// Resource: pods, po, deployments.apps, or plural.version.group for one that is not built in
    #[arg(value_name = "RESOURCE", add = completion::resources())]
    pub resource: String,

    /// Names of the objects
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// Only objects in this namespace
    #[arg(short, long, value_name = "NS", add = completion::namespaces())]
    pub namespace: Option<String>,

    /// Objects of all namespaces; overrides --namespace
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Label selector, such as 'app in (web,api),tier!=db,!canary'
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    pub selector: String,

    /// Field selector, such as 'status.phase=Running' or 'spec.nodeName in (n1,n2)'
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    pub field_selector: String,

    /// Only objects of these clusters (repeatable, or separated by commas)
    #[arg(long = "cluster", value_name = "CLUSTER", value_delimiter = ',', add = completion::clusters())]
    pub clusters: Vec<String>,

    /// Maximum number of objects
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = limit)]
    pub limit: usize,
}

/// The arguments do not form a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// Offline, only built-in resources have short names.
    #[error("{0}; write a custom resource as plural.version.group, such as widgets.v1.example.com")]
    UnknownResource(UnknownKind),
    /// The value of `-l`.
    #[error("label selector {text:?}: {source}")]
    LabelSelector {
        /// The selector.
        text: String,
        /// The syntax error.
        source: SelectorError,
    },
    /// The value of `--field-selector`.
    #[error("field selector {text:?}: {source}")]
    FieldSelector {
        /// The selector.
        text: String,
        /// The syntax error.
        source: SelectorError,
    },
    /// A reference in the value of `--field-selector`.
    #[error("field selector: {0}")]
    Reference(#[from] MalformedReference),
    /// An empty name.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl QueryArgs {
    /// Builds the query with Kubernetes' built-in kinds alone, and with the fields of interpreters.
    /// For any other kind every field path is selectable.
    pub fn offline_query(&self) -> Result<Query, ArgsError> {
        let (resource, selectable) = known_resource(&self.resource)?;
        Ok(Query {
            clusters: self.cluster_names()?,
            namespaces: self.namespace()?.into_iter().collect(),
            names: self.names.clone(),
            labels: label_selector(&self.selector)?,
            fields: normalized(&self.parsed_field_selector()?, is_interpreted_field)?,
            ..Query::all_of(resource, selectable, self.limit)
        })
    }

    /// Returns the namespace; `None` for all.
    pub fn namespace(&self) -> Result<Option<Namespace>, ArgsError> {
        match &self.namespace {
            Some(name) if !self.all_namespaces => Ok(Some(name.parse()?)),
            _ => Ok(None),
        }
    }

    fn cluster_names(&self) -> Result<Vec<ClusterName>, ArgsError> {
        self.clusters.iter().map(|name| Ok(name.parse()?)).collect()
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

/// Parses a value of `-l`.
pub(super) fn label_selector(text: &str) -> Result<LabelSelector, ArgsError> {
    text.parse().map_err(|source| ArgsError::LabelSelector {
        text: text.to_owned(),
        source,
    })
}

fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=MAX_LIMIT).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from 1 to {MAX_LIMIT}")),
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
    // A version that apiservers do not serve by default has the fields of the group's other
    // versions.
    if let Some(built_in) = kinds::find_plural(group, plural) {
        return Ok(built_in_resource(built_in));
    }
    let selectable =
        Selectable::of(&Gvk::new(group, version, ""), interpreted_fields()).and_any_path();
    Ok((ResourceName::new(group, plural), selectable))
}

fn built_in_resource(built_in: &kinds::BuiltIn) -> (ResourceName, Selectable) {
    (
        ResourceName::new(built_in.group, built_in.plural),
        Selectable::of(&built_in.gvk(), interpreted_fields()),
    )
}

/// Splits a full name into plural, version and group.
fn full_name(name: &str) -> Option<(&str, &str, &str)> {
    let (plural, qualifier) = name.split_once('.')?;
    let (version, group) = qualifier.split_once('.')?;
    let is_version = version
        .strip_prefix('v')
        .is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()));
    let is_complete = is_version && !plural.is_empty() && !group.is_empty();
    is_complete.then_some((plural, version, group))
}
