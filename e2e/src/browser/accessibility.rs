//! Checks of a page with axe-core.

use std::{fmt, fs};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::driver::Driver;
use crate::parts::Part;

/// Runs the rules of WCAG 2.0, 2.1 and 2.2, levels A and AA, on the whole page. The names of the
/// tags are [axe-core's].
///
/// [axe-core's]: https://github.com/dequelabs/axe-core/blob/develop/doc/API.md#axe-core-tags
const RUN: &str = r"
    const done = arguments[0];
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22a', 'wcag22aa'];
    const options = { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] };
    const element = node => `${node.target.join(' ')}: ${node.html}`;
    const violation = ({ id, help, nodes }) => ({ rule: id, help, elements: nodes.map(element) });
    axe.run(document, options).then(
        results => done({ violations: results.violations.map(violation), error: null }),
        error => done({ violations: [], error: String(error) }),
    );
";

/// A rule that a page breaks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Violation {
    /// The rule's id, such as `image-alt`.
    pub rule: String,
    /// What the rule demands.
    pub help: String,
    /// The elements that break it: for each its selector and its HTML.
    pub elements: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.rule, self.help)?;
        for element in &self.elements {
            write!(formatter, "\n  {element}")?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Results {
    violations: Vec<Violation>,
    error: Option<String>,
}

/// Checks the shown page. Scripts have to be enabled.
pub(super) async fn violations(driver: &Driver) -> Result<Vec<Violation>> {
    let axe = tokio::task::spawn_blocking(axe_core)
        .await
        .context("finding axe-core")??;
    driver
        .execute::<()>(&axe, &serde_json::json!([]))
        .await
        .context("adding axe-core to the page")?;
    let results: Results = driver.execute_async(RUN).await?;
    match results.error {
        Some(error) => anyhow::bail!("axe-core failed: {error}"),
        None => Ok(results.violations),
    }
}

fn axe_core() -> Result<String> {
    let script = Part::AxeCore.ensure()?;
    fs::read_to_string(&script).with_context(|| format!("reading {}", script.display()))
}
