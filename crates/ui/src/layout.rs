//! What all views have around them.

use maud::{DOCTYPE, Markup, html};

use crate::{
    assets::address,
    response::{LOGOUT_PATH, ROOT},
};

/// What surrounds a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame<'f> {
    /// The title of the view, without the product's name.
    pub(crate) title: String,
    /// The text in the search box.
    pub(crate) search: &'f str,
    /// The name of the caller; `None` before signing in.
    pub(crate) user: Option<&'f str>,
    /// When the view loads itself again.
    pub(crate) live: Option<&'f Live>,
    /// Whether there is a view of what is distributed.
    pub(crate) has_distribution: bool,
}

/// When a view loads itself again.
#[derive(Clone, Debug)]
pub(crate) enum Live {
    /// With the events at this address.
    Events(String),
    /// After so many seconds, because nothing says when it has changed.
    Every(u32),
}

/// The whole page.
pub(crate) fn page(frame: &Frame<'_>, main: &Markup) -> String {
    let title = format!("{} · Fleetdex", frame.title);
    let (events, every) = match frame.live {
        Some(Live::Events(address)) => (Some(address), None),
        Some(Live::Every(seconds)) => (None, Some(seconds)),
        None => (None, None),
    };
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" type="image/svg+xml" href=(address("icon.svg"));
                link rel="stylesheet" href=(address("page.css"));
                script type="module" src=(address("page.js")) {}
            }
            body data-events=[events] data-every=[every] {
                a.skip href="#main" { "Skip to the content" }
                header {
                    a.home href={ (ROOT) "/" } { "Fleetdex" }
                    @if let Some(user) = frame.user {
                        (search_box(frame.search))
                        nav aria-label="Pages" {
                            a href={ (ROOT) "/fleet" } { "Fleet" }
                            @if frame.has_distribution { a href={ (ROOT) "/distribution" } { "Distribution" } }
                            @if frame.live.is_some() {
                                button type="button" hidden data-pause aria-pressed="false" title="Pause the updates of this page" { "Live" }
                            }
                            button.keys type="button" hidden data-keys { "Keys" }
                        }
                        form.account method="post" action=(LOGOUT_PATH) {
                            span.user title=(user) { (user) }
                            button type="submit" { "Sign out" }
                        }
                        div.notice role="status" #notice {}
                    }
                }
                main #main tabindex="-1" { (main) }
                div.invisible role="status" #announcements {}
                @if frame.user.is_some() { (keys()) }
            }
        }
    };
    document.into_string()
}

fn search_box(text: &str) -> Markup {
    html! {
        form.search role="search" action={ (ROOT) "/" } {
            label.invisible for="q" { "Search all kinds in all clusters" }
            input #q name="q" type="search" value=(text) autocomplete="off" autocapitalize="none" spellcheck="false"
                placeholder="nginx:1.27 kind:Pod health:Degraded label:app=web" maxlength="4096" aria-describedby="q-help";
            button type="submit" { "Search" }
            p.invisible #q-help { "Words and qualifiers such as kind:Pod, health:Degraded or label:app=web. With scripts, values are offered while you type." }
        }
    }
}

fn keys() -> Markup {
    let rows = [
        ("/", "go to the search box"),
        ("j, k", "next and previous row"),
        ("Enter", "open the row"),
        ("f", "the fleet"),
        ("b", "back"),
        ("y", "copy the YAML of an object"),
        ("?", "this list"),
        ("Esc", "leave the search box, close a list"),
    ];
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            table.keys { tbody { @for (key, meaning) in rows { tr { th scope="row" { kbd { (key) } } td { (meaning) } } } } }
            p { label { input type="checkbox" data-single-keys checked; " Single keys" } " (without them, only Esc works)" }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

/// Sentences about what an answer lacks. The place is always there, so that those that come later
/// are announced.
pub(crate) fn warnings(texts: &[String]) -> Markup {
    html! {
        div role="status" {
            @if !texts.is_empty() {
                ul.warnings aria-label="What this answer lacks" { @for text in texts { li { (text) } } }
            }
        }
    }
}

/// An error in place of a view, or of a part of it.
pub(crate) fn problem(message: &str) -> Markup {
    html! { p.problem role="alert" { (message) } }
}

/// A health, as its word and a mark whose form differs, too.
pub(crate) fn health(word: &str) -> Markup {
    let mark = match word {
        "Healthy" => "●",
        "Progressing" => "◐",
        "Degraded" | "Unhealthy" => "▲",
        "Suspended" => "■",
        "Missing" => "○",
        "" => return html! {},
        _ => "?",
    };
    html! { span.health data-health=(word) { span.mark aria-hidden="true" { (mark) } " " (word) } }
}
