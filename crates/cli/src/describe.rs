//! `fleetdex describe`: all that the index knows of an object, for people to read.

mod events;
mod outline;

use std::{collections::BTreeSet, fmt::Write as _, process::ExitCode};

use fleetdex_core::{model::CLUSTER_ANNOTATION, terminal::escaped};
use serde_json::{Map, Value};

use self::events::Events;
use super::{
    QueryArgs,
    api::{Api, Item, Place, Shape},
    console::{self, CommandError, Console},
    get::{Identity, OutputError, targets::targets},
    pages::{Pages, Warnings, namespace, tell_missing, unlimited},
};

/// Objects asked for at a time.
const PAGE: usize = 100;
/// What stands for nothing.
const NONE: &str = "<none>";
/// Where the values of the first lines begin.
const FIRST_WIDTH: usize = 14;

/// Describes objects of the fleet.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("limit", unlimited))]
pub struct Args {
    /// What to describe.
    #[command(flatten)]
    pub query: QueryArgs,

    /// Show the Events about it, if Events are registered
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL", env = "FLEETDEX_SHOW_EVENTS")]
    pub show_events: bool,

    /// Whom to ask.
    #[command(flatten)]
    pub server: Place,
}

/// Asks, describes, and tells how it went.
pub async fn run(args: &Args) -> ExitCode {
    console::run(async |console: &mut Console<'_>| describe(args, console).await).await
}

/// Whether everything that was named was found.
async fn describe(args: &Args, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let held = api.held().await?;
    let namespace = namespace(&args.query, &api)?;
    let events = Events::among(&held).filter(|_| args.show_events);
    let mut warnings = Warnings::default();
    let (mut is_complete, mut is_first) = (true, true);
    for target in targets(&args.query.resource, &args.query.names, &held)? {
        let mut found = BTreeSet::new();
        let mut pages = Pages::new(
            &api,
            &args.query,
            &target,
            namespace.as_deref(),
            Shape::Objects,
        )
        .in_chunks(PAGE);
        while let Some(page) = pages.next(&mut warnings, console).await? {
            for item in page.items {
                if !std::mem::take(&mut is_first) {
                    write!(console.out, "\n\n")?;
                }
                found.insert(Identity::of(&item.object)?.name);
                console.out.write_all(description(&item)?.as_bytes())?;
                if let Some(events) = &events {
                    events
                        .write(&api, &args.query, &item, &mut warnings, console)
                        .await?;
                }
            }
            console.out.flush()?;
        }
        is_complete &= tell_missing(&target, &found, console)?;
    }
    if is_first && is_complete {
        let place = namespace
            .map(|name| format!(" in {name} namespace"))
            .unwrap_or_default();
        writeln!(console.err, "No resources found{place}.")?;
    }
    Ok(is_complete)
}

/// Who it is, and an outline of the rest, with what a terminal would act on escaped.
fn description(item: &Item) -> Result<String, OutputError> {
    let mut object: Map<String, Value> =
        serde_json::from_str(item.object.get()).map_err(OutputError::NoObject)?;
    let Identity {
        cluster,
        namespace,
        name,
        ..
    } = Identity::of(&item.object)?;
    let at = |pointer: &[&str]| {
        pointer
            .iter()
            .try_fold(&object, |map, key| map.get(*key)?.as_object())
    };
    let annotations: Map<String, Value> = at(&["metadata", "annotations"])
        .cloned()
        .unwrap_or_default()
        .into_iter()
        .filter(|(key, _)| key != CLUSTER_ANNOTATION)
        .collect();
    let text = |key: &str| {
        object
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut out = String::new();
    first_line(&mut out, "Name", &[name]);
    if !namespace.is_empty() {
        first_line(&mut out, "Namespace", &[namespace]);
    }
    first_line(&mut out, "Cluster", &[cluster]);
    first_line(&mut out, "Labels", &pairs(at(&["metadata", "labels"]), '='));
    first_line(&mut out, "Annotations", &pairs(Some(&annotations), ':'));
    first_line(&mut out, "API Version", &[text("apiVersion")]);
    first_line(&mut out, "Kind", &[text("kind")]);
    let owners = owners(&object);
    if !owners.is_empty() {
        first_line(&mut out, "Owned By", &owners);
    }
    let metadata = outline::metadata(&object);
    object.retain(|key, _| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
    object.insert("metadata".to_owned(), Value::Object(metadata));
    outline::write(&mut out, &object, 0);
    Ok(escaped(&out).into_owned())
}

fn first_line(out: &mut String, title: &str, values: &[String]) {
    let title = format!("{title}:");
    let values = if values.is_empty() {
        NONE.to_owned()
    } else {
        values.join(&format!("\n{}", " ".repeat(FIRST_WIDTH)))
    };
    let written = writeln!(out, "{title:FIRST_WIDTH$}{values}");
    debug_assert!(written.is_ok(), "writing to a String cannot fail");
}

/// Sorted, one on each line.
fn pairs(entries: Option<&Map<String, Value>>, separator: char) -> Vec<String> {
    let blank = if separator == ':' { " " } else { "" };
    let one = |(key, value): (&String, &Value)| {
        let text = value
            .as_str()
            .unwrap_or_default()
            .replace('\n', &format!("\n{}", " ".repeat(FIRST_WIDTH + 2)));
        format!("{key}{separator}{blank}{text}")
    };
    let mut pairs: Vec<String> = entries.into_iter().flatten().map(one).collect();
    pairs.sort_unstable();
    pairs
}

/// `ReplicaSet/web-5d`, the controller first. Owners live in the object's own cluster.
fn owners(object: &Map<String, Value>) -> Vec<String> {
    let references = object
        .get("metadata")
        .and_then(|metadata| metadata["ownerReferences"].as_array());
    let mut references: Vec<&Value> = references.into_iter().flatten().collect();
    references.sort_by_key(|owner| owner["controller"] != true);
    let cluster = object
        .get("metadata")
        .and_then(|metadata| metadata["annotations"][CLUSTER_ANNOTATION].as_str());
    let name = |owner: &Value| {
        let [kind, name] = ["kind", "name"].map(|key| owner[key].as_str().unwrap_or_default());
        let role = if owner["controller"] == true {
            ", its controller"
        } else {
            ""
        };
        format!("{kind}/{name} ({}{role})", cluster.unwrap_or_default())
    };
    references.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    #[test]
    fn nothing_of_an_object_controls_the_terminal() {
        let text = "\u{1b}[2J\r\u{9b}";
        let object = json!({ "kind": text, "metadata": { "name": text, "labels": { "a": text }, "annotations": { "b": text } }, "spec": { text: [text] } });
        let shown = description(&Item {
            object: to_raw_value(&object).unwrap(),
            cells: Vec::new(),
        })
        .unwrap();
        assert!(
            shown.contains("^[[2J\\r")
                && !shown.contains(|letter: char| letter.is_control() && letter != '\n'),
            "{shown:?}"
        );
    }

    #[test]
    fn a_description_begins_with_who_it_is_and_outlines_the_rest() {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-0", "namespace": "web", "uid": "u-1", "creationTimestamp": "2026-02-03T09:59:00Z",
                "labels": { "tier": "front", "app": "web" },
                "annotations": { CLUSTER_ANNOTATION: "member1", "note": "two\nlines" },
                "ownerReferences": [
                    { "kind": "Backup", "name": "nightly" },
                    { "kind": "ReplicaSet", "name": "web-5d", "controller": true },
                ],
            },
            "spec": { "nodeName": "n1", "containers": [{ "name": "main", "image": "example.com/web", "args": ["-v"] }] },
            "status": { "phase": "Running" },
        });
        let item = Item {
            object: to_raw_value(&object).unwrap(),
            cells: Vec::new(),
        };
        insta::assert_snapshot!(description(&item).unwrap(), @r"
        Name:         web-0
        Namespace:    web
        Cluster:      member1
        Labels:       app=web
                      tier=front
        Annotations:  note: two
                        lines
        API Version:  v1
        Kind:         Pod
        Owned By:     ReplicaSet/web-5d (member1, its controller)
                      Backup/nightly (member1)
        Metadata:
          Creation Timestamp:  2026-02-03T09:59:00Z
          UID:                 u-1
        Spec:
          Containers:
            Args:
              -v
            Image:  example.com/web
            Name:   main
          Node Name:  n1
        Status:
          Phase:  Running
        ");
    }
}
