//! The load balancers of Services and Ingresses: the union of what all members have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::report::{reported, with_status};
use crate::{
    request::AggregatedStatusItem,
    value::{at, integer, list, text},
};

const ENTRIES: [&str; 2] = ["loadBalancer", "ingress"];

/// The load balancers of a Service of that type. Other Services are left as they are.
pub fn service(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    if text(object, &["spec", "type"]) == "LoadBalancer" {
        aggregated(object, items, true)
    } else {
        object.clone()
    }
}

/// The load balancers of an Ingress.
pub fn ingress(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    aggregated(object, items, false)
}

fn aggregated(object: &Value, items: &[AggregatedStatusItem], with_ip_mode: bool) -> Value {
    // Entries differ by, and are ordered by, host name, those without one last, then by IP, then by
    // mode.
    let mut ports_of: BTreeMap<_, BTreeSet<BalancerPort<'_>>> = BTreeMap::new();
    let entries = reported(items).flat_map(|(_, status)| list(status, &ENTRIES));
    for entry in entries.filter(|entry| entry.is_object()) {
        let hostname = text(entry, &["hostname"]);
        let mode = Some(text(entry, &["ipMode"])).filter(|_| with_ip_mode);
        let mode = mode.unwrap_or_default();
        let ip = text(entry, &["ip"]);
        let address = (hostname.is_empty(), hostname, ip, mode.is_empty(), mode);
        let ports = list(entry, &["ports"]).iter().map(BalancerPort::of);
        ports_of.entry(address).or_default().extend(ports);
    }
    let is_empty = ports_of.is_empty();
    if is_empty && has_no_status(object) {
        return object.clone();
    }
    let mut balancer = Map::new();
    if !is_empty {
        let entries = ports_of.iter().map(|((_, hostname, ip, _, mode), ports)| {
            let texts = [("ip", *ip), ("hostname", *hostname), ("ipMode", *mode)];
            let mut entry = with_texts(Map::new(), &texts);
            if !ports.is_empty() {
                let ports = ports.iter().map(BalancerPort::value).collect();
                entry.insert("ports".to_owned(), ports);
            }
            Value::Object(entry)
        });
        balancer.insert("ingress".to_owned(), entries.collect());
    }
    with_status(object, json!({ "loadBalancer": balancer }))
}

/// Whether an object has the status that it has before any load balancer is there.
fn has_no_status(object: &Value) -> bool {
    let status = at(object, &["status"]);
    status.is_null() || status == &json!({}) || status == &json!({"loadBalancer": {}})
}

/// A port of a load balancer, in the order of ports.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct BalancerPort<'v> {
    number: i64,
    protocol: &'v str,
    error: &'v str,
}

impl<'v> BalancerPort<'v> {
    fn of(port: &'v Value) -> Self {
        Self {
            number: integer(port, &["port"]).unwrap_or_default(),
            protocol: text(port, &["protocol"]),
            error: text(port, &["error"]),
        }
    }

    fn value(&self) -> Value {
        let mut port = Map::new();
        port.insert("port".to_owned(), self.number.into());
        let texts = [("protocol", self.protocol), ("error", self.error)];
        Value::Object(with_texts(port, &texts))
    }
}

fn with_texts(mut entry: Map<String, Value>, texts: &[(&str, &str)]) -> Map<String, Value> {
    for (name, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
        entry.insert((*name).to_owned(), (*text).into());
    }
    entry
}
