//! Prints a plan.

use std::{collections::BTreeMap, io, str::FromStr};

use fleetdex_cli::output::columns::write_aligned;
use fleetdex_core::yaml;
use fleetdex_distribution::{
    plan::{DistributionPlan, PlanConflict},
    template_name::TemplateName,
};
use serde_json::Value;

use crate::diff;

/// How a plan is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanFormat {
    /// A line for each object and cluster, with reasons.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// What would change in members, as unified diffs.
    Diff,
}

impl FromStr for PlanFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" | "" => Ok(Self::Table),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "diff" => Ok(Self::Diff),
            _ => Err("use table, json, yaml or diff".to_owned()),
        }
    }
}

/// Prints the plan. `observed`: what members have.
pub fn write(
    plan: &DistributionPlan,
    observed: &BTreeMap<String, BTreeMap<TemplateName, Value>>,
    format: PlanFormat,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        PlanFormat::Table => write_table(plan, out),
        PlanFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, plan)?;
            writeln!(out)
        }
        PlanFormat::Yaml => {
            let value = serde_json::to_value(plan)?;
            let text = yaml::to_string(&value).map_err(io::Error::other)?;
            out.write_all(text.as_bytes())
        }
        PlanFormat::Diff => diff::write(plan, observed, out),
    }
}

const HEADERS: [&str; 4] = ["RESOURCE", "CLUSTER", "REPLICAS", "NOTE"];

fn write_table(plan: &DistributionPlan, out: &mut dyn io::Write) -> io::Result<()> {
    let mut lines = vec![HEADERS.map(str::to_owned).to_vec()];
    let mut line = |resource: &TemplateName, cluster: &str, replicas: String, note: String| {
        lines.push(vec![
            resource.to_string(),
            cluster.to_owned(),
            replicas,
            note,
        ]);
    };
    let conflicts: BTreeMap<(&str, &TemplateName), &str> = plan
        .conflicts
        .iter()
        .map(|one| ((one.cluster.as_str(), &one.resource), one.reason.as_str()))
        .collect();
    for binding in &plan.bindings {
        let resource = &binding.resource;
        if let Some(reason) = &binding.unschedulable {
            line(resource, "", String::new(), format!("not placed: {reason}"));
        }
        for target in &binding.clusters {
            let note = match conflicts.get(&(target.name.as_str(), resource)) {
                Some(reason) => format!("not written: {reason}"),
                None if binding.suspended.contains(&target.name) => "suspended".to_owned(),
                None => String::new(),
            };
            line(resource, &target.name, target.replicas.to_string(), note);
        }
        for other in &binding.not_chosen {
            let note = format!("not chosen: {}", other.reason);
            line(resource, &other.cluster, "-".to_owned(), note);
        }
    }
    let is_shown = |one: &&PlanConflict| {
        let mut bindings = plan.bindings.iter();
        bindings.any(|binding| {
            let mut clusters = binding.clusters.iter();
            binding.resource == one.resource && clusters.any(|to| to.name == one.cluster)
        })
    };
    for one in plan.conflicts.iter().filter(|one| !is_shown(one)) {
        let note = format!("not written: {}", one.reason);
        line(&one.resource, &one.cluster, "-".to_owned(), note);
    }
    for one in &plan.deletions {
        line(
            &one.resource,
            &one.cluster,
            "-".to_owned(),
            "deleted".to_owned(),
        );
    }
    for one in &plan.refused {
        let note = format!("refused for {}: {}", one.set.shown(), one.reason);
        line(&one.resource, "", String::new(), note);
    }
    for one in &plan.skipped {
        line(
            &one.resource,
            "",
            String::new(),
            format!("never propagated: {}", one.reason),
        );
    }
    write_aligned(out, &lines)
}
