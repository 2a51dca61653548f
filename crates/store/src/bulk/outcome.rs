//! The outcome of each item of a bulk request.

use serde::Deserialize;

use crate::opensearch::role::with_remedy;

/// The response does not fit the request: the outcome of its items is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Garbled {
    /// Not the JSON of a bulk response, perhaps cut off.
    #[error("no valid bulk response: {0}")]
    Json(String),
    /// Not as many items as were sent.
    #[error("{found} items where {sent} were sent")]
    Count {
        /// Items sent.
        sent: usize,
        /// Items in the response.
        found: usize,
    },
}

/// The outcome of one write, which decides what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Stored.
    Indexed,
    /// Deleted.
    Deleted,
    /// There was nothing to delete.
    Absent,
    /// The store has this version or a newer one: done.
    Superseded,
    /// Overload or an unknown outcome: send this write again, later.
    Retry(String),
    /// A block set by an operator or by a full disk: send this write again, much later.
    Blocked(String),
    /// The alias or its index is gone: it must be created and filled again.
    IndexMissing(String),
    /// This document, as it is, will never be accepted.
    Rejected(String),
}

impl Verdict {
    /// Why the write was not done; `None` if it was, or if its index is gone.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Retry(refusal) | Self::Blocked(refusal) | Self::Rejected(refusal) => {
                Some(refusal)
            }
            Self::Indexed
            | Self::Deleted
            | Self::Absent
            | Self::Superseded
            | Self::IndexMissing(_) => None,
        }
    }

    /// The verdict's name in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Indexed => "indexed",
            Self::Deleted => "deleted",
            Self::Absent => "absent",
            Self::Superseded => "superseded",
            Self::Retry(_) => "retried",
            Self::Blocked(_) => "blocked",
            Self::IndexMissing(_) => "index_missing",
            Self::Rejected(_) => "rejected",
        }
    }
}

#[derive(Deserialize)]
struct BulkResponse<'a> {
    #[serde(borrow)]
    items: Vec<Item<'a>>,
}

/// Has one member, named like the action.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    index: Option<ItemResponse<'a>>,
    #[serde(borrow)]
    delete: Option<ItemResponse<'a>>,
}

#[derive(Deserialize)]
struct ItemResponse<'a> {
    status: u16,
    #[serde(borrow)]
    error: Option<Refusal<'a>>,
}

#[derive(Deserialize, Default)]
struct Refusal<'a> {
    #[serde(default, borrow, rename = "type")]
    kind: std::borrow::Cow<'a, str>,
    #[serde(default, borrow)]
    reason: std::borrow::Cow<'a, str>,
    #[serde(default)]
    caused_by: Option<Box<Cause>>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: Option<String>,
}

impl Refusal<'_> {
    fn text(&self) -> String {
        match self
            .caused_by
            .as_ref()
            .and_then(|cause| cause.reason.as_deref())
        {
            Some(cause) => format!("{}: {} ({cause})", self.kind, self.reason),
            None => format!("{}: {}", self.kind, self.reason),
        }
    }
}

/// Reads a bulk response: one verdict per write, in the order sent.
pub fn read_response(body: &[u8], sent: usize) -> Result<Vec<Verdict>, Garbled> {
    let response: BulkResponse<'_> =
        serde_json::from_slice(body).map_err(|error| Garbled::Json(error.to_string()))?;
    if response.items.len() != sent {
        return Err(Garbled::Count {
            sent,
            found: response.items.len(),
        });
    }
    response
        .items
        .into_iter()
        .map(|item| match (item.index, item.delete) {
            (Some(answer), None) => Ok(verdict(&answer, Verdict::Indexed)),
            (None, Some(answer)) => Ok(verdict(&answer, Verdict::Deleted)),
            _ => Err(Garbled::Json(
                "an item that is neither index nor delete".to_owned(),
            )),
        })
        .collect()
}

