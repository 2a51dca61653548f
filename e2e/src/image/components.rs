//! The bill of materials: what cargo-cyclonedx lists, and the Go modules of the programs that
//! render.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The modules that are programs of their own in the image.
const PROGRAMS: [&str; 2] = ["helm.sh/helm/v4", "sigs.k8s.io/kustomize/kustomize/v5"];

/// Adds the modules that `image/renderers` has listed. Source of names and versions:
/// <https://github.com/package-url/purl-spec/blob/main/types-doc/golang-definition.md>
pub(super) fn add_go_modules(bill: &mut Value, modules: &str) -> Result<()> {
    let components = bill["components"].as_array_mut();
    let components = components.context("the list of components has no components")?;
    for line in modules.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        ensure!(
            fields.len() == 5,
            "a line of modules has no 5 fields: {line}"
        );
        let (name, version, license, source) = (fields[0], fields[1], fields[2], fields[3]);
        let purl = format!("pkg:golang/{name}@{version}");
        let is_program = PROGRAMS.contains(&name);
        let mut component = json!({
            "type": if is_program { "application" } else { "library" },
            "bom-ref": purl, "name": name, "version": version, "scope": "required", "purl": purl,
            "externalReferences": [{"type": "website", "url": source}],
        });
        if !license.contains("see the text") {
            component["licenses"] = json!([{"expression": license}]);
        }
        components.push(component);
    }
    for program in PROGRAMS {
        let mut names = modules.lines().filter_map(|line| line.split('\t').next());
        ensure!(
            names.any(|name| name == program),
            "the list of modules has no {program}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_components_with_their_licences() {
        let mut bill = json!({"components": [{"name": "serde"}]});
        let modules = "helm.sh/helm/v4\tv4.3.1\tApache-2.0\thttps://helm.sh/helm/v4\ta b\n\
                       odd\tv1.0.0\tsee the text\thttps://odd\t\n\
                       sigs.k8s.io/kustomize/kustomize/v5\tv5.8.2\tApache-2.0\thttps://k\tc\n";
        add_go_modules(&mut bill, modules).unwrap();
        let components = bill["components"].as_array().unwrap();
        assert_eq!(components.len(), 4);
        assert_eq!(components[1]["purl"], "pkg:golang/helm.sh/helm/v4@v4.3.1");
        assert_eq!(components[1]["type"], "application");
        assert_eq!(components[1]["licenses"][0]["expression"], "Apache-2.0");
        assert_eq!(components[2]["type"], "library");
        assert_eq!(components[2].get("licenses"), None);
        let error = add_go_modules(&mut bill, "a\tb\n").unwrap_err();
        assert!(error.to_string().contains("5 fields"), "{error}");
        let error = add_go_modules(&mut bill, "a\tv1\tMIT\thttps://a\tb\n").unwrap_err();
        assert!(error.to_string().contains("no helm.sh"), "{error}");
    }
}
