//! Clusterpedia's search labels: requirements in a label selector that set query parameters, so
//! that `kubectl -l` can send them.
//!
//! Keys are matched exactly, with both prefixes that its documents and its code have. An unknown
//! search label is refused, and never selects by a label. Source:
//! <https://clusterpedia.io/docs/usage/search/>

use fleetdex_core::selector::{LabelRequirement, LabelSelector, LabelTest};

/// The prefixes of the keys.
const PREFIXES: [&str; 2] = [
    "search.clusterpedia.io/",
    "internalstorage.clusterpedia.io/",
];

/// The name of a key, its query parameter, and whether that takes several values.
const KEYS: [(&str, &str, bool); 14] = [
    ("clusters", "clusters", true),
    ("namespaces", "namespaces", true),
    ("names", "names", true),
    ("orderby", "orderBy", false),
    ("owner-uid", "ownerUID", true),
    ("owner-name", "ownerName", true),
    ("owner-gr", "ownerGR", false),
    ("owner-seniority", "ownerSeniority", false),
    ("since", "since", false),
    ("before", "before", false),
    ("limit", "limit", false),
    ("size", "limit", false),
    ("with-continue", "withContinue", false),
    ("with-remaining-count", "withRemainingCount", false),
];

/// Search labels that are not supported, and what to do instead.
const UNSUPPORTED: [(&str, &str); 4] = [
    (
        "offset",
        "pages are not numbered; use the continue token of the page before",
    ),
    ("fuzzy-name", "names are only found whole; use names"),
    (
        "inject-events",
        "ask for the events with a field selector on involvedObject.uid",
    ),
    ("forward", "this server answers from its index only"),
];

/// A query parameter that a search label sets, and its value, as in a URL.
type SetParameter = (&'static str, String);

/// Splits a selector into labels, and what its search labels set.
pub fn take(selector: LabelSelector) -> Result<(LabelSelector, Vec<SetParameter>), String> {
    let is_search_label = |requirement: &LabelRequirement| {
        PREFIXES
            .iter()
            .any(|prefix| requirement.key().starts_with(prefix))
    };
    if !selector.requirements().any(is_search_label) {
        return Ok((selector, Vec::new()));
    }
    let mut found: Vec<SetParameter> = Vec::new();
    for requirement in selector
        .requirements()
        .filter(|requirement| is_search_label(requirement))
    {
        let label = read(requirement)?;
        if found.iter().any(|known| known.0 == label.0) {
            return Err(format!(
                "label {} sets the parameter {} a second time",
                requirement.key(),
                label.0
            ));
        }
        found.push(label);
    }
    let labels = selector
        .requirements()
        .filter(|requirement| !is_search_label(requirement))
        .cloned()
        .collect();
    Ok((labels, found))
}

fn read(requirement: &LabelRequirement) -> Result<SetParameter, String> {
    let key = requirement.key();
    let name = key.split_once('/').map_or(key, |(_, name)| name);
    if let Some((_, instead)) = UNSUPPORTED.iter().find(|(known, _)| *known == name) {
        return Err(format!("label {key} is not supported: {instead}"));
    }
    let Some((_, parameter, many)) = KEYS.iter().find(|(known, ..)| *known == name) else {
        let known: Vec<&str> = KEYS.iter().map(|(known, ..)| *known).collect();
        return Err(format!(
            "label {key} is not a search label of Clusterpedia; those of {} are: {}",
            PREFIXES[0],
            known.join(", ")
        ));
    };
    let LabelTest::In(values) = requirement.test() else {
        return Err(format!(
            "label {key} sets the parameter {parameter} and takes only '=' and 'in'"
        ));
    };
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    if values.len() > 1 && !many {
        return Err(format!(
            "label {key} takes one value; give several, in their order, with the parameter {parameter}"
        ));
    }
    let joined = values.join(",");
    let value = if *parameter == "orderBy" {
        order(&joined)
    } else {
        joined
    };
    Ok((parameter, value))
}

/// `field_desc`, because a label's value has no blanks.
fn order(value: &str) -> String {
    match (value.strip_suffix("_desc"), value.strip_suffix("_asc")) {
        (Some(field), _) => format!("{field} desc"),
        (None, Some(field)) => format!("{field} asc"),
        (None, None) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(selector: &str) -> Result<String, String> {
        let (labels, found) = take(selector.parse().unwrap())?;
        let shown: Vec<String> = found
            .iter()
            .map(|(parameter, value)| format!("{parameter}={value}"))
            .collect();
        Ok(format!("{labels} | {}", shown.join("&")))
    }

    #[test]
    fn keys_of_either_spelling_become_parameters_and_labels_stay() {
        let all = "app=web,search.clusterpedia.io/clusters in (b,a),search.clusterpedia.io/orderby=created_at_desc,\
                   internalstorage.clusterpedia.io/owner-seniority=1,search.clusterpedia.io/owner-uid=u1,search.clusterpedia.io/size=5";
        assert_eq!(
            taken(all).as_deref(),
            Ok(
                "app=web | ownerSeniority=1&clusters=a,b&orderBy=created_at desc&ownerUID=u1&limit=5"
            )
        );
        assert_eq!(
            taken("shadow.clusterpedia.io/x=y").as_deref(),
            Ok("shadow.clusterpedia.io/x=y | ")
        );
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let refused = [
            "search.clusterpedia.io/clusters notin (a)",
            "search.clusterpedia.io/names!=a",
            "search.clusterpedia.io/since",
            "!search.clusterpedia.io/since",
            "search.clusterpedia.io/limit>5",
            "search.clusterpedia.io/orderby in (a,b)",
            "search.clusterpedia.io/limit=5,search.clusterpedia.io/size=6",
            "search.clusterpedia.io/color=red",
            "search.clusterpedia.io/offset=10",
            "internalstorage.clusterpedia.io/fuzzy-name=we",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|selector| taken(selector).unwrap_err())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @"
        label search.clusterpedia.io/clusters sets the parameter clusters and takes only '=' and 'in'
        label search.clusterpedia.io/names sets the parameter names and takes only '=' and 'in'
        label search.clusterpedia.io/since sets the parameter since and takes only '=' and 'in'
        label search.clusterpedia.io/since sets the parameter since and takes only '=' and 'in'
        label search.clusterpedia.io/limit sets the parameter limit and takes only '=' and 'in'
        label search.clusterpedia.io/orderby takes one value; give several, in their order, with the parameter orderBy
        label search.clusterpedia.io/size sets the parameter limit a second time
        label search.clusterpedia.io/color is not a search label of Clusterpedia; those of search.clusterpedia.io/ are: clusters, namespaces, names, orderby, owner-uid, owner-name, owner-gr, owner-seniority, since, before, limit, size, with-continue, with-remaining-count
        label search.clusterpedia.io/offset is not supported: pages are not numbered; use the continue token of the page before
        label internalstorage.clusterpedia.io/fuzzy-name is not supported: names are only found whole; use names
        ");
    }
}
