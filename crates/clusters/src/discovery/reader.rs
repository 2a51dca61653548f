//! Parses discovery responses. They are untrusted input of a member, and their names are repeated
//! everywhere: in paths, keys, metric labels, statuses and log lines. So only names that Kubernetes
//! allows are accepted, up to limits; the rest is counted.

use std::collections::BTreeMap;

use fleetdex_core::model::First;
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::{
    Discovery, DiscoveryResponse, GroupVersion, Subresource,
    builder::{InternedGroupVersion, ResourceBuilder, ResourceDescription},
    names::{is_group, is_name},
    wire::{
        DiscoveryResponseKind, MAX_GROUP_VERSIONS, MAX_SUBRESOURCES, RawDiscoveryGroup,
        RawDiscoveryResource, RawDiscoveryResponse, RawDiscoveryVersion, RawGroup, RawResource,
        RawResourceList,
    },
};

/// Parses the responses of one member. The limits apply to all responses of one reader together.
#[derive(Debug, Default)]
pub struct DiscoveryReader {
    builder: ResourceBuilder,
}

impl DiscoveryReader {
    /// Number of names left out so far.
    pub fn left_out(&self) -> usize {
        self.builder.left_out()
    }

    /// Parses a response to `GET /api` or `GET /apis`, of either form.
    pub fn response(&mut self, body: &[u8]) -> Result<DiscoveryResponse, serde_json::Error> {
        let RawDiscoveryResponse {
            kind,
            items,
            groups,
            versions,
        } = serde_json::from_slice(body)?;
        match kind {
            DiscoveryResponseKind::Aggregated => {
                self.aggregated(&items).map(DiscoveryResponse::Aggregated)
            }
            DiscoveryResponseKind::Groups => {
                let groups = groups.ok_or_else(|| serde_json::Error::missing_field("groups"))?;
                self.group_list(&groups).map(DiscoveryResponse::Classic)
            }
            DiscoveryResponseKind::CoreVersions => {
                let versions =
                    versions.ok_or_else(|| serde_json::Error::missing_field("versions"))?;
                let named =
                    versions
                        .first
                        .into_iter()
                        .enumerate()
                        .map(|(index, name)| GroupVersion {
                            name,
                            preferred: index == 0,
                        });
                self.builder.leave_out(versions.more);
                Ok(DiscoveryResponse::Classic(self.classic_versions(named)))
            }
        }
    }

    /// Parses a classic response to `GET /api/v1` or `GET /apis/<group>/<version>`.
    pub fn resources(
        &mut self,
        version: &GroupVersion,
        body: &[u8],
    ) -> Result<Discovery, serde_json::Error> {
        let RawResourceList { resources } = serde_json::from_slice(body)?;
        let mut found = Discovery::default();
        let (group, name) = version.group_and_version();
        let Some(group_version) = self.builder.group_version(group, name, version.preferred) else {
            return Ok(found);
        };
        self.builder.leave_out(resources.more);
        let mut subresources_of = self.classic_subresources(&group_version, &resources.first)?;
        for entry in &resources.first {
            let entry: RawResource = serde_json::from_str(entry.get())?;
            if entry.name.contains('/') || entry.kind.is_empty() {
                continue;
            }
            let (subresources, more) = subresources_of.remove(&*entry.name).unwrap_or_default();
            self.builder.leave_out(more);
            let description = ResourceDescription {
                plural: &entry.name,
                singular: &entry.singular_name,
                kind: &entry.kind,
                namespaced: entry.namespaced,
                verbs: &entry.verbs,
                short_names: &entry.short_names,
                categories: &entry.categories,
            };
            self.builder
                .add(&mut found, &group_version, &description, subresources);
        }
        if resources.more > 0 {
            found.unknown.insert(version.name.clone());
        }
        Ok(found)
    }

    fn aggregated(
        &mut self,
        groups: &First<&RawValue, MAX_GROUP_VERSIONS>,
    ) -> Result<Discovery, serde_json::Error> {
        let mut discovery = Discovery::default();
        self.builder.leave_out(groups.more);
        for group in &groups.first {
            let RawDiscoveryGroup { metadata, versions } = serde_json::from_str(group.get())?;
            self.builder.leave_out(versions.more);
            for (index, version) in versions.first.iter().enumerate() {
                let version: RawDiscoveryVersion<'_> = serde_json::from_str(version.get())?;
                let Some(group_version) =
                    self.builder
                        .group_version(&metadata.name, &version.version, index == 0)
                else {
                    continue;
                };
                self.aggregated_version(&mut discovery, &group_version, &version)?;
            }
        }
        discovery.left_out = self.builder.left_out();
        Ok(discovery)
    }

