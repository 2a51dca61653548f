//! Adds a context to a kubeconfig file as kubectl does: under its lock, and keeping what it does not know.

use std::{
    env, fmt, fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use kube::config::Kubeconfig;

use super::{
    entries::{Entries, is_fleet_url},
    error::KubeconfigError,
};

/// The kubeconfig file that kubectl changes.
#[derive(Clone, Debug)]
pub(super) struct KubeconfigTarget(PathBuf);

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeOutcome {
    Created,
    Modified,
}

impl fmt::Display for MergeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Modified => "modified",
        })
    }
}

impl KubeconfigTarget {
    /// Returns `named`, or else the first file of `KUBECONFIG`, preferably one that exists, or else `~/.kube/config`.
    pub(super) fn locate(named: Option<&Path>) -> Result<Self, KubeconfigError> {
        if let Some(path) = named {
            return Ok(Self(path.to_owned()));
        }
        let listed: Vec<PathBuf> = env::var_os("KUBECONFIG")
            .map(|paths| env::split_paths(&paths).collect())
            .unwrap_or_default();
        let mut listed = listed
            .into_iter()
            .filter(|path| !path.as_os_str().is_empty());
        let first = listed.next();
        let existing = first
            .iter()
            .cloned()
            .chain(listed)
            .find(|path| path.exists());
        if let Some(path) = existing.or(first) {
            return Ok(Self(path));
        }
        let home = env::home_dir().ok_or(KubeconfigError::NoHome)?;
        Ok(Self(home.join(".kube/config")))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Adds the entries, or replaces those of the same name. Refuses to replace entries that are not of a fleet.
    pub(super) fn merge(
        &self,
        entries: &Entries,
        use_context: bool,
    ) -> Result<MergeOutcome, KubeconfigError> {
        let failed = |operation, source| KubeconfigError::File {
            operation,
            path: self.0.clone(),
            source,
        };
        if let Some(folder) = self.0.parent() {
            fs::create_dir_all(folder).map_err(|error| failed("write", error))?;
        }
        let _lock = Lock::acquire(&self.0)?;
        // A link is followed, so that the file behind it is changed.
        let target = self.0.canonicalize().unwrap_or_else(|_| self.0.clone());
        let text = match fs::read_to_string(&target) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed("read", error)),
        };
        let mut kubeconfig = if text.trim().is_empty() {
            Kubeconfig {
                api_version: Some("v1".to_owned()),
                kind: Some("Config".to_owned()),
                ..Kubeconfig::default()
            }
        } else {
            Kubeconfig::from_yaml(&text).map_err(|error| KubeconfigError::Malformed {
                path: self.0.clone(),
                reason: fleetdex_core::model::causes(&error),
            })?
        };
        let change = self.add(&mut kubeconfig, entries)?;
        if use_context {
            kubeconfig.current_context = Some(entries.context.name.clone());
        }
        let text = serde_saphyr::to_string(&kubeconfig)
            .map_err(|error| KubeconfigError::Yaml(error.to_string()))?;
        replace(&target, &text).map_err(|error| failed("write", error))?;
        Ok(change)
    }

    fn add(
        &self,
        kubeconfig: &mut Kubeconfig,
        entries: &Entries,
    ) -> Result<MergeOutcome, KubeconfigError> {
        let name = &entries.context.name;
        let taken = |what| KubeconfigError::NameTaken {
            path: self.0.clone(),
            what,
            name: name.clone(),
        };
        let is_of_fleet = |cluster: &str| {
            kubeconfig.clusters.iter().any(|entry| {
                entry.name == cluster
                    && entry
                        .cluster
                        .as_ref()
                        .and_then(|cluster| cluster.server.as_deref())
                        .is_some_and(is_fleet_url)
            })
        };
        if kubeconfig.clusters.iter().any(|entry| entry.name == *name) && !is_of_fleet(name) {
            return Err(taken("a cluster"));
        }
        let present = kubeconfig.contexts.iter().find(|entry| entry.name == *name);
        let cluster = present.and_then(|entry| entry.context.as_ref().map(|it| it.cluster.clone()));
        if present.is_some() && !cluster.is_some_and(|cluster| is_of_fleet(&cluster)) {
            return Err(taken("a context"));
        }
        let change = if present.is_some() {
            MergeOutcome::Modified
        } else {
            MergeOutcome::Created
        };
        kubeconfig.contexts.retain(|entry| entry.name != *name);
        kubeconfig.contexts.push(entries.context.clone());
        kubeconfig.clusters.retain(|entry| entry.name != *name);
        kubeconfig.clusters.push(entries.cluster.clone());
        if let Some(user) = entries.user.as_ref().filter(|_| entries.is_new_user) {
            if change == MergeOutcome::Created
                && kubeconfig
                    .auth_infos
                    .iter()
                    .any(|entry| entry.name == user.name)
            {
                return Err(taken("a user"));
            }
            kubeconfig
                .auth_infos
                .retain(|entry| entry.name != user.name);
            kubeconfig.auth_infos.push(user.clone());
        }
        Ok(change)
    }
}

/// The lock of kubectl and client-go: a file `<kubeconfig>.lock` that exists while the kubeconfig is changed.
struct Lock(PathBuf);

impl Lock {
    fn acquire(path: &Path) -> Result<Self, KubeconfigError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        match fs::File::create_new(&lock) {
            Ok(_file) => Ok(Self(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(KubeconfigError::Locked(lock))
            }
            Err(source) => Err(KubeconfigError::File {
                operation: "lock",
                path: path.to_owned(),
                source,
            }),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The next command reports a lock that is left behind.
        let _result = fs::remove_file(&self.0);
    }
}

/// Replaces a file in one step. A new file is readable by its owner alone; an existing one keeps its mode.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut temporary = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    temporary.write_all(text.as_bytes())?;
    if let Ok(metadata) = fs::metadata(path) {
        fs::set_permissions(temporary.path(), metadata.permissions())?;
    }
    temporary.persist(path)?;
    Ok(())
}
