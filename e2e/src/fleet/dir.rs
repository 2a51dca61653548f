//! Folders of running servers: one for logs, certificates and kubeconfigs, and one for data.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

/// The folder of one running fleet, locked.
#[derive(Debug)]
pub(crate) struct FleetDir {
    pub(crate) path: PathBuf,
    lock: File,
}

impl FleetDir {
    /// Claims the requested folder, or fails if a fleet runs in it; without a request claims the
    /// first free folder of this test's module.
    pub(super) fn claim(requested: Option<&Path>) -> Result<Self> {
        if let Some(path) = requested {
            let claimed = Self::try_claim(path)?;
            return claimed.with_context(|| format!("another fleet runs in {}", path.display()));
        }
        match test_module() {
            Some(module) => Self::claim_of(&module),
            None => Self::claim_of(&program_name()?),
        }
    }

    /// Claims the first free folder of this name.
    pub(crate) fn claim_of(name: &str) -> Result<Self> {
        let base = target_folder()?.join("fleet");
        for number in 1..=64 {
            let folder = if number == 1 {
                name.to_owned()
            } else {
                format!("{name}-{number}")
            };
            if let Some(dir) = Self::try_claim(&base.join(folder))? {
                return Ok(dir);
            }
        }
        anyhow::bail!("64 fleets of {name} are running already")
    }

    fn try_claim(path: &Path) -> Result<Option<Self>> {
        fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
        let absolute =
            fs::canonicalize(path).with_context(|| format!("finding {}", path.display()))?;
        let lock_path = absolute.join("lock");
        let lock = File::create(&lock_path)
            .with_context(|| format!("creating {}", lock_path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", lock_path.display()));
            }
        }
        remove_leftovers(&absolute)?;
        Ok(Some(Self {
            path: absolute,
            lock,
        }))
    }
}

impl Drop for FleetDir {
    /// After a test that failed the folder stays locked until this program ends, so that no other
    /// fleet removes the logs.
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(lock) = self.lock.try_clone()
        {
            std::mem::forget(lock);
        }
    }
}

/// Removes only the files of an earlier fleet: other programs may use the folder too.
fn remove_leftovers(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry
            .with_context(|| format!("reading {}", folder.display()))?
            .path();
        let is_cluster = path.join("kubeconfig").is_file();
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        let removed = match (is_cluster, is_log) {
            (true, _) => fs::remove_dir_all(&path),
            (_, true) => fs::remove_file(&path),
            _ => Ok(()),
        };
        removed.with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

/// A folder in the system's temporary folder, for data that is removed at the end. Other users may
/// look inside, because root runs OpenSearch as another user.
pub(crate) fn scratch_folder() -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!(
        "fleetdex-{}-{:08x}",
        std::process::id(),
        rand::random::<u32>()
    ));
    // `TMPDIR` may name a folder of a login session that has ended.
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(&path)
        .with_context(|| format!("creating {}", path.display()))?;
    Ok(path)
}

/// The target folder that this program was built into.
pub fn target_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("finding this program")?;
    // `target/PROFILE/program`, and `target/PROFILE/deps/test`.
    let profile = program
        .ancestors()
        .skip(1)
        .find(|folder| !folder.ends_with("deps"));
    let target = profile.and_then(Path::parent);
    let target =
        target.with_context(|| format!("{} is in no cargo target folder", program.display()))?;
    Ok(target.to_owned())
}

/// The first module of the test that runs in this thread: libtest names threads after tests.
fn test_module() -> Option<String> {
    let thread = std::thread::current();
    let (module, _) = thread.name()?.split_once("::")?;
    Some(module.to_owned())
}

/// This program's name without the hash that cargo gives to test programs.
fn program_name() -> Result<String> {
    let program = std::env::current_exe().context("finding this program")?;
    let name = program
        .file_stem()
        .context("a program without a name")?
        .to_string_lossy()
        .into_owned();
    let without_hash = name
        .rsplit_once('-')
        .filter(|(_, hash)| hash.len() == 16)
        .map(|(stem, _)| stem.to_owned());
    let short = without_hash.unwrap_or(name);
    ensure!(!short.is_empty(), "a program without a name");
    Ok(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_failed_test_is_not_reused() {
        let path = std::env::temp_dir().join(format!("fleetdex-dir-{}", std::process::id()));
        let requested = path.clone();
        let failing = std::thread::spawn(move || {
            let _dir = FleetDir::claim(Some(&requested)).unwrap();
            panic!("as a test does");
        });
        failing.join().unwrap_err();
        assert!(FleetDir::try_claim(&path).unwrap().is_none());
        fs::remove_dir_all(path).unwrap();
    }
}