    fn aggregated_version(
        &mut self,
        discovery: &mut Discovery,
        group_version: &InternedGroupVersion,
        version: &RawDiscoveryVersion<'_>,
    ) -> Result<(), serde_json::Error> {
        let resources = &version.resources;
        for resource in &resources.first {
            let resource: RawDiscoveryResource = serde_json::from_str(resource.get())?;
            let kind = resource
                .response_kind
                .as_ref()
                .map_or("", |response| &response.kind);
            if kind.is_empty() {
                continue;
            }
            let subresources = resource
                .subresources
                .first
                .iter()
                .filter_map(|subresource| {
                    let kind = subresource.response_kind.as_ref();
                    let kind = kind.map(|kind| (&*kind.group, &*kind.version, &*kind.kind));
                    self.builder.subresource(
                        group_version,
                        &subresource.subresource,
                        kind.unwrap_or_default(),
                        &subresource.verbs,
                    )
                });
            let subresources = subresources.collect();
            self.builder.leave_out(resource.subresources.more);
            let description = ResourceDescription {
                plural: &resource.resource,
                singular: &resource.singular_resource,
                kind,
                namespaced: resource.scope == "Namespaced",
                verbs: &resource.verbs,
                short_names: &resource.short_names,
                categories: &resource.categories,
            };
            self.builder
                .add(discovery, group_version, &description, subresources);
        }
        self.builder.leave_out(resources.more);
        // An aggregated API that has just been registered is listed without resources.
        if version.freshness == "Stale" || resources.first.is_empty() || resources.more > 0 {
            discovery.unknown.insert(group_version.name());
        }
        Ok(())
    }

    fn group_list(
        &mut self,
        groups: &First<&RawValue, MAX_GROUP_VERSIONS>,
    ) -> Result<Vec<GroupVersion>, serde_json::Error> {
        let mut group_versions = Vec::new();
        self.builder.leave_out(groups.more);
        for group in &groups.first {
            let group: RawGroup = serde_json::from_str(group.get())?;
            self.builder.leave_out(group.versions.more);
            group_versions.extend(self.classic_versions(group.versions().into_iter()));
            // Each group version costs one request.
            self.builder
                .leave_out(group_versions.len().saturating_sub(MAX_GROUP_VERSIONS));
            group_versions.truncate(MAX_GROUP_VERSIONS);
        }
        Ok(group_versions)
    }

    /// The group versions with allowed names.
    fn classic_versions(
        &mut self,
        versions: impl Iterator<Item = GroupVersion>,
    ) -> Vec<GroupVersion> {
        let mut accepted = Vec::new();
        for version in versions {
            let (group, name) = version.group_and_version();
            if is_group(group) && is_name(name) {
                accepted.push(version);
            } else {
                self.builder.leave_out(1);
            }
        }
        accepted
    }

    /// The subresources by resource name, and how many more there are than accepted.
    fn classic_subresources(
        &mut self,
        group_version: &InternedGroupVersion,
        entries: &[&RawValue],
    ) -> Result<BTreeMap<String, (Vec<Subresource>, usize)>, serde_json::Error> {
        let mut found: BTreeMap<String, (Vec<Subresource>, usize)> = BTreeMap::new();
        for entry in entries {
            let entry: RawResource = serde_json::from_str(entry.get())?;
            let Some((resource, name)) = entry.name.split_once('/') else {
                continue;
            };
            let (known, more) = found.entry(resource.to_owned()).or_default();
            if known.len() >= MAX_SUBRESOURCES {
                *more += 1;
                continue;
            }
            known.extend(self.builder.subresource(
                group_version,
                name,
                (&entry.group, &entry.version, &entry.kind),
                &entry.verbs,
            ));
        }
        Ok(found)
    }
}

/// Parses a response to `GET /api` or `GET /apis`, of either form.
pub fn parse_response(body: &[u8]) -> Result<DiscoveryResponse, serde_json::Error> {
    DiscoveryReader::default().response(body)
}

#[cfg(test)]
mod tests;
