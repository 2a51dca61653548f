//! The programs that render.

use std::{
    env, fmt,
    path::{self, Path, PathBuf},
};

/// A program that renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RenderProgram {
    /// Renders charts.
    Helm,
    /// Renders folders.
    Kustomize,
}

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// A program whose command `sandbox` calls [`crate::sandbox::execute`]: Fleetdex itself.
    pub sandbox: PathBuf,
    helm: Option<PathBuf>,
    kustomize: Option<PathBuf>,
}

/// A program is not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{program} was not found: install {program} {version} in a folder of PATH, or name its file \
     with --{program}",
    version = program.tested_version()
)]
pub struct MissingProgram {
    program: RenderProgram,
}

impl RenderProgram {
    /// The version with which Fleetdex is tested, and which its image has.
    pub fn tested_version(self) -> &'static str {
        match self {
            Self::Helm => "4.3.1",
            Self::Kustomize => "5.8.2",
        }
    }

    /// The arguments that make it print its version, and nothing else.
    pub(crate) fn version_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Helm => &["version", "--template={{.Version}}"],
            Self::Kustomize => &["version"],
        }
    }
}

impl fmt::Display for RenderProgram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Helm => "helm",
            Self::Kustomize => "kustomize",
        })
    }
}

impl Programs {
    /// Those that are given, or else those in the folders of `PATH`.
    pub fn find(sandbox: PathBuf, helm: Option<PathBuf>, kustomize: Option<PathBuf>) -> Self {
        // They are started in another folder.
        let absolute = |file: PathBuf| path::absolute(&file).unwrap_or(file);
        let helm = helm.or_else(|| on_path(RenderProgram::Helm));
        let kustomize = kustomize.or_else(|| on_path(RenderProgram::Kustomize));
        Self {
            sandbox: absolute(sandbox),
            helm: helm.map(absolute),
            kustomize: kustomize.map(absolute),
        }
    }

    /// Where a program is.
    pub fn path(&self, program: RenderProgram) -> Result<&Path, MissingProgram> {
        let path = match program {
            RenderProgram::Helm => &self.helm,
            RenderProgram::Kustomize => &self.kustomize,
        };
        path.as_deref().ok_or(MissingProgram { program })
    }
}

fn on_path(program: RenderProgram) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let mut files = env::split_paths(&folders).map(|folder| folder.join(program.to_string()));
    files.find(|file| file.is_file())
}
