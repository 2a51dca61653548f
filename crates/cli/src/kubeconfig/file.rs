//! Adds a context to a kubeconfig file as kubectl does: under its lock, and keeping what it does
//! not know.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use fleetdex_clusters::source::{is_fleet_url, kubeconfig_variable};
use kube::config::Kubeconfig;

use super::{
    entries::Entries,
    error::KubeconfigError,
    storage::{follow_links, read_text, replace},
};

/// The kubeconfig file that kubectl changes.
#[derive(Clone, Debug)]
pub(super) struct KubeconfigTarget {
    path: PathBuf,
    /// The other files of `KUBECONFIG`. kubectl ignores their entries with a name that the target
    /// has.
    others: Vec<PathBuf>,
}

impl KubeconfigTarget {
    /// Returns `named`, or else the first file of `KUBECONFIG`, preferably one that exists, or else
    /// `~/.kube/config`.
    pub(super) fn locate(named: Option<&Path>) -> Result<Self, KubeconfigError> {
        if let Some(path) = named {
            return Ok(Self::alone(path.to_owned()));
        }
        if let Some(target) = Self::first_of(kubeconfig_variable()) {
            return Ok(target);
        }
        let home = env::home_dir().ok_or(KubeconfigError::NoHome)?;
        Ok(Self::alone(home.join(".kube/config")))
    }

    fn alone(path: PathBuf) -> Self {
        Self {
            path,
            others: Vec::new(),
        }
    }

    /// `None` without files.
    pub(super) fn first_of(files: Vec<PathBuf>) -> Option<Self> {
        let existing = files.iter().find(|path| path.exists());
        let path = existing.or(files.first())?.clone();
        let others = files.into_iter().filter(|file| *file != path).collect();
        Some(Self { path, others })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the entries, or replaces those of the same name. Refuses to replace entries that are
    /// not of a fleet, and to hide such entries of the other files. Returns `created` or
    /// `modified`.
    pub(super) fn merge(
        &self,
        entries: &Entries,
        use_context: bool,
    ) -> Result<&'static str, KubeconfigError> {
        let not_written = |source| KubeconfigError::File {
            operation: "write",
            path: self.path.clone(),
            source,
        };
        // A link is followed, so that the file behind it is changed.
        let target = follow_links(&self.path);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(not_written)?;
        }
        let _lock = Lock::acquire(&self.path)?;
        for path in &self.others {
            if let Some(other) = read(path)? {
                check_names(path, &other, entries)?;
            }
        }
        let mut kubeconfig = read(&self.path)?.unwrap_or_else(|| Kubeconfig {
            api_version: Some("v1".to_owned()),
            kind: Some("Config".to_owned()),
            ..Kubeconfig::default()
        });
        let outcome = check_names(&self.path, &kubeconfig, entries)?;
        add(&mut kubeconfig, entries);
        if use_context {
            kubeconfig.current_context = Some(entries.context.name.clone());
        }
        let text = serde_saphyr::to_string(&kubeconfig)
            .map_err(|error| KubeconfigError::Yaml(error.to_string()))?;
        replace(&target, &text, entries.has_password()).map_err(not_written)?;
        Ok(outcome)
    }
}

/// Returns `None` for a file that does not exist or is empty. Leaves relative paths in it as they
/// are.
fn read(path: &Path) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(KubeconfigError::File {
                operation: "read",
                path: path.to_owned(),
                source,
            });
        }
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let kubeconfig = Kubeconfig::from_yaml(&text);
    kubeconfig
        .map(Some)
        .map_err(|error| KubeconfigError::Malformed {
            path: path.to_owned(),
            position: position(&error),
        })
}

/// Returns where the parser failed. Its message would quote the file with its secrets.
fn position(error: &kube::config::KubeconfigError) -> String {
    let location = match error {
        kube::config::KubeconfigError::Parse(error) => error.location(),
        _ => None,
    };
    location.map_or_else(String::new, |location| {
        format!(" at line {}, column {}", location.line(), location.column())
    })
}

/// Fails if the file has an entry with the name of a new one that is not of a fleet. Returns
/// whether the context is `created` or `modified`.
fn check_names(
    path: &Path,
    kubeconfig: &Kubeconfig,
    entries: &Entries,
) -> Result<&'static str, KubeconfigError> {
    let name = &entries.context.name;
    let taken = |what| KubeconfigError::NameTaken {
        path: path.to_owned(),
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
    if present.is_some() {
        return Ok("modified");
    }
    let new_user = entries.user.as_ref().filter(|_| entries.is_new_user);
    let users = &kubeconfig.auth_infos;
    if new_user.is_some_and(|user| users.iter().any(|entry| entry.name == user.name)) {
        return Err(taken("a user"));
    }
    Ok("created")
}

fn add(kubeconfig: &mut Kubeconfig, entries: &Entries) {
    let name = &entries.context.name;
    kubeconfig.contexts.retain(|entry| entry.name != *name);
    kubeconfig.contexts.push(entries.context.clone());
    kubeconfig.clusters.retain(|entry| entry.name != *name);
    kubeconfig.clusters.push(entries.cluster.clone());
    if let Some(user) = entries.user.as_ref().filter(|_| entries.is_new_user) {
        let users = &mut kubeconfig.auth_infos;
        users.retain(|entry| entry.name != user.name);
        users.push(user.clone());
    }
}

/// The lock of kubectl and client-go: a file `<kubeconfig>.lock` that exists while the kubeconfig
/// is changed.
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
