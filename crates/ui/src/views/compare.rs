//! One object in two clusters.

use http::StatusCode;
use maud::{Markup, html};

use super::Shown;
use crate::{
    address::{NativePath, ObjectAddress},
    differences::{comparable, compare as compare_texts},
    layout::{problem, warnings},
    other_words::{OtherWords, explained, get_command, raw},
    parameters::Parameters,
    query::{Answered, QueryApi, QueryRefusal},
    stored_object::{StoredObject, stored_object},
    yaml,
};

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
    let (query_left, query_right) = (left.query(), right.query());
    let explained_paths = [&*query_left, &*query_right];
    let (found_left, found_right, open_search) = futures::join!(
        stored_object(api, &left, ""),
        stored_object(api, &right, ""),
        explained(api, &explained_paths, parameters)
    );
    let question = OtherWords {
        kubectl: format!("diff <({}) <({})", raw(&query_left), raw(&query_right)),
        fleetdex: format!("diff <({}) <({})", get_command(&left), get_command(&right)),
        open_search: Some(open_search),
    };
    match (found_left, found_right) {
        (Ok(of_left), Ok(of_right)) => {
            let compared = render(&title, (&left, &of_left), (&right, &of_right));
            Shown::new(title, html! { (compared) (question.render()) })
        }
        (Err(unanswered), _) | (_, Err(unanswered)) => Shown::unanswered(&title, &unanswered),
    }
}

fn render(
    title: &str,
    (left, of_left): (&ObjectAddress, &Answered<StoredObject>),
    (right, of_right): (&ObjectAddress, &Answered<StoredObject>),
) -> Markup {
    let text = |side: &Answered<StoredObject>| yaml::print(&comparable(&side.value.object));
    let compared = compare_texts(&text(of_left), &text(of_right));
    html! {
        h1 { (title) }
        (warnings(&of_left.warnings)) (warnings(&of_right.warnings))
        p {
            @match compared.differing {
                0 if compared.is_cut => "The compared part of the objects is the same in ",
                0 => "The objects are the same in ",
                1 => "1 line differs between ",
                count => { (count) " lines differ between " },
            }
            a href=(left.page()) { (left.cluster) } " and " a href=(right.page()) { (right.cluster) }
            ", apart from what belongs to one cluster, such as the UID and the version."
        }
        @if compared.is_cut { (problem("Only the first 5,000 lines and 512 KiB of each object were compared.")) }
        @if compared.differing > 0 { (compared.render(left.cluster.as_str(), right.cluster.as_str())) }
    }
}
