//! How many of the steps that they may take the evaluations of usual requests take.

use anyhow::Result;
use reqwest::header::ACCEPT;

use super::{
    figures::{Figures, verdict},
    query_client::{QueryClient, report_line, size_suffix, url_encoded},
    scrape::Scrape,
};
use crate::{operator::Operator, query_api::TABLE};

/// Tables that are requested.
const TABLES: usize = 100;
/// No evaluation of a usual request may take more than this share of its steps.
const MAX_SHARE: f64 = 0.5;

/// Requests Tables as kubectl does, and reads the shares of all evaluations since the operator
/// started.
pub(super) async fn measure(
    query_client: &QueryClient<'_>,
    operator: &Operator,
    figures: &mut Figures,
) -> Result<()> {
    for number in 0..TABLES {
        let selector = url_encoded(&query_client.selector(number));
        let request = query_client.list_request("opensearch", &format!("labelSelector={selector}"));
        query_client.body(request.header(ACCEPT, TABLE)).await?;
    }
    let shares = Scrape::of(operator).await?.shares_of_steps();
    let [median, rare, largest] = [0.5, 0.999, 1.0].map(|quantile| shares.quantile(quantile));
    let many = size_suffix(query_client.objects);
    figures.set(&format!("share_of_steps_p50{many}"), median);
    figures.set(&format!("share_of_steps_p999{many}"), rare);
    let text = format!(
        "{} evaluations, p50 {:.2} %, p99.9 {:.2} %, all at most {:.2} % of the steps they may take; \
         at most {:.0} %: {}",
        shares.total(),
        100.0 * median,
        100.0 * rare,
        100.0 * largest,
        100.0 * MAX_SHARE,
        verdict(largest <= MAX_SHARE)
    );
    let subject = format!("steps of evaluations, {} objects", query_client.objects);
    report_line(figures, &subject, text);
    Ok(())
}
