//! Services and ingresses.

use crate::{
    health::{Assessment, Health},
    value::{Tree, integer, list, text},
};

const INGRESS: &[&str] = &["status", "loadBalancer", "ingress"];

/// Only a load balancer has a state.
pub fn service(object: Tree<'_>) -> Assessment {
    if text(object, &["spec", "type"]) != "LoadBalancer" {
        return Assessment::plain(Health::Healthy);
    }
    if let Some((port, error)) = port_with_error(object) {
        let port = integer(port, &["port"]).unwrap_or(0);
        let message = format!("the load balancer reports {error} for port {port}");
        return Assessment::degraded(error, &message);
    }
    if has_address(object) {
        return Assessment::plain(Health::Healthy);
    }
    let message = "the load balancer has no address yet";
    Assessment::progressing("LoadBalancerPending", message)
}

/// Some controllers never publish an address, so the lack of one is no trouble.
pub fn ingress(object: Tree<'_>) -> Assessment {
    if has_address(object) {
        return Assessment::plain(Health::Healthy);
    }
    Assessment::progressing("NoAddress", "no address published")
}

/// Whether a load balancer has an address. Source: Karmada, `default/native/healthy.go`.
pub fn has_address(object: Tree<'_>) -> bool {
    list(object, INGRESS)
        .iter()
        .any(|entry| !text(entry, &["hostname"]).is_empty() || !text(entry, &["ip"]).is_empty())
}

fn port_with_error(object: Tree<'_>) -> Option<(Tree<'_>, &str)> {
    list(object, INGRESS)
        .iter()
        .flat_map(|entry| list(entry, &["ports"]))
        .map(|port| (port, text(port, &["error"])))
        .find(|(_, error)| !error.is_empty())
}
