//! Reads the rules of the levels: customizations, Argo CD's scripts, webhook configurations.

use std::path::Path;

use fleetdex_cli::documents::{
    DocumentError, DocumentReader, SourceDocument, has_known_extension, parse,
};
use fleetdex_core::model::causes;
use fleetdex_interpreter::{
    customization::{Customization, CustomizationSet, ScriptConflict},
    levels::Levels,
    script::ArgoHealth,
    webhook::configuration::{Webhook, WebhookConfiguration},
};
use serde_json::{Map, Value, json};

use super::{args::InterpretArgs, rules::check_type};

/// The key of a `ConfigMap` with a map of scripts, in which names may be wildcards.
const ALL_KINDS: &str = "resource.customizations";

/// The rules of a level cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LevelSourceError {
    /// A source cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A document is of another kind, or has no usable script; the message names its source.
    #[error("{0}")]
    Unusable(String),
}

/// The levels that answer, and what errors and warnings name of their customizations.
pub struct NamedLevels {
    /// The levels.
    pub levels: Levels,
    /// Whether there are several customizations, so that an error says which one has failed. Of one
    /// the texts are those of `karmadactl`.
    pub has_several_customizations: bool,
    /// Scripts that are not used, because another customization has one for the same operation and
    /// kind.
    pub conflicts: Vec<ScriptConflict>,
}

/// Reads the levels that the flags name. With customizations the built-in rules are off: a user who
/// tries one out wants to see what it says, and `karmadactl` has no other rules.
pub async fn levels(
    args: &InterpretArgs,
    reader: &mut DocumentReader<'_>,
) -> Result<NamedLevels, LevelSourceError> {
    let mut levels = Levels::built_in();
    let mut has_several_customizations = false;
    let mut conflicts = Vec::new();
    if !args.filenames.is_empty() {
        let customizations = customizations(args, reader).await?;
        has_several_customizations = customizations.len() > 1;
        let set = CustomizationSet::new(&customizations);
        conflicts = set.conflicts().to_vec();
        levels = levels.with_customizations(&set).without_built_in_rules();
    }
    if let Some(name) = &args.argocd_health {
        levels = levels.with_argocd(argocd(name, reader).await?);
    }
    if !args.webhooks.is_empty() {
        levels = levels.with_webhooks(webhooks(&args.webhooks, reader).await?);
    }
    Ok(NamedLevels {
        levels,
        has_several_customizations,
        conflicts,
    })
}

/// The customizations of `--filename`. The name of each has its file, for errors; a blank follows
/// the name, which sorts it before all characters of names, so that the order stays that of the
/// names.
async fn customizations(
    args: &InterpretArgs,
    reader: &mut DocumentReader<'_>,
) -> Result<Vec<Customization>, LevelSourceError> {
    let mut customizations = Vec::new();
    for SourceDocument { source, content } in
        reader.objects(&args.filenames, args.recursive).await?
    {
        check_type(&content).map_err(|problem| {
            let text = format!("fail to get customization object: {source}: {problem}");
            LevelSourceError::Unusable(text)
        })?;
        customizations.extend(Customization::parse(&content).map(|parsed| Customization {
            name: format!("{} ({source})", parsed.name).trim_start().into(),
            ..parsed
        }));
    }
    Ok(customizations)
}

async fn webhooks(
    names: &[String],
    reader: &mut DocumentReader<'_>,
) -> Result<Vec<Webhook>, LevelSourceError> {
    let mut webhooks = Vec::new();
    for document in reader.objects(names, false).await? {
        let configuration = WebhookConfiguration::parse(&document.content).ok_or_else(|| {
            let text = |key: &str| document.content[key].as_str().unwrap_or_default();
            LevelSourceError::Unusable(format!(
                "{}: not a ResourceInterpreterWebhookConfiguration or ResourceExploringWebhookConfiguration, got {}, Kind={}",
                document.source,
                text("apiVersion"),
                text("kind"),
            ))
        })?;
        webhooks.extend(configuration.webhooks);
    }
    Ok(webhooks)
}