fn verdict(answer: &ItemResponse<'_>, done: Verdict) -> Verdict {
    let no_refusal = Refusal::default();
    let refusal = answer.error.as_ref().unwrap_or(&no_refusal);
    match answer.status {
        200 | 201 => done,
        409 => Verdict::Superseded,
        404 if answer.error.is_none() => Verdict::Absent,
        404 => Verdict::IndexMissing(refusal.text()),
        403 => Verdict::Blocked(with_remedy(refusal.text())),
        // The block of the flood-stage watermark.
        429 if refusal.kind == "cluster_block_exception" => Verdict::Blocked(refusal.text()),
        // The limit of shards per node is reported as a validation error, but is no fault of the
        // document.
        400 if refusal.kind == "validation_exception"
            || refusal.reason.contains("maximum shards open") =>
        {
            Verdict::Blocked(refusal.text())
        }
        // `require_alias` on an alias that is gone.
        400 if refusal.reason.contains("require_alias") => Verdict::IndexMissing(refusal.text()),
        // Two indices have the alias: two instances that do not know of each other made the same
        // revision at the same time. None of them can be written any more.
        400 if refusal.reason.starts_with("no write index is defined") => {
            Verdict::IndexMissing(refusal.text())
        }
        400 | 413 => Verdict::Rejected(refusal.text()),
        status => Verdict::Retry(format!("HTTP {status} {}", refusal.text())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(action: &str, status: u16, error: &str) -> Verdict {
        let error = if error.is_empty() {
            String::new()
        } else {
            format!(r#","error":{error}"#)
        };
        let body = format!(
            r#"{{"took":1,"errors":true,"items":[{{"{action}":{{"_id":"a","status":{status}{error}}}}}]}}"#
        );
        read_response(body.as_bytes(), 1).unwrap().remove(0)
    }

    #[test]
    fn every_status_has_its_verdict() {
        assert_eq!(one("index", 201, ""), Verdict::Indexed);
        assert_eq!(one("index", 200, ""), Verdict::Indexed);
        assert_eq!(one("delete", 200, ""), Verdict::Deleted);
        assert_eq!(one("delete", 404, ""), Verdict::Absent);
        assert_eq!(
            one(
                "index",
                409,
                r#"{"type":"version_conflict_engine_exception","reason":"x"}"#
            ),
            Verdict::Superseded
        );
        for (action, status, error, label) in [
            (
                "index",
                404,
                r#"{"type":"index_not_found_exception","reason":"no such index"}"#,
                "index_missing",
            ),
            (
                "index",
                400,
                r#"{"type":"illegal_argument_exception","reason":"no write index is defined for alias [a]. The write index may be explicitly disabled using is_write_index=false or the alias points to multiple indices without one being designated as a write index"}"#,
                "index_missing",
            ),
            (
                "delete",
                404,
                r#"{"type":"index_not_found_exception","reason":"[require_alias] request flag is [true]"}"#,
                "index_missing",
            ),
            (
                "index",
                429,
                r#"{"type":"rejected_execution_exception","reason":"queue"}"#,
                "retried",
            ),
            (
                "index",
                429,
                r#"{"type":"cluster_block_exception","reason":"flood stage"}"#,
                "blocked",
            ),
            (
                "index",
                403,
                r#"{"type":"cluster_block_exception","reason":"index write (api)"}"#,
                "blocked",
            ),
            (
                "index",
                400,
                r#"{"type":"mapper_parsing_exception","reason":"x","caused_by":{"type":"y","reason":"z"}}"#,
                "rejected",
            ),
            (
                "index",
                400,
                r#"{"type":"illegal_argument_exception","reason":"immense term"}"#,
                "rejected",
            ),
            (
                "index",
                400,
                r#"{"type":"validation_exception","reason":"this cluster currently has [1000]/[1000] maximum shards open"}"#,
                "blocked",
            ),
            (
                "index",
                503,
                r#"{"type":"unavailable_shards_exception","reason":"x"}"#,
                "retried",
            ),
            ("index", 500, "", "retried"),
        ] {
            assert_eq!(
                one(action, status, error).label(),
                label,
                "{status} {error}"
            );
        }
    }

    #[test]
    fn a_response_that_does_not_fit_the_request_is_an_unknown_outcome() {
        let good = br#"{"items":[{"index":{"status":201}}]}"#;
        assert_eq!(
            read_response(good, 2),
            Err(Garbled::Count { sent: 2, found: 1 })
        );
        for bad in [
            "",
            "{}",
            r#"{"items":[{"index":{}}]}"#,
            r#"{"items":[{"create":{"status":201}}]}"#,
            r#"{"items":[{"index":{"sta"#,
        ] {
            assert!(read_response(bad.as_bytes(), 1).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn verdicts_keep_the_order_of_the_items(statuses in prop::collection::vec(prop::sample::select(vec![200_u16, 201, 409, 429, 500]), 0..50)) {
            let items: Vec<String> = statuses.iter().map(|status| format!(r#"{{"index":{{"status":{status}}}}}"#)).collect();
            let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
            let verdicts = read_response(body.as_bytes(), statuses.len()).unwrap();
            for (status, verdict) in statuses.iter().zip(&verdicts) {
                let label = match status { 200 | 201 => "indexed", 409 => "superseded", _ => "retried" };
                prop_assert_eq!(verdict.label(), label);
            }
        }

        #[test]
        fn a_cut_response_is_never_taken_for_a_whole_one(cut in 0_usize..60) {
            let body = br#"{"took":3,"errors":false,"items":[{"index":{"status":201}},{"delete":{"status":200}}]}"#;
            prop_assert!(read_response(&body[..cut], 2).is_err());
        }
    }
}
