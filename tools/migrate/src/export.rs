//! The export of a migration: what is removed, in a file that kubectl reads, too.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use k8s_openapi::{
    api::core::v1::Service, kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Metadata that the API server sets, and that belongs to the object that was exported.
const SERVER_METADATA: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// Addresses that the API server gives to a Service.
const SERVER_ADDRESSES: [&str; 2] = ["clusterIP", "clusterIPs"];

/// What karmada-search had on a control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryExport {
    /// The `APIService` that a migration removes.
    pub api_service: Value,
    /// The Service that it points at, if there is one.
    pub service: Option<Value>,
    /// The registries, in the order of their names.
    pub registries: Vec<Value>,
}

/// An export cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file is there.
    #[error("{} is there already; name a new file", .0.display())]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is no export of `fleetdex migrate karmada-search`: {problem}", path.display())]
    NotAnExport {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl RegistryExport {
    /// The objects without what belongs to the API server.
    pub fn new(api_service: &APIService, service: Option<&Service>, registries: &[Value]) -> Self {
        let mut registries: Vec<Value> = registries.iter().cloned().map(plain).collect();
        registries.sort_by(|left, right| name_of(left).cmp(name_of(right)));
        Self {
            api_service: typed(api_service, "apiregistration.k8s.io/v1", "APIService"),
            service: service.map(|service| typed(service, "v1", "Service")),
            registries,
        }
    }

    /// Reads an export; `None` if there is no such file.
    pub fn read(path: &Path) -> Result<Option<Self>, ExportError> {
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|source| ExportError::Read {
                path: path.to_owned(),
                source,
            })?,
        };
        Self::parse(&text)
            .map(Some)
            .map_err(|problem| ExportError::NotAnExport {
                path: path.to_owned(),
                problem,
            })
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let list: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let items = list["items"]
            .as_array()
            .ok_or("it is not a list of objects")?;
        let of_kind = |kind: &str| -> Vec<Value> {
            let found = items.iter().filter(|item| item["kind"] == kind);
            found.cloned().collect()
        };
        let mut api_services = of_kind("APIService");
        let (registries, mut services) = (of_kind("ResourceRegistry"), of_kind("Service"));
        let (Some(api_service), true) = (api_services.pop(), api_services.is_empty()) else {
            return Err("it has to hold one APIService".to_owned());
        };
        if registries
            .iter()
            .any(|registry| name_of(registry).is_empty())
        {
            return Err("a ResourceRegistry has no name".to_owned());
        }
        Ok(Self {
            api_service,
            service: services.pop(),
            registries,
        })
    }

    /// Writes a new file, complete or not at all, and on the disk when this returns.
    pub fn write(&self, path: &Path) -> Result<(), ExportError> {
        let items = self.registries.iter().chain(&self.service);
        let items: Vec<&Value> = items.chain([&self.api_service]).collect();
        write_list(path, &items)
    }

    /// Names the objects in which two exports differ.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let named = |export: &Self| -> Vec<(String, Value)> {
            let all = export.registries.iter().chain([&export.api_service]);
            all.map(|object| (title(object), object.clone())).collect()
        };
        let (ours, theirs) = (named(self), named(other));
        let missing_in = |of: &[(String, Value)], within: &[(String, Value)]| -> Vec<String> {
            let differing = of.iter().filter(|object| !within.contains(object));
            differing.map(|(title, _)| title.clone()).collect()
        };
        let mut names = missing_in(&ours, &theirs);
        names.extend(missing_in(&theirs, &ours));
        names.sort();
        names.dedup();
        names
    }
}

/// Writes objects as a list into a new file of mode 0600, complete or not at all.
pub fn write_list(path: &Path, items: &[&Value]) -> Result<(), ExportError> {
    let failed = |source: io::Error| ExportError::Write {
        path: path.to_owned(),
        source,
    };
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(format!("{list:#}\n").as_bytes())
        .map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist_noclobber(path).map_err(|error| {
        if error.error.kind() == io::ErrorKind::AlreadyExists {
            ExportError::Exists(path.to_owned())
        } else {
            failed(error.error)
        }
    })?;
    // The name of the file is in the folder.
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)
}