/// Reads Argo CD's health scripts: a `ConfigMap`, its data, or one script for every kind.
async fn argocd(
    name: &str,
    reader: &mut DocumentReader<'_>,
) -> Result<ArgoHealth, LevelSourceError> {
    let mut data = Map::new();
    for (source, text) in reader.texts(name, false).await? {
        let failed = |reason: String| unusable_scripts(&source, &reason);
        let is_yaml = has_known_extension(Path::new(&source));
        let documents = match parse(&source, &text) {
            Ok(documents) if documents.iter().all(|found| may_have_keys(found, is_yaml)) => {
                documents
            }
            Err(error) if is_yaml => return Err(error.into()),
            _ => {
                data.insert(ALL_KINDS.to_owned(), script_for_all_kinds(&text));
                continue;
            }
        };
        for document in documents {
            data.extend(config_map_data(document).map_err(failed)?);
        }
    }
    ArgoHealth::from_data(&data).map_err(|error| unusable_scripts(name, &causes(&error)))
}

fn unusable_scripts(source: &str, reason: &str) -> LevelSourceError {
    LevelSourceError::Unusable(format!("--argocd-health {source}: {reason}"))
}

/// Whether a document is a `ConfigMap`, or another object, or the data of a `ConfigMap`. Short
/// scripts are YAML, too: a label such as `::continue::` ends in a colon, as a key does. Where the
/// name does not say what a file is, its data must have a key of Argo CD.
fn may_have_keys(document: &Value, is_yaml: bool) -> bool {
    document.as_object().is_some_and(|members| {
        is_yaml
            || members.contains_key("kind")
            || members.keys().any(|key| key.starts_with(ALL_KINDS))
    })
}

/// The value of that key with one script. Its `*` spans groups and kinds. JSON is YAML.
fn script_for_all_kinds(text: &str) -> Value {
    json!({"*": {"health.lua": text}}).to_string().into()
}

/// The data of a `ConfigMap`. A document without a kind is the data itself.
fn config_map_data(mut document: Value) -> Result<Map<String, Value>, String> {
    let data = match document["kind"].as_str() {
        Some("ConfigMap") => document["data"].take(),
        None => document,
        Some(kind) => return Err(format!("it is a {kind}, not a ConfigMap or a Lua script")),
    };
    match data {
        Value::Object(data) => Ok(data),
        _ => Err("the ConfigMap has no data".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn script_of(name: &str, text: &str, kind: &str) -> Result<bool, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mut nothing = std::io::empty();
        let mut reader = DocumentReader::new(&mut nothing);
        let scripts = argocd(&path.display().to_string(), &mut reader)
            .await
            .map_err(|error| error.to_string())?;
        Ok(scripts.script_for("example.io", kind).is_some())
    }

    #[tokio::test]
    async fn a_lua_file_is_a_script_for_every_kind() {
        for text in [
            "hs = {}\nhs.status = \"Healthy\"\nreturn hs",
            "-- a comment: with a colon\nreturn nil",
            "return {status = 'Healthy'}",
            "for i = 1, 2 do goto next ::next:: end return nil",
        ] {
            assert_eq!(
                script_of("health.lua", text, "Foo").await,
                Ok(true),
                "{text}"
            );
            assert_eq!(script_of("health", text, "Foo").await, Ok(true), "{text}");
        }
    }

    #[tokio::test]
    async fn a_config_map_has_scripts_for_its_keys() {
        let data =
            "resource.customizations.health.example.io_Foo: |\n    return {status = 'Healthy'}\n";
        let config_map = format!("apiVersion: v1\nkind: ConfigMap\ndata:\n  {data}");
        assert_eq!(script_of("cm.yaml", &config_map, "Foo").await, Ok(true));
        assert_eq!(script_of("cm.yaml", &config_map, "Bar").await, Ok(false));
        assert_eq!(script_of("cm.yaml", data, "Foo").await, Ok(true));
    }

    #[tokio::test]
    async fn another_object_is_refused() {
        let error = script_of("x.yaml", "apiVersion: v1\nkind: Pod", "Foo").await;
        assert!(error.unwrap_err().contains("it is a Pod, not a ConfigMap"));
        let error = script_of("x.yaml", "a: [", "Foo").await;
        assert!(error.unwrap_err().contains("error parsing"));
    }
}
