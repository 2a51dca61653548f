//! The Events about an object, from the index.

use fleetdex_server::table::human_duration;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    QueryArgs, aligned,
    api::{Api, Item, Shape},
    console::{CommandError, Console},
    get::{Identity, OutputError, resolve::Held, targets::Target},
    pages::{Pages, Warnings},
};

/// Events of one object at most; Kubernetes keeps them for an hour.
const MAX_EVENTS: usize = 500;

/// The two groups that tell of Events, and what they call the object that these are about. They hold the same ones.
const RESOURCES: [(&str, &str); 2] = [("", "involvedObject"), ("events.k8s.io", "regarding")];

/// Where Events are, if somebody has registered them.
#[derive(Debug)]
pub(super) struct Events<'h> {
    held: &'h Held,
    about: &'static str,
}

impl<'h> Events<'h> {
    /// Finds them among what the server holds.
    pub(super) fn among(held: &'h [Held]) -> Option<Self> {
        RESOURCES.into_iter().find_map(|(group, about)| {
            let found = held
                .iter()
                .find(|entry| entry.group == group && entry.resource.name == "events")?;
            Some(Self { held: found, about })
        })
    }

    /// Writes the Events of an object, the latest last.
    pub(super) async fn write(
        &self,
        api: &Api,
        query: &QueryArgs,
        item: &Item,
        warnings: &mut Warnings,
        console: &mut Console<'_>,
    ) -> Result<(), CommandError> {
        let Identity {
            cluster,
            namespace,
            name,
            ..
        } = Identity::of(&item.object)?;
        let object = parsed(item)?;
        let kind = object["kind"].as_str().unwrap_or_default();
        // Not by uid: kubelets write a Node's name there.
        let about = self.about;
        let query = QueryArgs {
            selector: String::new(),
            field_selector: format!("{about}.kind={kind},{about}.name={name}"),
            clusters: vec![cluster],
            limit: MAX_EVENTS,
            ..query.clone()
        };
        // Of what has no namespace, Events may be in any.
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let target = Target {
            held: self.held.clone(),
            names: Vec::new(),
        };
        let found = Pages::new(api, &query, &target, namespace.as_deref(), Shape::Objects)
            .all(warnings, console)
            .await?;
        let mut events = found
            .iter()
            .map(parsed)
            .collect::<Result<Vec<Value>, _>>()?;
        events.sort_by_cached_key(|event| moment(event).unwrap_or_default());
        if events.is_empty() {
            writeln!(console.out, "Events:  <none>")?;
            return Ok(());
        }
        writeln!(console.out, "Events:")?;
        let titles = ["  Type", "Reason", "Age", "From", "Message"]
            .map(str::to_owned)
            .to_vec();
        let rules = ["  ----", "------", "----", "----", "-------"]
            .map(str::to_owned)
            .to_vec();
        let now = Timestamp::now();
        let lines: Vec<Vec<String>> = [titles, rules]
            .into_iter()
            .chain(events.iter().map(|event| line(event, now)))
            .collect();
        Ok(aligned::write(console.out, &lines)?)
    }
}

fn parsed(item: &Item) -> Result<Value, OutputError> {
    serde_json::from_str(item.object.get()).map_err(OutputError::NoObject)
}

fn first<'e>(event: &'e Value, pointers: &[&str]) -> Option<&'e str> {
    pointers.iter().find_map(|pointer| {
        event
            .pointer(pointer)?
            .as_str()
            .filter(|text| !text.is_empty())
    })
}

/// When it was seen last.
fn moment(event: &Value) -> Option<Timestamp> {
    let places = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    first(event, &places)?.parse().ok()
}

fn line(event: &Value, now: Timestamp) -> Vec<String> {
    let age = moment(event).map(|moment| human_duration(now.as_second() - moment.as_second()));
    let text = |pointers: &[&str]| first(event, pointers).unwrap_or("<none>").to_owned();
    let counts = ["/series/count", "/count", "/deprecatedCount"];
    let count = counts
        .iter()
        .find_map(|pointer| event.pointer(pointer)?.as_i64())
        .unwrap_or(1);
    let age = age.unwrap_or_else(|| "<unknown>".to_owned());
    vec![
        format!("  {}", text(&["/type"])),
        text(&["/reason"]),
        if count > 1 {
            format!("{age} (x{count})")
        } else {
            age
        },
        text(&[
            "/source/component",
            "/reportingComponent",
            "/reportingController",
            "/deprecatedSource/component",
        ]),
        text(&["/message", "/note"]).trim().replace('\n', " "),
    ]
}
