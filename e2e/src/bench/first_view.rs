//! How long the web page needs in a new browser.

use anyhow::Result;
use serde_json::json;

use super::{
    figures::{Figures, verdict},
    query_client::{report_line, size_suffix},
    times::Times,
};
use crate::{
    browser::{Browser, BrowserOptions},
    operator::Operator,
};

/// New browsers; each loads both views.
const ROUNDS: usize = 10;
/// Limit of a view, in milliseconds.
const MAX_MS: f64 = 1_000.0;
/// Milliseconds from the start of the navigation, redirects included, until the page is loaded with
/// its scripts and styles.
const LOADED: &str = "return performance.getEntriesByType('navigation')[0].loadEventEnd;";

/// Loads the page by a link that signs in, and a search for a word, each in a new browser.
pub(super) async fn measure(
    operator: &Operator,
    objects: usize,
    figures: &mut Figures,
) -> Result<()> {
    let (mut first, mut search) = (Times::default(), Times::default());
    let searched = format!("http://{}/ui/?q=service-07", operator.api_address());
    for _ in 0..ROUNDS {
        let browser = Browser::open(BrowserOptions::default()).await?;
        first.push(load(&browser, &operator.page_link().await?).await?);
        search.push(load(&browser, &searched).await?);
    }
    let many = size_suffix(objects);
    for (name, times, subject) in [
        (
            "first_view",
            first,
            "the first view of the page in a new browser",
        ),
        ("search_view", search, "  a search for a word in the page"),
    ] {
        times.set(&format!("{name}{many}"), figures);
        let text = format!(
            "loaded in {}; p50 at most {MAX_MS} ms: {}",
            times.text(),
            verdict(times.quantile(0.5) <= MAX_MS)
        );
        report_line(figures, &format!("{subject}, {objects} objects"), text);
    }
    Ok(())
}

async fn load(browser: &Browser, url: &str) -> Result<f64> {
    browser.goto(url).await?;
    browser.wait_for("#results tbody tr").await?;
    browser.evaluate(LOADED, &json!([])).await
}
