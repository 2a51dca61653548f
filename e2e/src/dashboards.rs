//! What OpenSearch Dashboards asks OpenSearch for its saved objects: the requests of saved
//! searches, visualizations and controls, from an export file.
//!
//! Written from what the code of Dashboards 2.19.2 makes of queries (DQL) and aggregations, and
//! independent of the code that makes the objects.

mod dql;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

/// What intervals Dashboards chooses for a range of a day.
const INTERVAL: &str = "30m";

/// The range of time that is shown.
#[derive(Debug, Clone, Copy)]
pub struct TimeRange {
    /// Its begin, in ISO 8601.
    pub from: &'static str,
    /// Its end.
    pub to: &'static str,
}

/// A request that an object causes.
#[derive(Debug, Clone)]
pub struct DashboardsRequest {
    /// The id of the object, and the field of a control.
    pub name: String,
    /// The indices: the title of its index pattern.
    pub indices: String,
    /// The body of `_search`.
    pub body: Value,
    /// The fields that Dashboards looks up in the list of the index pattern, each with what it does
    /// with it.
    pub fields: Vec<(String, FieldUse)>,
}

/// What Dashboards does with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldUse {
    /// Groups or sorts by it, or computes with it.
    Aggregated,
    /// Searches it.
    Searched,
    /// Shows it.
    Shown,
}

/// What Dashboards makes of a query in its own language (DQL), as far as the saved objects use it.
pub fn dql_clause(query: &str) -> Result<Value> {
    Ok(dql::parse(query)?.clause)
}

/// The saved objects of a file.
pub struct Export(BTreeMap<(String, String), Value>);

impl Export {
    /// Parses a file.
    pub fn parse(file: &str) -> Result<Self> {
        let mut objects = BTreeMap::new();
        for line in file.lines() {
            let object: Value = serde_json::from_str(line).context("a line of the export")?;
            let key = (text(&object, "type")?, text(&object, "id")?);
            objects.insert(key, object);
        }
        Ok(Self(objects))
    }

    /// The requests of all saved searches, visualizations and controls.
    pub fn requests(&self, range: TimeRange) -> Result<Vec<DashboardsRequest>> {
        let mut requests = Vec::new();
        for ((object_type, id), object) in &self.0 {
            let made = match object_type.as_str() {
                "search" => vec![self.search(object, range)?],
                "visualization" => self.visualization(object, range)?,
                "index-pattern" | "dashboard" => continue,
                other => bail!("{id} has the type {other}"),
            };
            requests.extend(made);
        }
        Ok(requests)
    }

    fn search(&self, object: &Value, range: TimeRange) -> Result<DashboardsRequest> {
        let pattern = self.pattern(object, "kibanaSavedObjectMeta.searchSourceJSON.index")?;
        let (query, mut fields) = query(object, &pattern, range)?;
        let mut sort = Vec::new();
        for entry in object["attributes"]["sort"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let field = entry[0].as_str().context("a sort without a field")?;
            sort.push(json!({ field: { "order": entry[1], "unmapped_type": "boolean" } }));
            fields.push((field.to_owned(), FieldUse::Aggregated));
        }
        for column in object["attributes"]["columns"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let column = column.as_str().context("a column without a name")?;
            fields.push((column.to_owned(), FieldUse::Shown));
        }
        let excludes: Vec<&Value> = pattern
            .hidden
            .iter()
            .map(|hidden| &hidden["value"])
            .collect();
        Ok(DashboardsRequest {
            name: text(object, "id")?,
            indices: pattern.title,
            body: json!({
                "size": 500,
                "sort": sort,
                "stored_fields": ["*"],
                "script_fields": {},
                "_source": { "excludes": excludes },
                "query": query,
            }),
            fields,
        })
    }

    fn visualization(&self, object: &Value, range: TimeRange) -> Result<Vec<DashboardsRequest>> {
        let state = json_text(object, "visState")?;
        if state["type"] == "input_control_vis" {
            let controls = state["params"]["controls"]
                .as_array()
                .context("no controls")?;
            return controls
                .iter()
                .map(|control| self.control(object, control))
                .collect();
        }
        let pattern = self.pattern(object, "kibanaSavedObjectMeta.searchSourceJSON.index")?;
        let (query, mut fields) = query(object, &pattern, range)?;
        let aggregations = state["aggs"].as_array().context("no aggs")?;
        for aggregation in aggregations {
            if let Some(field) = aggregation["params"]["field"].as_str() {
                fields.push((field.to_owned(), FieldUse::Aggregated));
            }
        }
        Ok(vec![DashboardsRequest {
            name: text(object, "id")?,
            indices: pattern.title,
            body: json!({ "size": 0, "aggs": nested(aggregations)?, "query": query }),
            fields,
        }])
    }

