//! What a verification tells: a line of JSON for each kind of each cluster as soon as it is known, lines in between that say how far it
//! is, and one line at the end, without which the report is not complete.

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// The result of one kind.
    Row(Row),
    /// How many results there are, and how many there will be. Also shows that the connection is alive.
    Progress {
        /// Results so far.
        done: usize,
        /// Results at the end.
        total: usize,
    },
    /// Nothing follows.
    End {
        /// How many results there were.
        rows: usize,
    },
}

/// The result of one kind of one cluster in one store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The member.
    pub cluster: String,
    /// `apiVersion` of the kind; absent where kinds are not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind; absent where kinds are not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The namespace, where only that one is followed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The store.
    pub store: String,
    /// What came out.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came out of the verification of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "result")]
pub enum Outcome {
    /// Every document is as its object.
    #[serde(rename = "OK")]
    Clean(Counts),
    /// Some are not. They are being repaired.
    Drift(Counts),
    /// Not known.
    NotVerified {
        /// Why.
        reason: String,
    },
}

/// What was compared, and what was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Objects that should be stored.
    pub objects: u64,
    /// Documents.
    pub documents: u64,
    /// Objects without a document.
    pub missing: u64,
    /// Documents of another version than the object.
    pub differing: u64,
    /// Documents of no object that should be stored.
    pub surplus: u64,
    /// Ids of some documents that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_flat_and_read_back_as_they_were_written() {
        let row = |outcome| Row {
            cluster: "member1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: String::new(),
            store: "http://opensearch:9200/fleetdex".to_owned(),
            outcome,
        };
        let drift = Counts {
            objects: 3,
            documents: 2,
            missing: 1,
            examples: vec!["v1/Pod/u".to_owned()],
            ..Counts::default()
        };
        let lines = [
            Line::Row(row(Outcome::Clean(Counts::default()))),
            Line::Row(row(Outcome::Drift(drift))),
            Line::Row(row(Outcome::NotVerified {
                reason: "disconnected".to_owned(),
            })),
            Line::Progress { done: 1, total: 3 },
            Line::End { rows: 3 },
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
            .map(|text| serde_json::from_str::<Line>(text).unwrap());
        assert_eq!(read, lines);
    }
}
