//! The values that objects have of some properties.

use std::collections::BTreeMap;

use fleetdex_core::query::{ValueCounts, ValuePrefix, ValuesQuery};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::search_response::{SearchResponse, TermsResponse};
use crate::{
    StoreError,
    opensearch::{
        connection::responses::Purpose,
        dsl::values_body,
        engine::{Engine, search_path},
    },
};

impl Engine {
    pub(crate) async fn count_values(
        &self,
        values: &ValuesQuery,
    ) -> Result<Vec<ValueCounts>, StoreError> {
        let body = values_body(values)?;
        let Some(target) = self.ranked_target(&values.queries) else {
            return Ok(vec![ValueCounts::default(); values.prefixes.len()]);
        };
        let path = search_path(&target);
        let purpose = Purpose::from(&values.requester);
        let answer: SearchResponse<IgnoredAny> = self.run_search(purpose, path, &body).await?;
        read_counts(answer.aggregations, &values.prefixes)
    }
}

/// Without an index there are no aggregations.
fn read_counts(
    aggregations: Option<Value>,
    prefixes: &[ValuePrefix],
) -> Result<Vec<ValueCounts>, StoreError> {
    let read = aggregations.map(serde_json::from_value).transpose();
    let read: Result<Option<BTreeMap<String, TermsResponse>>, _> = read;
    let read = read.map_err(|error| StoreError::garbled("a search for values", error))?;
    let mut read = read.unwrap_or_default();
    let of_prefix = |(position, prefix): (usize, &ValuePrefix)| {
        let mut counts = ValueCounts::default();
        let found = read.remove(&position.to_string());
        for bucket in found.into_iter().flat_map(|found| found.buckets) {
            if let Some(value) = prefix.field.value_of(&bucket.key) {
                counts.add(value, bucket.doc_count);
            }
        }
        counts
    };
    Ok(prefixes.iter().enumerate().map(of_prefix).collect())
}

#[cfg(test)]
mod tests {
    use fleetdex_core::query::ValueField;
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_read_by_the_position_of_their_prefix() {
        let prefix = |field| ValuePrefix::new(field, "").unwrap();
        let prefixes = [
            prefix(ValueField::Label("app".to_owned())),
            prefix(ValueField::Namespace),
        ];
        let bucket = |key: &str, count: u64| json!({ "key": key, "doc_count": count });
        let response = json!({
            "0": { "buckets": [bucket("app=web", 3), bucket("other=a", 2)], "sum_other_doc_count": 1 },
        });
        let counts = read_counts(Some(response), &prefixes).unwrap();
        let read: Vec<_> = counts
            .into_iter()
            .map(|counts| counts.most_frequent(9))
            .collect();
        assert_eq!(read, [vec![("web".to_owned(), 3)], vec![]]);
        assert_eq!(read_counts(None, &prefixes).unwrap().len(), 2);
        assert!(read_counts(Some(json!({ "0": [] })), &prefixes).is_err());
    }
}
