//! One object in two clusters.

use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::Shown;
use crate::{
    address::{NativePath, ObjectAddress},
    differences::{comparable, compare as compare_texts},
    layout::{problem, warnings},
    parameters::Parameters,
    query::{Accept, QueryAnswer, QueryApi, QueryRefusal, ask},
    question::{Question, quoted, raw},
    yaml,
};

/// A list with the object, or without it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FoundItems {
    items: Vec<Value>,
}

/// The view of the differences between two clusters.
pub(crate) async fn compare(
    api: &dyn QueryApi,
    path: &NativePath,
    parameters: &Parameters,
) -> Shown {
    let title = format!("Differences of {} {}", path.resource(), path.name);
    let side = |name: &str| {
        let cluster = parameters.get(name).parse().ok()?;
        Some(ObjectAddress {
            cluster,
            path: path.clone(),
        })
    };
    let (Some(left), Some(right)) = (side("left"), side("right")) else {
        let unanswered = QueryRefusal {
            status: StatusCode::BAD_REQUEST,
            message: "The parameters left and right have to name clusters.".to_owned(),
        };
        return Shown::unanswered(&title, &unanswered);
    };
    let (found_left, found_right) = futures::join!(object(api, &left), object(api, &right));
    let main = match (found_left, found_right) {
        (Ok(of_left), Ok(of_right)) => render(&title, (&left, &of_left), (&right, &of_right)),
        (Err(unanswered), _) | (_, Err(unanswered)) => {
            return Shown::unanswered(&title, &unanswered);
        }
    };
    Shown::new(title, main)
}

/// An object, and what its answer lacks.
struct FoundSide {
    object: Value,
    warnings: Vec<String>,
}

async fn object(api: &dyn QueryApi, address: &ObjectAddress) -> Result<FoundSide, QueryRefusal> {
    let answer: QueryAnswer<FoundItems> = ask(api, &address.query(), Accept::Json).await;
    let answered = answer?;
    let missing = || QueryRefusal {
        status: StatusCode::NOT_FOUND,
        message: format!("Cluster {} has no such object.", address.cluster),
    };
    let object = answered
        .value
        .items
        .into_iter()
        .next()
        .ok_or_else(missing)?;
    Ok(FoundSide {
        object,
        warnings: answered.warnings,
    })
}

fn render(
    title: &str,
    (left, of_left): (&ObjectAddress, &FoundSide),
    (right, of_right): (&ObjectAddress, &FoundSide),
) -> Markup {
    let text = |side: &FoundSide| yaml::print(&comparable(&side.object));
    let compared = compare_texts(&text(of_left), &text(of_right));
    html! {
        h1 { (title) }
        (warnings(&of_left.warnings)) (warnings(&of_right.warnings))
        p {
            @match compared.differing {
                0 => "The objects are the same in ",
                1 => "1 line differs between ",
                count => { (count) " lines differ between " },
            }
            a href=(left.page()) { (left.cluster) } " and " a href=(right.page()) { (right.cluster) }
            ", apart from what belongs to one cluster, such as the UID and the version."
        }
        @if compared.is_cut { (problem("Only the first 5,000 lines of each object were compared.")) }
        @if compared.differing > 0 { (compared.render(left.cluster.as_str(), right.cluster.as_str())) }
        (in_other_words(left, right).render())
    }
}

fn in_other_words(left: &ObjectAddress, right: &ObjectAddress) -> Question {
    let path = &left.path;
    let namespace = path
        .namespace
        .as_ref()
        .map(|namespace| format!(" -n {}", quoted(namespace)))
        .unwrap_or_default();
    let get = |side: &ObjectAddress| {
        format!(
            "fleetdex get {} {}{namespace} --cluster {} -o yaml",
            quoted(&path.resource()),
            quoted(&path.name),
            quoted(side.cluster.as_str())
        )
    };
    Question {
        kubectl: format!("diff <({}) <({})", raw(&left.query()), raw(&right.query())),
        fleetdex: format!("diff <({}) <({})", get(left), get(right)),
        open_search: String::new(),
    }
}
