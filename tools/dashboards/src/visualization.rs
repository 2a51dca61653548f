//! Builds visualizations: numbers, tables, pies, charts and controls.
//!
//! Their parameters are the defaults of 2.19's editors, which 3.x reads as well.

use serde_json::{Value, json};

use crate::{
    aggregation::{BucketAggregation, MetricAggregation, aggregations},
    dql::{FieldCondition, query},
    saved_object::{
        SavedObject, SavedObjectReference, SavedObjectType, attributes, no_index, search_source,
    },
};

/// What a visualization looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Numbers.
    Metric,
    /// A table with a row for each bucket.
    Table,
    /// A ring.
    Pie,
    /// Bars upwards, stacked.
    Columns,
    /// Bars to the right, stacked.
    Bars,
    /// Bars upwards, one beside the other.
    ColumnsSideBySide,
}

/// A visualization of what a search finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VisualizationSpec {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) look: Look,
    pub(crate) query: &'static [FieldCondition],
    pub(crate) metrics: &'static [MetricAggregation],
    pub(crate) buckets: &'static [BucketAggregation],
}

impl VisualizationSpec {
    /// The saved object; `index_pattern` is the id of the pattern to search.
    pub(crate) fn build(&self, id: String, index_pattern: &str) -> SavedObject {
        let state = json!({
            "title": self.title,
            "type": self.look.name(),
            "aggs": aggregations(self.metrics, self.buckets),
            "params": self.look.params(self.metrics),
        });
        let (meta, reference) = search_source(&query(self.query), index_pattern);
        saved_object(id, self.description, &state, &meta, vec![reference])
    }
}

/// Lists of the values of fields; a chosen value is a filter of the whole dashboard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlsSpec {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    /// Fields and their labels.
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

impl ControlsSpec {
    /// The saved object; `index_pattern` is the id of the pattern whose values are listed.
    pub(crate) fn build(&self, id: String, index_pattern: &str) -> SavedObject {
        let reference_name = |number: usize| format!("control_{number}_index_pattern");
        let control = |(number, (field, label)): (usize, &(&str, &str))| {
            json!({
                "id": format!("control-{number}"),
                "fieldName": field,
                "label": label,
                // The values of a list do not depend on what the others have chosen.
                "parent": "",
                "indexPatternRefName": reference_name(number),
                "type": "list",
                "options": { "type": "terms", "multiselect": true, "dynamicOptions": true, "size": 100, "order": "desc" },
            })
        };
        let controls: Vec<Value> = self.fields.iter().enumerate().map(control).collect();
        let state = json!({
            "title": self.title,
            "type": "input_control_vis",
            "aggs": [],
            "params": {
                "controls": controls,
                "updateFiltersOnChange": true,
                "useTimeFilter": false,
                "pinFilters": false,
            },
        });
        let references = (0..self.fields.len()).map(|number| SavedObjectReference {
            name: reference_name(number),
            object_type: SavedObjectType::IndexPattern,
            id: index_pattern.to_owned(),
        });
        saved_object(
            id,
            self.description,
            &state,
            &no_index(),
            references.collect(),
        )
    }
}

fn saved_object(
    id: String,
    description: &str,
    state: &Value,
    meta: &Value,
    references: Vec<SavedObjectReference>,
) -> SavedObject {
    SavedObject {
        object_type: SavedObjectType::Visualization,
        id,
        attributes: attributes(json!({
            "title": state["title"],
            "description": description,
            "version": 1,
            "uiStateJSON": "{}",
            "visState": state.to_string(),
            "kibanaSavedObjectMeta": meta,
        })),
        references,
    }
}

impl Look {
    /// The type of visualization in Dashboards.
    fn name(self) -> &'static str {
        match self {
            Self::Metric => "metric",
            Self::Table => "table",
            Self::Pie => "pie",
            Self::Columns | Self::ColumnsSideBySide => "histogram",
            Self::Bars => "horizontal_bar",
        }
    }

    fn params(self, metrics: &[MetricAggregation]) -> Value {
        match self {
            Self::Metric => metric(),
            Self::Table => table(),
            Self::Pie => pie(),
            Self::Columns => axes(metrics, AxisSides::UPRIGHT, "stacked"),
            Self::ColumnsSideBySide => axes(metrics, AxisSides::UPRIGHT, "normal"),
            Self::Bars => axes(metrics, AxisSides::SIDEWAYS, "stacked"),
        }
    }
}

fn metric() -> Value {
    json!({
        "addTooltip": true,
        "addLegend": false,
        "type": "metric",
        "metric": {
            "percentageMode": false,
            "useRanges": false,
            "colorSchema": "Green to Red",
            "metricColorMode": "None",
            "colorsRange": [{ "from": 0, "to": 10000 }],
            "labels": { "show": true },
            "invertColors": false,
            "style": { "bgFill": "#000", "bgColor": false, "labelColor": false, "subText": "", "fontSize": 36 },
        },
    })
}

fn table() -> Value {
    json!({
        "perPage": 10,
        "showPartialRows": false,
        "showMetricsAtAllLevels": false,
        "showTotal": false,
        "totalFunc": "sum",
        "percentageCol": "",
    })
}

fn pie() -> Value {
    json!({
        "type": "pie",
        "addTooltip": true,
        "addLegend": true,
        "legendPosition": "right",
        "isDonut": true,
        "labels": { "show": false, "values": true, "last_level": true, "truncate": 100 },
    })
}

/// Where the two axes of a chart are.
#[derive(Clone, Copy)]
struct AxisSides {
    category: &'static str,
    value: &'static str,
}

impl AxisSides {
    const UPRIGHT: Self = Self {
        category: "bottom",
        value: "left",
    };
    const SIDEWAYS: Self = Self {
        category: "left",
        value: "bottom",
    };
}

/// One series for each metric: `mode` is `stacked` or `normal`.
fn axes(metrics: &[MetricAggregation], sides: AxisSides, mode: &str) -> Value {
    let series = |(number, metric): (usize, &MetricAggregation)| {
        json!({
            "show": true,
            "type": "histogram",
            "mode": mode,
            "data": { "label": metric.label, "id": number.to_string() },
            "valueAxis": "ValueAxis-1",
            "drawLinesBetweenPoints": true,
            "lineWidth": 2,
            "showCircles": true,
        })
    };
    let series: Vec<Value> = (1..).zip(metrics).map(series).collect();
    let title = metrics.first().map_or("", |metric| metric.label);
    json!({
        // Of sideways charts as well.
        "type": "histogram",
        "grid": { "categoryLines": false },
        "categoryAxes": [{
            "id": "CategoryAxis-1",
            "type": "category",
            "position": sides.category,
            "show": true,
            "style": {},
            "scale": { "type": "linear" },
            "labels": { "show": true, "filter": true, "truncate": 100 },
            "title": {},
        }],
        "valueAxes": [{
            "id": "ValueAxis-1",
            "name": "LeftAxis-1",
            "type": "value",
            "position": sides.value,
            "show": true,
            "style": {},
            "scale": { "type": "linear", "mode": "normal" },
            "labels": { "show": true, "rotate": 0, "filter": false, "truncate": 100 },
            "title": { "text": title },
        }],
        "seriesParams": series,
        "addTooltip": true,
        "addLegend": true,
        "legendPosition": "right",
        "times": [],
        "addTimeMarker": false,
        "labels": { "show": false },
        "thresholdLine": { "show": false, "value": 10, "width": 1, "style": "full", "color": "#E7664C" },
    })
}