    /// The values of a list, by which a control fills it.
    fn control(&self, object: &Value, control: &Value) -> Result<DashboardsRequest> {
        let reference = control["indexPatternRefName"]
            .as_str()
            .context("no pattern")?;
        let pattern = self.pattern(object, reference)?;
        let field = control["fieldName"].as_str().context("no field")?;
        let terms = json!({ "terms": { "field": field, "order": { "_count": "desc" } } });
        Ok(DashboardsRequest {
            name: format!("{} {field}", text(object, "id")?),
            indices: pattern.title,
            body: json!({ "size": 0, "aggs": { "termsAgg": terms }, "query": { "match_all": {} } }),
            fields: vec![(field.to_owned(), FieldUse::Aggregated)],
        })
    }

    fn pattern(&self, object: &Value, name: &str) -> Result<Pattern> {
        let references = object["references"].as_array().context("no references")?;
        let reference = references
            .iter()
            .find(|reference| reference["name"] == name);
        let id = reference.and_then(|reference| reference["id"].as_str());
        let id = id.with_context(|| format!("no reference {name} in {object}"))?;
        let key = ("index-pattern".to_owned(), id.to_owned());
        let pattern = self
            .0
            .get(&key)
            .with_context(|| format!("no index pattern {id}"))?;
        let attributes = &pattern["attributes"];
        let hidden = json_text(pattern, "sourceFilters")?;
        Ok(Pattern {
            title: attributes["title"].as_str().context("no title")?.to_owned(),
            time_field: attributes["timeFieldName"].as_str().map(str::to_owned),
            hidden: hidden.as_array().cloned().unwrap_or_default(),
        })
    }
}

struct Pattern {
    title: String,
    time_field: Option<String>,
    hidden: Vec<Value>,
}

/// The query of an object, and the fields that it names.
fn query(
    object: &Value,
    pattern: &Pattern,
    range: TimeRange,
) -> Result<(Value, Vec<(String, FieldUse)>)> {
    let meta = &object["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"];
    let source: Value = serde_json::from_str(meta.as_str().context("no search source")?)?;
    let dql = source["query"]["query"].as_str().context("no query")?;
    let parsed = dql::parse(dql).with_context(|| dql.to_owned())?;
    let mut filter = vec![parsed.clause];
    let mut fields: Vec<(String, FieldUse)> = parsed
        .fields
        .into_iter()
        .map(|field| (field, FieldUse::Searched))
        .collect();
    if let Some(field) = &pattern.time_field {
        let bounds =
            json!({ "gte": range.from, "lte": range.to, "format": "strict_date_optional_time" });
        filter.push(json!({ "range": { field: bounds } }));
        fields.push((field.clone(), FieldUse::Searched));
    }
    let clauses = json!({ "must": [], "filter": filter, "should": [], "must_not": [] });
    Ok((json!({ "bool": clauses }), fields))
}

/// Nests buckets in the order of the list, with the metrics in the innermost.
fn nested(aggregations: &[Value]) -> Result<Value> {
    let is_metric = |aggregation: &&Value| aggregation["schema"] == "metric";
    let mut inner = Map::new();
    for metric in aggregations.iter().filter(is_metric) {
        let function = metric["type"].as_str().context("no type")?;
        if function != "count" {
            let body = json!({ function: { "field": metric["params"]["field"] } });
            inner.insert(text(metric, "id")?, body);
        }
    }
    for bucket in aggregations.iter().rev().filter(|each| !is_metric(each)) {
        let mut body = bucket_body(bucket, aggregations)?;
        if !inner.is_empty() {
            body["aggs"] = Value::Object(inner);
        }
        inner = Map::from_iter([(text(bucket, "id")?, body)]);
    }
    Ok(Value::Object(inner))
}

fn bucket_body(bucket: &Value, aggregations: &[Value]) -> Result<Value> {
    let params = &bucket["params"];
    match bucket["type"].as_str().context("no type")? {
        "terms" => {
            let metric = aggregations
                .iter()
                .find(|metric| metric["id"] == params["orderBy"]);
            let metric = metric.context("an order by no metric")?;
            let key = match metric["type"].as_str() {
                Some("count") => "_count",
                _ => metric["id"].as_str().context("a metric without an id")?,
            };
            let mut terms = json!({ "field": params["field"], "order": { key: params["order"] }, "size": params["size"] });
            if let Some(include) = params.get("include") {
                terms["include"] = include.clone();
            }
            Ok(json!({ "terms": terms }))
        }
        "date_histogram" => {
            let body = json!({ "field": params["field"], "fixed_interval": INTERVAL, "time_zone": "UTC", "min_doc_count": 1 });
            Ok(json!({ "date_histogram": body }))
        }
        other => bail!("an aggregation {other}"),
    }
}

fn text(object: &Value, member: &str) -> Result<String> {
    let found = object[member].as_str().map(str::to_owned);
    found.with_context(|| format!("no {member} in {object}"))
}

fn json_text(object: &Value, attribute: &str) -> Result<Value> {
    let found = object["attributes"][attribute].as_str();
    let json = found.with_context(|| format!("no {attribute} in {object}"))?;
    serde_json::from_str(json).with_context(|| json.to_owned())
}
