//! Questions about the bindings of the control plane: what is distributed, and what has become of
//! it.

use fleetdex_distribution::{
    placement_report::PlacementReport, sets::SetName, template_name::TemplateName,
};

/// Which bindings a view asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingsQuestion {
    /// A page of those of objects with a namespace.
    Namespaced {
        /// The namespace, as the user has entered it; empty: all.
        namespace: String,
        /// Where the page begins; empty: the first page.
        continue_token: String,
    },
    /// A page of those of objects without a namespace.
    ClusterScoped {
        /// Where the page begins; empty: the first page.
        continue_token: String,
    },
    /// A page of those of a set's objects.
    OfSet {
        /// The set.
        set: SetName,
        /// Where the page begins; empty: the first page.
        continue_token: String,
    },
    /// That of one object.
    OfObject(TemplateName),
}

/// Bindings that the caller may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindingsPage {
    /// What they say.
    pub reports: Vec<PlacementReport>,
    /// Where the next page begins; empty: this is the last one.
    pub continue_token: String,
}
