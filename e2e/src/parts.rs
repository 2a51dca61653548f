//! The real programs: found in a cache outside the checkout, or built there. Chromium is found on
//! this machine, or installed.
//!
//! A part in the cache is complete exactly when its folder exists: it is made in a temporary folder
//! beside it and renamed. A lock file keeps two processes from building the same part at once.

mod chromium;
pub(crate) mod command;
mod maven;
pub(crate) mod system;

use std::{
    env,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result};

pub use self::chromium::Chromium;
use self::command::run;
use crate::java::Java;

const KUBERNETES_VERSION: &str = "1.36.3";
const ETCD_VERSION: &str = "3.6.7";
const HELM_VERSION: &str = "4.3.1";
const HELM_3_VERSION: &str = "3.22.0";
const KUSTOMIZE_VERSION: &str = "5.8.2";
const REGISTRY_VERSION: &str = "3.1.2";
/// The Go module of Prometheus 3.13.5.
const PROMETHEUS_VERSION: &str = "0.313.5";
const KARMADA_VERSION: &str = "1.17.1";
const OPENSEARCH_VERSION: &str = "3.4.0";
/// The newest OpenSearch whose security plugin is published as a Maven artifact of its own and runs
/// on Java 17.
const SECURE_OPENSEARCH_VERSION: &str = "2.19.4";
const SECURITY_PLUGIN_VERSION: &str = "2.19.4.0";
const STERN_VERSION: &str = "1.33.0";
const MDBOOK_VERSION: &str = "0.5.4";
const CARGO_CYCLONEDX_VERSION: &str = "0.5.9";
const CARGO_ZIGBUILD_VERSION: &str = "0.24.1";
const ZIG_VERSION: &str = "0.17.1";
const AXE_CORE_VERSION: &str = "4.11.1";
const AXE_CORE_SHA512: &str = "880b0e2f1a7e3c1a9fc0eaf25891739b93a6bf616d6c52a4f38470949c871f6f\
                               fffe50c33f430a2f6ee67b794cabea0ce853e500804fe7dcea0433e462fac614";

/// One program that tests run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The API server of the control plane and of every member.
    KubeApiserver,
    /// The Kubernetes command line.
    Kubectl,
    /// The database of every API server.
    Etcd,
    /// Renders and installs the chart.
    Helm,
    /// The same, in the version before.
    Helm3,
    /// Renders folders.
    Kustomize,
    /// The registry that charts are pulled from.
    Registry,
    /// The minimal OpenSearch server, without TLS and authentication.
    OpenSearch,
    /// An older OpenSearch with the security plugin: TLS and basic authentication.
    SecureOpenSearch,
    /// Scrapes the operator and answers the queries of the dashboard.
    Prometheus,
    /// Checks and tests alert rules.
    Promtool,
    /// Follows the logs of pods that selectors find.
    Stern,
    /// Builds the documentation as a book.
    MdBook,
    /// The browser, with its driver, in the version that is installed.
    Chromium,
    /// The script that checks a page for accessibility.
    AxeCore,
    /// Compiles static programs for other architectures, with Zig as compiler of C and C++.
    CargoZigbuild,
    /// Makes images without an engine, in the version that is installed.
    Buildah,
    /// Lists what a program consists of.
    CargoCyclonedx,
    /// Serves the registries of a Karmada control plane.
    KarmadaSearch,
}

impl Part {
    /// Every part that `make test` needs, cheapest first where nothing depends on the order.
    pub const ALL: [Self; 15] = [
        Self::OpenSearch,
        Self::SecureOpenSearch,
        Self::AxeCore,
        Self::Chromium,
        Self::Etcd,
        Self::KubeApiserver,
        Self::Kubectl,
        Self::Helm,
        Self::Helm3,
        Self::Kustomize,
        Self::Registry,
        Self::Promtool,
        Self::Prometheus,
        Self::Stern,
        Self::MdBook,
    ];

