//! The image, made without an engine: static programs by cargo-zigbuild, and the last stage of the
//! Dockerfile by buildah.

mod archive;
mod components;
mod container;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde_json::Value;

use self::{archive::unpack, components::add_go_modules, container::Container};
use crate::{
    fleet::target_folder,
    parts::{Part, remove_folder},
};

/// `e2e image`
#[derive(clap::Args, Debug, Clone)]
pub struct ImageArgs {
    /// For which processors.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Architecture::value_variants().to_owned())]
    architecture: Vec<Architecture>,
    /// The profile of cargo. Others than `dist` compile faster, and are for trying the image out.
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Then run the demo with the program of the image, on its root file system.
    #[arg(long)]
    demo: bool,
}

/// A processor, as images name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Architecture {
    /// `x86_64`
    Amd64,
    /// `aarch64`
    Arm64,
}

impl Architecture {
    fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// What the compiler calls it.
    fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    fn is_ours(self) -> bool {
        self.target().starts_with(env::consts::ARCH)
    }
}

/// The folders of a build.
struct Build<'a> {
    profile: &'a str,
    /// Everything that is made on the way.
    folder: PathBuf,
    /// Where the results go.
    package: PathBuf,
}

/// Makes the image and the list of what the program consists of.
pub fn run(args: &ImageArgs) -> Result<()> {
    let target = target_folder()?;
    let build = Build {
        profile: &args.profile,
        folder: target.join("image"),
        package: target.join("package"),
    };
    fs::create_dir_all(&build.package).context("creating target/package")?;
    for architecture in &args.architecture {
        build.compile(*architecture)?;
    }
    let archive = build.assemble(&args.architecture)?;
    let components = build.list_components(args.architecture.first())?;
    println!("{}", archive.display());
    println!("{}", components.display());
    for architecture in &args.architecture {
        build.check(*architecture, &archive, args.demo)?;
    }
    Ok(())
}

