//! Builds the resources of a discovery from names of a member. It accepts only names that
//! Kubernetes allows, up to limits, and counts the rest.

use std::sync::Arc;

use fleetdex_core::model::{Gvk, Resource};

use super::{
    Discovery, MAX_RESOURCES, ResourceCapabilities, ServedResource, Subresource,
    names::{NamePool, is_name},
    wire::{MAX_GROUP_VERSIONS, NameList},
};

/// Verbs, short names, categories and subresources of all resources, at most: each takes a pointer.
/// A custom resource has about 14.
const MAX_PARTS: usize = 20 * MAX_RESOURCES;

/// Builds the resources of one member, and counts what was left out. The limits apply to all
/// resources of one builder together.
#[derive(Debug, Default)]
pub(super) struct ResourceBuilder {
    names: NamePool,
    resources: usize,
    group_versions: usize,
    parts: usize,
    left_out: usize,
}

/// The group version whose resources are parsed.
pub(super) struct InternedGroupVersion {
    group: Arc<str>,
    version: Arc<str>,
    preferred: bool,
}

/// The fields of a resource in either form of discovery.
pub(super) struct ResourceDescription<'a> {
    pub(super) plural: &'a str,
    pub(super) singular: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespaced: bool,
    pub(super) verbs: &'a NameList,
    pub(super) short_names: &'a NameList,
    pub(super) categories: &'a NameList,
}

impl ResourceBuilder {
    /// Number of names left out so far.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Counts names that were left out.
    pub(super) fn leave_out(&mut self, names: usize) {
        self.left_out += names;
    }

    /// Returns a group version; `None` if its name is not allowed or there are too many.
    pub(super) fn group_version(
        &mut self,
        group: &str,
        version: &str,
        preferred: bool,
    ) -> Option<InternedGroupVersion> {
        let group_version = self.group_version_if_allowed(group, version, preferred);
        self.left_out += usize::from(group_version.is_none());
        group_version
    }

    fn group_version_if_allowed(
        &mut self,
        group: &str,
        version: &str,
        preferred: bool,
    ) -> Option<InternedGroupVersion> {
        if self.group_versions >= MAX_GROUP_VERSIONS {
            return None;
        }
        let group_version = InternedGroupVersion {
            group: self.names.group(group)?,
            version: self.names.name(version)?,
            preferred,
        };
        self.group_versions += 1;
        Some(group_version)
    }

    /// Adds a resource. If there is no room for it, its group version counts as unknown, as it may
    /// have documents.
    pub(super) fn add(
        &mut self,
        discovery: &mut Discovery,
        group_version: &InternedGroupVersion,
        description: &ResourceDescription<'_>,
        subresources: Vec<Subresource>,
    ) {
        if !is_name(description.plural) || !is_name(description.kind) {
            self.left_out += 1;
            return;
        }
        match self.served(group_version, description, subresources) {
            Some(served) => discovery.served.push(served),
            None => {
                self.left_out += 1;
                discovery.unknown.insert(group_version.name());
            }
        }
    }

    fn served(
        &mut self,
        group_version: &InternedGroupVersion,
        description: &ResourceDescription<'_>,
        subresources: Vec<Subresource>,
    ) -> Option<ServedResource> {
        if self.resources >= MAX_RESOURCES {
            return None;
        }
        let kind = self.names.name(description.kind)?;
        let plural = self.names.name(description.plural)?;
        // Some old APIs omit the singular; kubectl then uses the kind in lower case.
        let singular = match description.singular {
            singular if is_name(singular) => self.names.name(singular)?,
            _ => self.names.name(&kind.to_lowercase())?,
        };
        self.resources += 1;
        let verbs = self.name_list(description.verbs);
        let has = |needed: &str| verbs.iter().any(|verb| &**verb == needed);
        Some(ServedResource {
            resource: Resource {
                gvk: group_version.gvk(kind),
                plural,
                namespaced: description.namespaced,
            },
            singular,
            short_names: self.name_list(description.short_names),
            list_and_watch: has("list") && has("watch"),
            preferred: group_version.preferred,
            capabilities: Arc::new(ResourceCapabilities {
                verbs,
                categories: self.name_list(description.categories),
                subresources,
            }),
        })
    }

    /// Returns a subresource; group and version default to those of the resource.
    pub(super) fn subresource(
        &mut self,
        group_version: &InternedGroupVersion,
        name: &str,
        kind: (&str, &str, &str),
        verbs: &NameList,
    ) -> Option<Subresource> {
        let subresource = self.subresource_if_allowed(group_version, name, kind, verbs);
        self.left_out += usize::from(subresource.is_none());
        subresource
    }

    fn subresource_if_allowed(
        &mut self,
        group_version: &InternedGroupVersion,
        name: &str,
        (group, version, kind): (&str, &str, &str),
        verbs: &NameList,
    ) -> Option<Subresource> {
        self.count_part()?;
        let name = self.names.name(name)?;
        let kind = if kind.is_empty() {
            Arc::from("")
        } else {
            self.names.name(kind)?
        };
        let kind = match version {
            "" => group_version.gvk(kind),
            version => Gvk {
                group: self.names.group(group)?,
                version: self.names.name(version)?,
                kind,
            },
        };
        Some(Subresource {
            name,
            kind,
            verbs: self.name_list(verbs),
        })
    }

    fn name_list(&mut self, name_list: &NameList) -> Vec<Arc<str>> {
        let mut accepted = Vec::with_capacity(name_list.first.len());
        for name in &name_list.first {
            match self.count_part().and_then(|()| self.names.name(name)) {
                Some(name) => accepted.push(name),
                None => self.left_out += 1,
            }
        }
        self.left_out += name_list.more;
        accepted
    }

    /// Counts one more part of a resource; `None` if there are too many.
    fn count_part(&mut self) -> Option<()> {
        self.parts += 1;
        (self.parts <= MAX_PARTS).then_some(())
    }
}

impl InternedGroupVersion {
    fn gvk(&self, kind: Arc<str>) -> Gvk {
        Gvk {
            group: Arc::clone(&self.group),
            version: Arc::clone(&self.version),
            kind,
        }
    }

    pub(super) fn name(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}
