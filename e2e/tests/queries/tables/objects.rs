//! The objects whose tables are compared.

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{objects::Objects, scenario::until};
use fleetdex_core::{kinds, model::Scope};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

const CUSTOM: &str = "apis/example.com/";
const CERTIFICATES: &str = "apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Every object of the files, in their order.
pub fn all() -> Result<Vec<Value>> {
    let files = [
        include_str!("objects.yaml"),
        include_str!("pods.yaml"),
        include_str!("widgets.yaml"),
    ];
    let documents = files.iter().flat_map(|file| file.split("\n---\n"));
    documents
        .map(|text| serde_saphyr::from_str(text).with_context(|| text.to_owned()))
        .collect()
}

/// Creates them, writes their statuses, and deletes those that are to be listed as terminating.
pub async fn create(member: &Objects) -> Result<()> {
    let mut refused = Vec::new();
    for object in all()? {
        if let Err(error) = create_one(member, &object).await {
            refused.push(format!("{error:#}"));
        }
    }
    ensure!(refused.is_empty(), "{}", refused.join("\n"));
    request_certificates(member).await
}

async fn create_one(member: &Objects, object: &Value) -> Result<()> {
    let path = path(object)?;
    if path.starts_with(CUSTOM) {
        // A custom kind is served shortly after its definition.
        until(&path, || member.apply(&path, object)).await?;
    } else {
        member.apply(&path, object).await?;
    }
    if object["status"].is_object() {
        let target = format!("{path}/status");
        let patch = json!({ "status": object["status"] });
        member.merge(&target, &patch).await?;
    }
    if object["metadata"]["labels"]["delete"] == "me" {
        member.delete(&path).await?;
    }
    Ok(())
}

/// The path of an object.
fn path(object: &Value) -> Result<String> {
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (name, namespace) = (
        text(&object["metadata"]["name"]),
        text(&object["metadata"]["namespace"]),
    );
    if api_version.starts_with("example.com/") {
        let in_namespace = if namespace.is_empty() {
            String::new()
        } else {
            format!("namespaces/{namespace}/")
        };
        return Ok(format!(
            "apis/{api_version}/{in_namespace}{}s/{name}",
            kind.to_lowercase()
        ));
    }
    let known = kinds::all()
        .iter()
        .find(|entry| entry.kind == kind && entry.gvk().api_version() == api_version);
    let resource = known
        .with_context(|| format!("no kind {api_version} {kind}"))?
        .resource();
    let scope = if namespace.is_empty() {
        Scope::All
    } else {
        Scope::Namespace(namespace.parse()?)
    };
    Ok(format!("{}/{name}", resource.path(&scope))
        .trim_start_matches('/')
        .to_owned())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// One pending, one approved, and one denied request.
async fn request_certificates(member: &Objects) -> Result<()> {
    let key = KeyPair::generate()?;
    let request = CertificateParams::new(Vec::new())?
        .serialize_request(&key)?
        .pem()?;
    for (name, decision, seconds) in [
        ("waiting", "", None),
        ("approved", "Approved", Some(7_200)),
        ("denied", "Denied", None),
    ] {
        let object = json!({ "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": { "name": name },
            "spec": { "request": STANDARD.encode(&request), "signerName": "example.com/signer", "usages": ["client auth"],
                "expirationSeconds": seconds } });
        member.create(CERTIFICATES, &object).await?;
        if decision.is_empty() {
            continue;
        }
        let condition = json!({ "status": { "conditions": [{ "type": decision, "status": "True", "reason": "Test" }] } });
        member
            .merge(&format!("{CERTIFICATES}/{name}/approval"), &condition)
            .await?;
    }
    Ok(())
}
