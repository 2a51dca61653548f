//! The arguments that say where searches across kinds and `images` look for objects.

use fleetdex_core::{
    model::FieldPath,
    selector::{FieldRequirement, FieldSelector, FieldTest},
};
use fleetdex_query_api::parameter::LABEL_SELECTOR;

use super::completion;

/// Selects objects; all namespaces by default.
#[derive(Clone, Debug, clap::Args)]
pub struct ScopeArgs {
    /// Only objects in this namespace
    #[arg(short, long, value_name = "NS", add = completion::namespaces())]
    pub namespace: Option<String>,

    /// Objects of all namespaces, the default; overrides --namespace
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Only objects of these clusters (repeatable, or separated by commas)
    #[arg(long = "cluster", value_name = "CLUSTER", value_delimiter = ',', add = completion::clusters())]
    pub clusters: Vec<String>,

    /// Label selector, such as 'app in (web,api),tier!=db'
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    pub selector: String,
}

impl ScopeArgs {
    /// The namespace; `None` for all.
    pub(super) fn namespace(&self) -> Option<&str> {
        let namespace = self.namespace.as_deref();
        namespace.filter(|_| !self.all_namespaces)
    }

    /// The query parameters of a list; those without a value are empty.
    pub(super) fn parameters(&self) -> [(&'static str, String); 3] {
        [
            (
                "namespaces",
                self.namespace().unwrap_or_default().to_owned(),
            ),
            ("clusters", self.clusters.join(",")),
            (LABEL_SELECTOR, self.selector.clone()),
        ]
    }
}

/// A field selector of the objects whose field has one of these values.
pub(super) fn field_in(path: &str, values: impl Iterator<Item = String>) -> String {
    let requirement = FieldRequirement {
        path: FieldPath::new(path),
        test: FieldTest::In(values.collect()),
    };
    FieldSelector::from_iter([requirement]).to_string()
}