    /// The parts of targets of their own: the migration from karmada-search, and the image.
    pub const ON_DEMAND: [Self; 4] = [
        Self::KarmadaSearch,
        Self::Buildah,
        Self::CargoZigbuild,
        Self::CargoCyclonedx,
    ];

    /// The name used on the command line and in the cache.
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Kubectl => "kubectl",
            Self::Etcd => "etcd",
            Self::Helm => "helm",
            Self::Helm3 => "helm-3",
            Self::Kustomize => "kustomize",
            Self::Registry => "registry",
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
            Self::Stern => "stern",
            Self::MdBook => "mdbook",
            Self::OpenSearch => "opensearch",
            Self::SecureOpenSearch => "opensearch-secure",
            Self::Chromium => "chromium",
            Self::AxeCore => "axe-core",
            Self::CargoZigbuild => "cargo-zigbuild",
            Self::Buildah => "buildah",
            Self::CargoCyclonedx => "cargo-cyclonedx",
            Self::KarmadaSearch => "karmada-search",
        }
    }

    /// The version that is pinned here and in `parts/*/go.mod`; for what is installed from
    /// packages, which have one version at a time, that it is the system's.
    fn version(self) -> &'static str {
        match self {
            Self::KubeApiserver | Self::Kubectl => KUBERNETES_VERSION,
            Self::Etcd => ETCD_VERSION,
            Self::Helm => HELM_VERSION,
            Self::Helm3 => HELM_3_VERSION,
            Self::Kustomize => KUSTOMIZE_VERSION,
            Self::Registry => REGISTRY_VERSION,
            Self::Prometheus | Self::Promtool => PROMETHEUS_VERSION,
            Self::Stern => STERN_VERSION,
            Self::MdBook => MDBOOK_VERSION,
            Self::OpenSearch => OPENSEARCH_VERSION,
            Self::SecureOpenSearch => SECURE_OPENSEARCH_VERSION,
            Self::Chromium | Self::Buildah => "system",
            Self::AxeCore => AXE_CORE_VERSION,
            Self::CargoZigbuild => CARGO_ZIGBUILD_VERSION,
            Self::CargoCyclonedx => CARGO_CYCLONEDX_VERSION,
            Self::KarmadaSearch => KARMADA_VERSION,
        }
    }

    /// Finds the part that the command line calls `name`.
    pub fn named(name: &str) -> Result<Self> {
        let all = || Self::ALL.into_iter().chain(Self::ON_DEMAND);
        let found = all().find(|part| part.name() == name);
        found.with_context(|| {
            let known: Vec<&str> = all().map(Self::name).collect();
            format!(
                "there is no part `{name}`; known parts: {}",
                known.join(", ")
            )
        })
    }

    /// Builds or finds the part, with progress on standard error; returns the path of its program.
    ///
    /// Blocks: up to several minutes the first time, no time at all after that.
    pub fn ensure(self) -> Result<PathBuf> {
        if let Some(program) = self.find()? {
            return Ok(program);
        }
        let folder = self.folder()?;
        let _lock = self.lock(&folder)?;
        if let Some(program) = self.find()? {
            return Ok(program);
        }
        eprintln!(
            "getting {} {} ({}) …",
            self.name(),
            self.version(),
            self.first_time()
        );
        let started = Instant::now();
        self.make(&folder)
            .with_context(|| format!("getting {} {}", self.name(), self.version()))?;
        eprintln!(
            "{} {} ready in {} s",
            self.name(),
            self.version(),
            started.elapsed().as_secs()
        );
        let program = self.find()?;
        program.with_context(|| {
            format!(
                "{} {} was made, but has no {}",
                self.name(),
                self.version(),
                self.program()
            )
        })
    }

    /// The path of the part's program, if the part is in the cache or installed.
    pub fn find(self) -> Result<Option<PathBuf>> {
        match self {
            Self::Chromium => return Ok(Chromium::find()?.map(|found| found.browser)),
            Self::Buildah => return Ok(system::on_path(self.name())),
            _ => {}
        }
        let program = self.folder()?.join(self.program());
        Ok(program.is_file().then_some(program))
    }

    fn folder(self) -> Result<PathBuf> {
        Ok(cache_folder()?.join(format!("{}-{}", self.name(), self.version())))
    }

    /// The Java that runs this OpenSearch.
    pub fn java(self) -> Result<Java> {
        let versions = match self {
            Self::OpenSearch => 21..=99,
            // Java 24 removed the security manager that OpenSearch 2 requires.
            _ => 11..=23,
        };
        Java::find(&versions, &format!("OpenSearch {}", self.version()))
    }

    fn program(self) -> &'static str {
        match self {
            Self::OpenSearch | Self::SecureOpenSearch => "bin/opensearch",
            Self::AxeCore => maven::AXE_SCRIPT,
            Self::CargoZigbuild => "bin/cargo-zigbuild",
            binary => binary.name(),
        }
    }

    fn first_time(self) -> &'static str {
        match self {
            Self::KubeApiserver => "about 6 min on 2 cores",
            Self::KarmadaSearch => "about 5 min on 2 cores",
            Self::Kubectl
            | Self::Helm
            | Self::Helm3
            | Self::Kustomize
            | Self::Registry
            | Self::Stern
            | Self::Etcd => "about 1 min on 2 cores",
            Self::MdBook | Self::CargoCyclonedx => "about 2 min on 2 cores",
            Self::Prometheus | Self::Promtool => "about 3 min on 2 cores",
            Self::OpenSearch
            | Self::SecureOpenSearch
            | Self::Chromium
            | Self::Buildah
            | Self::CargoZigbuild => "about 20 s",
            Self::AxeCore => "about 5 s",
        }
    }

    fn lock(self, folder: &Path) -> Result<File> {
        let path = folder.with_added_extension("lock");
        let lock = File::create(&path)
            .with_context(|| format!("creating lock file {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!(
                    "waiting for another process that builds {} {} …",
                    self.name(),
                    self.version()
                );
                lock.lock()
                    .with_context(|| format!("waiting for lock file {}", path.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
        Ok(lock)
    }

    /// Builds into a temporary folder and renames it, so that an interrupted build is never taken
    /// as done.
    fn make(self, folder: &Path) -> Result<()> {
        if matches!(self, Self::OpenSearch | Self::SecureOpenSearch) {
            self.java()?;
        }
        let unfinished = folder.with_added_extension("unfinished");
        for stale in [&unfinished, folder] {
            remove_folder(stale)?;
        }
        fs::create_dir_all(&unfinished)
            .with_context(|| format!("creating {}", unfinished.display()))?;
        let made = self.make_in(&unfinished)?;
        let complete = match &made {
            Made::Program(program) => {
                let target = unfinished.join(self.program());
                fs::rename(program, &target)
                    .with_context(|| format!("renaming to {}", target.display()))?;
                unfinished.clone()
            }
            Made::Folder(inner) => inner.clone(),
            Made::Installed => return remove_folder(&unfinished),
        };
        fs::rename(&complete, folder)
            .with_context(|| format!("renaming to {}", folder.display()))?;
        remove_folder(&unfinished)?;
        Ok(())
    }

    fn make_in(self, folder: &Path) -> Result<Made> {
        let go = |module: &str, package: &str, link_flags: &str| {
            go_build(module, package, link_flags, folder).map(Made::Program)
        };
        let plain = "-s -w";
        let versioned =
            format!("{plain} -X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}");
        match self {
            Self::KubeApiserver => go(
                "kubernetes",
                "k8s.io/kubernetes/cmd/kube-apiserver",
                &versioned,
            ),
            Self::Kubectl => go("kubernetes", "k8s.io/kubernetes/cmd/kubectl", &versioned),
            Self::Etcd => go("etcd", "go.etcd.io/etcd/server/v3", plain),
            Self::Helm => {
                let version = "-X helm.sh/helm/v4/internal/version.version=v";
                let flags = [plain, " ", version, HELM_VERSION].concat();
                go("helm", "helm.sh/helm/v4/cmd/helm", &flags)
            }
            Self::Helm3 => go("helm-3", "helm.sh/helm/v3/cmd/helm", &helm_3_link_flags()),
            Self::Kustomize => go("kustomize", "sigs.k8s.io/kustomize/kustomize/v5", plain),
            Self::Registry => go(
                "registry",
                "github.com/distribution/distribution/v3/cmd/registry",
                plain,
            ),
            Self::Prometheus => go(
                "prometheus",
                "github.com/prometheus/prometheus/cmd/prometheus",
                plain,
            ),
            Self::Promtool => go(
                "prometheus",
                "github.com/prometheus/prometheus/cmd/promtool",
                plain,
            ),
            Self::KarmadaSearch => go(
                "karmada",
                "github.com/karmada-io/karmada/cmd/karmada-search",
                plain,
            ),
            Self::Stern => go("stern", "github.com/stern/stern", plain),
            Self::MdBook => cargo_install("mdbook", MDBOOK_VERSION, folder).map(Made::Program),
            Self::OpenSearch => {
                maven::unpack_opensearch(OPENSEARCH_VERSION, folder).map(Made::Folder)
            }
            Self::SecureOpenSearch => {
                let server = maven::unpack_opensearch(SECURE_OPENSEARCH_VERSION, folder)?;
                let java = self.java()?.home;
                maven::add_security_plugin(SECURITY_PLUGIN_VERSION, &server, &java, folder)?;
                Ok(Made::Folder(server))
            }
            Self::AxeCore => {
                maven::unpack_axe_core(AXE_CORE_VERSION, AXE_CORE_SHA512, folder).map(Made::Folder)
            }
            Self::Chromium => chromium::install().map(|()| Made::Installed),
            Self::Buildah => {
                let needs = "buildah on the path (Debian: apt-get install buildah)";
                system::install(&["buildah"], needs).map(|()| Made::Installed)
            }
            Self::CargoZigbuild => pip_install(folder).map(Made::Folder),
            Self::CargoCyclonedx => {
                cargo_install(self.name(), CARGO_CYCLONEDX_VERSION, folder).map(Made::Program)
            }
        }
    }
}

/// What a build left in its temporary folder.
enum Made {
    /// One file that is the part.
    Program(PathBuf),
    /// A folder that is the part.
    Folder(PathBuf),
    /// Nothing: the part is installed on this machine.
    Installed,
}

/// Builds or finds all `parts`, with one line for each of them.
pub fn ensure(parts: &[Part]) -> Result<()> {
    for part in parts {
        match part.find()? {
            Some(program) => eprintln!(
                "found {} {} at {}",
                part.name(),
                part.version(),
                program.display()
            ),
            None => drop(part.ensure()?),
        }
    }
    Ok(())
}

/// The folder that outlives checkouts: `${XDG_CACHE_HOME:-~/.cache}/fleetdex`.
pub fn cache_root() -> Result<PathBuf> {
    let explicit = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let base = explicit.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    let base = base.context("no cache folder: set XDG_CACHE_HOME or HOME")?;
    Ok(base.join("fleetdex"))
}

fn cache_folder() -> Result<PathBuf> {
    let folder = cache_root()?.join("parts");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// Removes a folder that may not exist.
pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Without a control plane helm 3 assumes the version of Kubernetes that its build names.
fn helm_3_link_flags() -> String {
    let mut flags = "-s -w".to_owned();
    let (version, _) = KUBERNETES_VERSION.rsplit_once('.').unwrap_or_default();
    let (major, minor) = version.split_once('.').unwrap_or_default();
    for package in ["pkg/chartutil", "pkg/lint/rules"] {
        for (name, value) in [("k8sVersionMajor", major), ("k8sVersionMinor", minor)] {
            flags += " -X helm.sh/helm/v3/";
            flags += &[package, ".", name, "=", value].concat();
        }
    }
    flags
}

fn go_build(module: &str, package: &str, link_flags: &str, folder: &Path) -> Result<PathBuf> {
    let module_folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("parts")
        .join(module);
    let program = folder.join("program");
    let mut go = Command::new("go");
    go.current_dir(&module_folder)
        .env("CGO_ENABLED", "0")
        .args([
            "build",
            "-trimpath",
            "-mod=readonly",
            // Of Prometheus: leaves out service discovery, which is most of it. Others know no such
            // tag.
            "-tags=remove_all_sd",
            "-ldflags",
            link_flags,
            "-o",
        ])
        .arg(&program)
        .arg(package);
    run(
        &mut go,
        "Go 1.26 or newer (Debian: apt-get install golang; otherwise https://go.dev/doc/install)",
    )?;
    Ok(program)
}

/// Without what serves, watches and searches a book: a third of the time.
fn cargo_install(package: &str, version: &str, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("installed");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        // Of a temporary folder, because a shared target folder would keep hundreds of megabytes.
        .env_remove("CARGO_TARGET_DIR")
        // With the toolchain of this repository.
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "install",
            "--locked",
            "--no-default-features",
            "--version",
            version,
            "--root",
        ])
        .arg(&root)
        .arg(package);
    run(
        &mut cargo,
        "cargo, which rustup installs (https://rustup.rs)",
    )?;
    Ok(root.join("bin").join(package))
}

/// cargo-zigbuild and Zig as the package index of Python has them: built, and with all that Zig
/// needs.
fn pip_install(folder: &Path) -> Result<PathBuf> {
    let needs = "Python 3 with pip (Debian: apt-get install python3-pip)";
    let installed = folder.join("installed");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&installed)
        .arg(format!("cargo-zigbuild=={CARGO_ZIGBUILD_VERSION}"))
        .arg(format!("ziglang=={ZIG_VERSION}"));
    run(&mut pip, needs)?;
    Ok(installed)
}