/// Without status and what the API server sets in metadata.
pub fn plain(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.shift_remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in SERVER_METADATA {
            metadata.shift_remove(field);
        }
    }
    object
}

/// The name of an object.
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn title(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default();
    format!("{kind} {}", name_of(object))
}

fn typed(object: &impl Serialize, api_version: &str, kind: &str) -> Value {
    let mut typed = Map::new();
    typed.insert("apiVersion".to_owned(), api_version.into());
    typed.insert("kind".to_owned(), kind.into());
    if let Ok(Value::Object(fields)) = serde_json::to_value(object) {
        typed.extend(fields);
    }
    let mut object = plain(Value::Object(typed));
    if kind == "Service"
        && object["spec"]["clusterIP"] != "None"
        && let Some(spec) = object["spec"].as_object_mut()
    {
        for field in SERVER_ADDRESSES {
            spec.shift_remove(field);
        }
    }
    object
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn export() -> RegistryExport {
        let api_service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": "v1alpha1.search.karmada.io", "uid": "1", "resourceVersion": "7", "labels": { "app": "karmada-search" } },
            "spec": { "group": "search.karmada.io", "version": "v1alpha1", "groupPriorityMinimum": 2000, "versionPriority": 10,
                "service": { "namespace": "karmada-system", "name": "karmada-search" } },
            "status": { "conditions": [] },
        });
        let service = json!({
            "metadata": { "name": "karmada-search", "namespace": "karmada-system", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{ "port": 443 }] },
        });
        let registry = |name: &str| {
            json!({
                "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry",
                "metadata": { "name": name, "uid": "2", "generation": 1, "managedFields": [], "finalizers": ["example.com/keep"] },
                "spec": { "resourceSelectors": [] }, "status": {},
            })
        };
        RegistryExport::new(
            &serde_json::from_value(api_service).unwrap(),
            Some(&serde_json::from_value(service).unwrap()),
            &[registry("web"), registry("batch")],
        )
    }

    #[test]
    fn an_export_can_be_applied_and_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export.json");
        assert_eq!(RegistryExport::read(&path).unwrap(), None);
        let export = export();
        export.write(&path).unwrap();
        assert_eq!(RegistryExport::read(&path).unwrap(), Some(export.clone()));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        for of_the_server in [
            "uid",
            "resourceVersion",
            "status",
            "clusterIP",
            "creationTimestamp",
        ] {
            assert!(!text.contains(of_the_server), "{of_the_server}: {text}");
        }
        assert!(
            text.contains("example.com/keep") && text.contains("\"app\""),
            "{text}"
        );
        assert_eq!(
            export.registries.iter().map(name_of).collect::<Vec<_>>(),
            ["batch", "web"]
        );
        let again = export.write(&path).unwrap_err();
        assert!(
            again
                .to_string()
                .ends_with("is there already; name a new file"),
            "{again}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        for (text, reason) in [
            ("apiVersion: v1", "expected value"),
            ("{}", "not a list"),
            (
                r#"{"items": [{"kind": "ResourceRegistry", "metadata": {"name": "web"}}]}"#,
                "one APIService",
            ),
        ] {
            let path = folder.path().join("other");
            fs::write(&path, text).unwrap();
            let error = RegistryExport::read(&path).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn exports_of_different_times_differ_by_name() {
        let (before, mut after) = (export(), export());
        assert!(before.differences(&after).is_empty());
        after.registries[0]["spec"]["resourceSelectors"] = json!([{ "kind": "Pod" }]);
        after.registries.pop();
        assert_eq!(
            before.differences(&after),
            ["ResourceRegistry batch", "ResourceRegistry web"]
        );
    }
}