impl Build<'_> {
    /// The root file system of an image, as the Dockerfile expects it of its first stage.
    fn stage(&self, architecture: Architecture) -> PathBuf {
        self.folder.join(architecture.name())
    }

    /// Where `image/renderers` puts helm, kustomize and their licences.
    fn renderers(&self, architecture: Architecture) -> PathBuf {
        self.stage(architecture).join("renderers")
    }

    fn compile(&self, architecture: Architecture) -> Result<()> {
        let target = architecture.target();
        let zigbuild = Part::CargoZigbuild.ensure()?;
        let installed = zigbuild.ancestors().nth(2).context("no folder of Zig")?;
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = [installed.join("ziglang"), installed.join("bin")];
        let path = env::join_paths(folders.into_iter().chain(env::split_paths(&path)))?;
        succeed(in_repository("rustup").args(["target", "add", target]))?;
        let mut cargo = in_repository("cargo");
        cargo
            .args([
                "zigbuild",
                "--locked",
                "--package",
                "fleetdex",
                "--bin",
                "fleetdex",
            ])
            .args(["--target", target, "--profile", self.profile])
            .env("PATH", path)
            .env("CARGO_TARGET_DIR", self.folder.join("cargo"))
            .env("CARGO_INCREMENTAL", "0");
        // Neither the program nor its panics name folders of the machine that builds it.
        let (repository, cargo_home) = (repository(), cargo_home()?);
        let from_to = [
            (repository.as_path(), "/fleetdex"),
            (&*cargo_home, "/cargo"),
        ];
        let remap = |flag: &str| {
            let flags = from_to.map(|(from, to)| format!("{flag}={}={to}", from.display()));
            flags.join(" ")
        };
        cargo
            .env("RUSTFLAGS", remap("--remap-path-prefix"))
            .env("CFLAGS", remap("-ffile-prefix-map"))
            .env("CXXFLAGS", remap("-ffile-prefix-map"));
        succeed(&mut cargo)?;
        let profile_folder = if self.profile == "dev" {
            "debug"
        } else {
            self.profile
        };
        let program = self
            .folder
            .join("cargo")
            .join(target)
            .join(profile_folder)
            .join("fleetdex");
        let stripped = self.stage(architecture).join("fleetdex");
        fs::create_dir_all(self.stage(architecture)).context("creating a folder")?;
        strip(&program, &stripped)?;
        let renderers = self.renderers(architecture);
        let mut build = in_repository("image/renderers");
        succeed(build.arg(architecture.name()).arg(&renderers))?;
        let mut root = in_repository("image/root");
        root.arg(stripped).arg(target).arg(renderers);
        succeed(root.arg(self.stage(architecture).join("out")))
    }

    /// Makes one image of all architectures, as an archive that `skopeo copy oci-archive:…` and
    /// `podman load` read.
    fn assemble(&self, architectures: &[Architecture]) -> Result<PathBuf> {
        let program = Part::Buildah.ensure()?;
        let storage = self.folder.join("storage");
        let buildah = || {
            let mut buildah = in_repository(&program);
            // Of its own, so that nothing is left in that of the user.
            buildah
                .args(["--storage-driver", "vfs", "--root"])
                .arg(&storage)
                .arg("--runroot")
                .arg(self.folder.join("run"));
            buildah
        };
        let name = "localhost/fleetdex";
        remove_folder(&storage)?;
        // All that the image has is in the stage: nothing is read from this folder.
        let empty = self.folder.join("empty");
        fs::create_dir_all(&empty).context("creating an empty folder")?;
        for architecture in architectures {
            let stage = self.stage(*architecture);
            let mut build = buildah();
            build
                .args([
                    "build",
                    "--quiet",
                    "--isolation",
                    "chroot",
                    "--manifest",
                    name,
                ])
                .args(["--file", "Dockerfile", "--platform"])
                .arg(format!("linux/{}", architecture.name()))
                .arg(format!("--build-context=build={}", stage.display()))
                .arg(format!("--timestamp={}", commit("%ct")?))
                .arg(format!(
                    "--label=org.opencontainers.image.revision={}",
                    commit("%H")?
                ))
                .arg(concat!(
                    "--label=org.opencontainers.image.version=",
                    env!("CARGO_PKG_VERSION")
                ))
                .arg(&empty);
            succeed(&mut build)?;
        }
        let archive = self.package.join("fleetdex-image.tar");
        if archive.exists() {
            fs::remove_file(&archive).context("removing the image before")?;
        }
        let mut push = buildah();
        push.args(["manifest", "push", "--quiet", "--all", name])
            .arg(format!("oci-archive:{}", archive.display()));
        succeed(&mut push)?;
        remove_folder(&storage)?;
        Ok(archive)
    }

    /// Writes the bill of materials: the crates of the program and the Go modules of helm and
    /// kustomize, with versions and licences. Which modules these are does not depend on the
    /// processor.
    fn list_components(&self, built: Option<&Architecture>) -> Result<PathBuf> {
        let mut cyclonedx = in_repository(Part::CargoCyclonedx.ensure()?);
        cyclonedx.args(["cyclonedx", "--format", "json", "--describe", "binaries"]);
        cyclonedx.args(["--no-build-deps", "--target", Architecture::Amd64.target()]);
        succeed(&mut cyclonedx)?;
        // It lists the programs of all packages, each beside its package; .gitignore has the
        // others.
        let written = repository().join("fleetdex_bin.cdx.json");
        let components = self.package.join("fleetdex.cdx.json");
        let text = fs::read(&written).with_context(|| format!("reading {}", written.display()))?;
        let mut bill: Value = serde_json::from_slice(&text).context("parsing the components")?;
        let built = built.context("no architecture is named")?;
        let modules = self.renderers(*built).join("licenses/go-modules.tsv");
        let modules = fs::read_to_string(modules).context("reading the modules of helm")?;
        add_go_modules(&mut bill, &modules)?;
        let text = serde_json::to_string_pretty(&bill).context("encoding the components")?;
        fs::write(&components, text).context("writing the components")?;
        fs::remove_file(&written).with_context(|| format!("removing {}", written.display()))?;
        Ok(components)
    }

    /// Unpacks the image and runs its programs.
    fn check(&self, architecture: Architecture, archive: &Path, demo: bool) -> Result<()> {
        let name = architecture.name();
        let root = self.folder.join(format!("unpacked-{name}"));
        remove_folder(&root)?;
        unpack(archive, name, &root)?;
        let container = Container::new(root, repository())?;
        if !architecture.is_ours() {
            let emulator = format!(
                "qemu-{}-static",
                architecture.target().split('-').next().unwrap_or_default()
            );
            match container.version_with(&emulator)? {
                Some(version) => println!("linux/{name}: {version}, in {emulator}"),
                None => {
                    println!("linux/{name}: not run, because there is no {emulator} on the path");
                }
            }
            return Ok(());
        }
        println!("linux/{name}: {}", container.version()?);
        container.render()?;
        println!("linux/{name}: renders a chart and a folder");
        if !demo {
            return Ok(());
        }
        let mut ourselves = Command::new(env::current_exe().context("finding this program")?);
        ourselves
            .args(["demo", "--exit"])
            .env("FLEETDEX_BIN", container.launcher());
        succeed(&mut ourselves)
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default()
}

fn in_repository(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(repository());
    command
}

fn cargo_home() -> Result<PathBuf> {
    let explicit = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = explicit.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    home.context("no folder of cargo: set CARGO_HOME or HOME")
}

/// A property of the newest commit.
fn commit(format: &str) -> Result<String> {
    let mut git = in_repository("git");
    printed(git.args(["log", "-1", &format!("--format={format}")]))
}

/// Removes symbols and debug information, with the tool of the Rust toolchain: Zig's linker leaves
/// them in the program, and `strip` of the machine knows no other processor.
fn strip(program: &Path, stripped: &Path) -> Result<()> {
    let mut rustc = in_repository("rustc");
    let libraries = Path::new(&printed(rustc.args(["--print", "sysroot"]))?).join("lib");
    let targets = fs::read_dir(libraries.join("rustlib")).context("listing the targets of Rust")?;
    let mut tools = targets
        .flatten()
        .map(|target| target.path().join("bin/rust-objcopy"));
    let tool = tools.find(|tool| tool.is_file());
    let mut objcopy = Command::new(tool.context("the Rust toolchain has no rust-objcopy")?);
    objcopy
        .env("LD_LIBRARY_PATH", libraries)
        .arg("--strip-all")
        .args([program, stripped]);
    succeed(&mut objcopy)
}

/// What a command prints.
fn printed(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("running {program}"))?;
    let (out, error) = (
        output.stdout,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    ensure!(output.status.success(), "{program}: {error}");
    Ok(String::from_utf8_lossy(&out).trim().to_owned())
}

/// Runs a command whose output is shown.
fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("running {program}"))?;
    if status.success() {
        return Ok(());
    }
    bail!("{program} failed: {status}")
}