/// Builds the client-go informer of `parts/kubernetes/informer` into a folder. Every time, because
/// its source is ours and changes: with the API server in the Go build cache it takes two seconds.
pub fn build_informer(folder: &Path) -> Result<PathBuf> {
    go_build("kubernetes", "./informer", "-s -w", folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go_mod(module: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("parts")
            .join(module)
            .join("go.mod");
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn pinned_versions_match_the_go_modules() {
        assert!(go_mod("kubernetes").contains(&format!("k8s.io/kubernetes v{KUBERNETES_VERSION}")));
        assert!(go_mod("etcd").contains(&format!("go.etcd.io/etcd/server/v3 v{ETCD_VERSION}")));
        assert!(go_mod("helm").contains(&format!("helm.sh/helm/v4 v{HELM_VERSION}")));
        assert!(go_mod("helm-3").contains(&format!("helm.sh/helm/v3 v{HELM_3_VERSION}")));
        let kustomize = format!("sigs.k8s.io/kustomize/kustomize/v5 v{KUSTOMIZE_VERSION}");
        assert!(go_mod("kustomize").contains(&kustomize));
        let registry = format!("github.com/distribution/distribution/v3 v{REGISTRY_VERSION}");
        assert!(go_mod("registry").contains(&registry));
        let karmada = format!("github.com/karmada-io/karmada v{KARMADA_VERSION}");
        assert!(go_mod("karmada").contains(&karmada));
        let prometheus = format!("github.com/prometheus/prometheus v{PROMETHEUS_VERSION}");
        assert!(go_mod("prometheus").contains(&prometheus));
        assert!(go_mod("stern").contains(&format!("github.com/stern/stern v{STERN_VERSION}")));
    }

    #[test]
    fn every_part_is_found_by_its_name() {
        for part in Part::ALL.into_iter().chain(Part::ON_DEMAND) {
            assert_eq!(Part::named(part.name()).unwrap(), part);
        }
        assert!(
            Part::named("kubelet")
                .unwrap_err()
                .to_string()
                .contains("kube-apiserver")
        );
    }
}
