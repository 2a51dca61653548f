use fleetdex_core::model::Gvk;

use super::*;
use crate::fake::{pods, served, store};

/// What the catalog has of a resource that these clusters serve.
fn registered(served: &[(&str, ServedResource)]) -> RegisteredResource {
    let mut catalog = Catalog::default();
    for (cluster, served) in served {
        let cluster = cluster.parse().unwrap();
        catalog.add(CatalogEntry {
            served,
            cluster: &cluster,
            store: &store("main"),
            fields: &[],
            any_path: false,
        });
    }
    catalog.resources().next().unwrap().clone()
}

#[test]
fn no_member_decides_what_a_built_in_resource_is() {
    let odd = served(Gvk::new("", "v1", "Hod"), "pods", false, &[]);
    for served in [vec![("a", odd.clone()), ("b", pods())], vec![("a", odd)]] {
        let registered = registered(&served);
        assert_eq!(
            (
                &*registered.kind,
                &*registered.singular,
                registered.namespaced
            ),
            ("Pod", "pod", true)
        );
    }
}

#[test]
fn of_a_custom_resource_what_most_members_say_counts() {
    let widgets = |kind: &str, namespaced| {
        served(
            Gvk::new("example.com", "v1", kind),
            "widgets",
            namespaced,
            &[],
        )
    };
    let shown = |served: &[(&str, ServedResource)]| {
        let registered = registered(served);
        format!(
            "{} {} {}",
            registered.kind, registered.singular, registered.namespaced
        )
    };
    let (odd, honest) = (widgets("Odd", false), widgets("Widget", true));
    assert_eq!(
        shown(&[
            ("a", odd.clone()),
            ("b", honest.clone()),
            ("c", honest.clone())
        ]),
        "Widget widget true"
    );
    assert_eq!(
        shown(&[
            ("a", odd.clone()),
            ("a", odd.clone()),
            ("b", honest.clone()),
            ("c", honest.clone())
        ]),
        "Widget widget true"
    );
    assert_eq!(
        shown(&[("a", odd.clone()), ("b", honest.clone())]),
        "Widget widget true",
        "with namespaces nothing is hidden"
    );
    assert_eq!(
        shown(&[
            ("a", odd),
            ("b", widgets("Widget", false)),
            ("c", widgets("Widget", false))
        ]),
        "Widget widget false"
    );
    assert_eq!(
        shown(&[("a", widgets("A", true)), ("b", widgets("B", true))]),
        "A a true"
    );
}
