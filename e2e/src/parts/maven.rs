//! Parts that Maven fetches. It resolves mirrors and proxies the way its user has set them up.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha512};

use super::command::run;
use crate::hexadecimal::hexadecimal;

/// The file of axe-core in Deque's artifact for Selenium.
pub(super) const AXE_SCRIPT: &str = "axe.min.js";

/// Unpacks the minimal OpenSearch server, and returns its folder.
pub(super) fn unpack_opensearch(version: &str, folder: &Path) -> Result<PathBuf> {
    let server = format!("org.opensearch.distribution.integ-test-zip:opensearch:{version}:zip");
    maven(folder, "unpack", &server, folder, &[])?;
    Ok(folder.join(format!("opensearch-{version}")))
}

/// Adds the security plugin to the unpacked `server`, with the Java that runs it.
pub(super) fn add_security_plugin(
    plugin_version: &str,
    server: &Path,
    java_home: &Path,
    folder: &Path,
) -> Result<()> {
    let plugin = format!("org.opensearch.plugin:opensearch-security:{plugin_version}:zip");
    maven(folder, "copy", &plugin, folder, &[])?;
    let plugin_file = folder.join(format!("opensearch-security-{plugin_version}.zip"));
    let mut install = Command::new(server.join("bin/opensearch-plugin"));
    install.env("OPENSEARCH_JAVA_HOME", java_home);
    install
        .args(["install", "-b"])
        .arg(format!("file://{}", plugin_file.display()));
    run(&mut install, "to add the security plugin to OpenSearch").map(drop)
}

/// Unpacks the script of axe-core, and returns its folder. A script with another checksum is an
/// error.
pub(super) fn unpack_axe_core(version: &str, sha512: &str, folder: &Path) -> Result<PathBuf> {
    let artifact = format!("com.deque.html.axe-core:selenium:{version}:jar");
    let only_the_script = format!("-Dmdep.unpack.includes={AXE_SCRIPT}");
    let unpacked = folder.join("axe-core");
    maven(folder, "unpack", &artifact, &unpacked, &[&only_the_script])?;
    let script = unpacked.join(AXE_SCRIPT);
    let content = fs::read(&script).with_context(|| format!("reading {}", script.display()))?;
    let actual = hexadecimal(&Sha512::digest(&content));
    ensure!(
        actual == sha512,
        "{AXE_SCRIPT} of {artifact} has the SHA-512 checksum {actual}; expected: {sha512}"
    );
    Ok(unpacked)
}

/// Runs a goal of Maven's dependency plugin.
fn maven(
    work_folder: &Path,
    goal: &str,
    artifact: &str,
    output: &Path,
    settings: &[&str],
) -> Result<()> {
    let mut mvn = Command::new("mvn");
    mvn.current_dir(work_folder)
        .args([
            "--quiet",
            "--batch-mode",
            &format!("dependency:{goal}"),
            &format!("-Dartifact={artifact}"),
        ])
        .args(settings)
        .arg(format!("-DoutputDirectory={}", output.display()));
    run(
        &mut mvn,
        "Maven and a JDK, to fetch OpenSearch and axe-core (Debian: apt-get install maven)",
    )?;
    Ok(())
}
