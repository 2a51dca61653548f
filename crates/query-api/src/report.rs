//! The report of a verification: a line of JSON for each kind of each cluster as soon as its result
//! is known, progress lines in between, and a last line, without which the report is incomplete.

use serde::{Deserialize, Serialize};

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReportLine {
    /// The result of one kind.
    Row(Row),
    /// The progress. Also shows that the connection is alive.
    Progress {
        /// Results so far.
        done: usize,
        /// Results at the end.
        total: usize,
    },
    /// The last line.
    End {
        /// The number of results.
        rows: usize,
    },
}

/// The result of one kind of one cluster in one store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The member.
    pub cluster: String,
    /// `apiVersion` of the kind; absent if the kinds are unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind; absent if the kinds are unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The namespace, if the stream is of one namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The store.
    pub store: String,
    /// The result.
    #[serde(flatten)]
    pub outcome: VerificationResult,
}

/// The result of verifying one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "result")]
pub enum VerificationResult {
    /// Every document matches its object.
    #[serde(rename = "OK")]
    Clean(ComparisonCounts),
    /// Some do not. They are being repaired.
    Drift(ComparisonCounts),
    /// Unknown.
    NotVerified {
        /// The reason.
        reason: String,
    },
}

/// How many objects and documents were compared, and how many differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparisonCounts {
    /// Objects that should be stored.
    pub objects: u64,
    /// Documents.
    pub documents: u64,
    /// Objects without a document.
    pub missing: u64,
    /// Documents of another version than the object.
    pub differing: u64,
    /// Documents without an object that should be stored.
    pub surplus: u64,
    /// Ids of some wrong documents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_flat_and_survive_a_round_trip() {
        let row = |outcome| Row {
            cluster: "member1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: String::new(),
            store: "http://opensearch:9200/fleetdex".to_owned(),
            outcome,
        };
        let drift = ComparisonCounts {
            objects: 3,
            documents: 2,
            missing: 1,
            examples: vec!["v1/Pod/u".to_owned()],
            ..ComparisonCounts::default()
        };
        let lines = [
            ReportLine::Row(row(VerificationResult::Clean(ComparisonCounts::default()))),
            ReportLine::Row(row(VerificationResult::Drift(drift))),
            ReportLine::Row(row(VerificationResult::NotVerified {
                reason: "disconnected".to_owned(),
            })),
            ReportLine::Progress { done: 1, total: 3 },
            ReportLine::End { rows: 3 },
        ];
        let texts = lines
            .each_ref()
            .map(|line| serde_json::to_string(line).unwrap());
        insta::assert_snapshot!(texts.join("\n"), @r#"
        {"row":{"cluster":"member1","apiVersion":"v1","kind":"Pod","store":"http://opensearch:9200/fleetdex","result":"OK","objects":0,"documents":0,"missing":0,"differing":0,"surplus":0}}
        {"row":{"cluster":"member1","apiVersion":"v1","kind":"Pod","store":"http://opensearch:9200/fleetdex","result":"Drift","objects":3,"documents":2,"missing":1,"differing":0,"surplus":0,"examples":["v1/Pod/u"]}}
        {"row":{"cluster":"member1","apiVersion":"v1","kind":"Pod","store":"http://opensearch:9200/fleetdex","result":"NotVerified","reason":"disconnected"}}
        {"progress":{"done":1,"total":3}}
        {"end":{"rows":3}}
        "#);
        let read = texts
            .each_ref()
            .map(|text| serde_json::from_str::<ReportLine>(text).unwrap());
        assert_eq!(read, lines);
    }
}
