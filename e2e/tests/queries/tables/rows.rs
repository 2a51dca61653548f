//! Comparison of two Tables.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// A kind and where its objects are listed.
pub struct Resource {
    /// For messages.
    pub kind: String,
    /// The path of the list.
    pub path: String,
}

/// A Table, with its rows by namespace and name.
pub struct Table {
    columns: Vec<Value>,
    rows: BTreeMap<String, Row>,
}

struct Row {
    cells: Vec<Value>,
    conditions: Value,
}

/// Reads a Table.
pub fn table(answer: &Value) -> Result<Table> {
    let columns = answer["columnDefinitions"]
        .as_array()
        .with_context(|| format!("no Table: {answer}"))?;
    let mut rows = BTreeMap::new();
    for row in answer["rows"].as_array().context("no rows")? {
        let metadata = &row["object"]["metadata"];
        let key = format!(
            "{}/{}",
            metadata["namespace"].as_str().unwrap_or(""),
            metadata["name"].as_str().context("no name")?
        );
        let cells = row["cells"].as_array().context("no cells")?.clone();
        rows.insert(
            key,
            Row {
                cells,
                conditions: row["conditions"].clone(),
            },
        );
    }
    let shown = |column: &Value| {
        json!([
            column["name"],
            column["type"],
            column["format"],
            column["priority"]
        ])
    };
    Ok(Table {
        columns: columns.iter().map(shown).collect(),
        rows,
    })
}

/// The columns that only Fleetdex has, at the end; kubectl prints them with `-o wide`.
fn health_columns() -> [Value; 2] {
    ["Health", "Health Reason"].map(|name| json!([name, "string", "", 1]))
}

/// Differences of our Table from theirs, except for the leading column and those of the health.
pub fn differences(theirs: &Table, ours: &Table) -> Vec<String> {
    let mut found = Vec::new();
    if theirs.rows.is_empty() {
        found.push("there is no object".to_owned());
    }
    let of_cluster = json!(["Cluster", "string", "", 0]);
    let expected = [
        &[of_cluster][..],
        &theirs.columns[..],
        &health_columns()[..],
    ]
    .concat();
    if ours.columns != expected {
        found.push(format!(
            "columns:\n  theirs {}\n  ours   {}",
            json!(theirs.columns),
            json!(ours.columns)
        ));
    }
    let missing = theirs
        .rows
        .keys()
        .filter(|key| !ours.rows.contains_key(*key))
        .map(|key| format!("{key} is missing"));
    found.extend(missing);
    found.extend(
        ours.rows
            .keys()
            .filter(|key| !theirs.rows.contains_key(*key))
            .map(|key| format!("{key} is too much")),
    );
    for (key, row) in &theirs.rows {
        let Some(own) = ours.rows.get(key) else {
            continue;
        };
        let compared = |cells: &[Value]| -> Vec<Value> {
            let named = theirs.columns.iter().zip(cells);
            // Ages change between the two requests.
            named
                .filter(|(column, _)| column[0] != "Age")
                .map(|(_, cell)| cell.clone())
                .collect()
        };
        // An IPAddress has one more cell than columns, which no client prints.
        let (expected, shown) = (compared(&row.cells), compared(&own.cells[1..]));
        let has_health = own.cells.len() == ours.columns.len();
        if !has_health
            || own.cells[0] != "member1"
            || expected != shown
            || own.conditions != row.conditions
        {
            found.push(format!(
                "{key}:\n  theirs {}\n  ours   {}",
                json!(row.cells),
                json!(own.cells)
            ));
        }
    }
    found
}
