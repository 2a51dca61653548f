//! The objects that the control plane distributes, with their clusters.

use fleetdex_distribution::placement_report::PlacementReport;
use http::StatusCode;
use maud::{Markup, html};

use super::{
    Shown, distributed_set,
    placements::{ObjectColumns, reasons, table},
};
use crate::{
    address::encoded,
    bindings::{BindingsPage, BindingsQuestion},
    layout::{Live, problem, warnings},
    other_words::{OtherWords, quoted},
    parameters::Parameters,
    query::{QueryApi, QueryRefusal},
    response::ROOT,
};

const TITLE: &str = "Distribution";
/// What becomes of an object in its clusters is worth watching; each time costs a page of a list at
/// the control plane.
const REFRESH_SECONDS: u32 = 10;
/// Why the first page is shown in place of another one.
const EXPIRED: &str =
    "The next page of an earlier list is no longer to be had; this is the first page.";

/// Which objects are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ShownScope<'p> {
    /// Those of a namespace; empty: of all.
    Namespaced(&'p str),
    /// Those without a namespace.
    ClusterScoped,
}

impl ShownScope<'_> {
    fn question(&self, continue_token: &str) -> BindingsQuestion {
        let continue_token = continue_token.to_owned();
        match self {
            Self::Namespaced(namespace) => BindingsQuestion::Namespaced {
                namespace: (*namespace).to_owned(),
                continue_token,
            },
            Self::ClusterScoped => BindingsQuestion::ClusterScoped { continue_token },
        }
    }

    fn address(&self, continue_token: &str) -> String {
        let scope = match self {
            Self::Namespaced(namespace) => format!("namespace={}", encoded(namespace)),
            Self::ClusterScoped => "scope=cluster".to_owned(),
        };
        let next = encoded(continue_token);
        format!("{ROOT}/distribution?{scope}&continue={next}")
    }

    /// The command line lists objects of all namespaces and those without one together.
    fn in_other_words(&self) -> OtherWords {
        let kubectl = "kubectl get resourcebindings -o wide";
        let fleetdex = "fleetdex distribute status";
        let (kubectl, fleetdex) = match self {
            Self::Namespaced("") => (format!("{kubectl} -A"), format!("{fleetdex} -A")),
            Self::Namespaced(namespace) => {
                let flag = format!("-n {}", quoted(namespace));
                (format!("{kubectl} {flag}"), format!("{fleetdex} {flag}"))
            }
            Self::ClusterScoped => (
                "kubectl get clusterresourcebindings -o wide".to_owned(),
                format!("{fleetdex} -A"),
            ),
        };
        OtherWords {
            kubectl,
            fleetdex,
            open_search: None,
        }
    }
}

/// The view of what is distributed.
pub(crate) async fn distribution(api: &dyn QueryApi, parameters: &Parameters) -> Shown {
    let scope = match parameters.get("scope") {
        "cluster" => ShownScope::ClusterScoped,
        _ => ShownScope::Namespaced(parameters.get("namespace").trim()),
    };
    let (status, main) = match page_or_first(api, &scope, parameters.get("continue")).await {
        Ok((page, missing)) => (StatusCode::OK, page_of(&scope, &page, &missing)),
        Err(refused) => (refused.status, refusal(&scope, &refused)),
    };
    let main = html! {
        h1 { (TITLE) }
        (filter(&scope))
        (main)
        (scope.in_other_words().render())
    };
    Shown {
        status,
        live: (status == StatusCode::OK).then_some(Live::Every(REFRESH_SECONDS)),
        ..Shown::new(TITLE, main)
    }
}

/// The page that begins there, or the first one if that is no longer to be had; and what the answer
/// lacks.
async fn page_or_first(
    api: &dyn QueryApi,
    scope: &ShownScope<'_>,
    continue_token: &str,
) -> Result<(BindingsPage, Vec<String>), QueryRefusal> {
    match api.bindings(scope.question(continue_token)).await {
        Err(refused) if refused.status == StatusCode::GONE => {
            let first = api.bindings(scope.question("")).await?;
            Ok((first, vec![EXPIRED.to_owned()]))
        }
        page => Ok((page?, Vec::new())),
    }
}

/// Chooses what is shown.
fn filter(scope: &ShownScope<'_>) -> Markup {
    let namespace = match scope {
        ShownScope::Namespaced(namespace) => namespace,
        ShownScope::ClusterScoped => "",
    };
    let is_cluster_scoped = *scope == ShownScope::ClusterScoped;
    let page = format!("{ROOT}/distribution");
    html! {
        form.tools method="get" action=(page) {
            label for="namespace" { "Namespace" }
            input #namespace name="namespace" value=(namespace) autocomplete="off" autocapitalize="none" spellcheck="false" maxlength="63" placeholder="all";
            button type="submit" { "Show" }
            @if is_cluster_scoped { a href=(page) { "Objects of all namespaces" } }
            @else { a href={ (page) "?scope=cluster" } { "Objects without a namespace" } }
        }
    }
}

fn refusal(scope: &ShownScope<'_>, refused: &QueryRefusal) -> Markup {
    let names_none = *scope == ShownScope::Namespaced("");
    html! {
        (problem(&refused.message))
        @if names_none && refused.status == StatusCode::FORBIDDEN {
            p { "Enter a namespace in which you may list resourcebindings of work.karmada.io." }
        }
    }
}

fn page_of(scope: &ShownScope<'_>, page: &BindingsPage, missing: &[String]) -> Markup {
    let columns = match scope {
        ShownScope::Namespaced("") => ObjectColumns::NameAndNamespace,
        _ => ObjectColumns::Name,
    };
    html! {
        (warnings(missing))
        div #distribution {
            @if page.reports.is_empty() { p { "Nothing is distributed here: no policy selects an object." } }
            @else {
                (table("Distributed objects and their clusters", &page.reports, columns))
                h2 { "Reasons" }
                @for report in &page.reports { (details(report)) }
            }
        }
        @if !page.continue_token.is_empty() {
            p.pages { a href=(scope.address(&page.continue_token)) { "Next page" } }
        }
    }
}

/// Why an object is where it is. Those that are not as they shall be are open.
fn details(report: &PlacementReport) -> Markup {
    html! {
        details open[!report.is_applied() || report.left_out > 0] {
            summary { (report.object) @if let (Some(policy), None) = (&report.policy, &report.set) { ", by the policy " (policy) } }
            @if let Some((namespace, name)) = &report.set {
                p { "It belongs to the " a href=(distributed_set::address(namespace, name)) { "Distribution " (namespace) "/" (name) } "." }
            }
            (reasons(report))
        }
    }
}
