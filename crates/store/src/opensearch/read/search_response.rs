//! Responses of `_search`.

use fleetdex_core::{
    model::{HitSource, JsonLine, JsonScanner, ScanFault},
    planted::{Bug, planted},
    query::HeldMemory,
};
use fleetdex_limits::intake::MemoryReservation;
use serde::{
    Deserialize,
    de::{Error as _, IgnoredAny},
};
use serde_json::Value;

/// A response, whose documents are read as `S`. Most of its bytes are documents, so it is read in
/// one pass over them.
pub(crate) struct SearchResponse<S> {
    pub(crate) timed_out: bool,
    pub(crate) shards: Shards,
    pub(crate) pit_id: Option<String>,
    pub(crate) hits: Hits<S>,
    pub(crate) aggregations: Option<Value>,
}

/// What is read of the `_source` of a hit.
pub(crate) trait Source: Sized {
    fn read(scanner: &mut JsonScanner<'_>) -> Result<Self, ScanFault>;

    /// The bytes that it takes.
    fn bytes(&self) -> usize;
}

impl Source for HitSource {
    fn read(scanner: &mut JsonScanner<'_>) -> Result<Self, ScanFault> {
        Self::read(scanner)
    }

    fn bytes(&self) -> usize {
        let restored = self.0.as_ref();
        restored.map_or(0, |restored| restored.object.get().len())
    }
}

impl Source for JsonLine {
    fn read(scanner: &mut JsonScanner<'_>) -> Result<Self, ScanFault> {
        scanner
            .skip()
            .map(|document| Self::new(document.to_owned()))
    }

    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Source for IgnoredAny {
    fn read(scanner: &mut JsonScanner<'_>) -> Result<Self, ScanFault> {
        scanner.skip().map(|_| Self)
    }

    fn bytes(&self) -> usize {
        0
    }
}

#[derive(Deserialize)]
pub(crate) struct Shards {
    pub(crate) total: u64,
    successful: u64,
    failed: u64,
}

/// What a response lacks.
pub(crate) enum Lack {
    /// Shards that no node has, as after their index was deleted. OpenSearch counts them neither
    /// as failed nor as successful.
    Unavailable(String),
    Other(String),
}

impl<S> SearchResponse<S> {
    /// What it lacks; `None` if it is whole.
    pub(crate) fn lack(&self) -> Option<Lack> {
        if self.timed_out {
            let reason = "a search timed out in OpenSearch".to_owned();
            return Some(Lack::Other(reason));
        }
        let (total, failed) = (self.shards.total, self.shards.failed);
        if failed > 0 {
            return Some(Lack::Other(format!("{failed} of {total} shards failed")));
        }
        let unavailable = total.saturating_sub(self.shards.successful);
        if unavailable == 0 || planted(Bug::IgnoreMissingShards) {
            return None;
        }
        let reason = format!("{unavailable} of {total} shards are not available");
        Some(Lack::Unavailable(reason))
    }
}

pub(crate) struct Hits<S> {
    pub(crate) total: Option<Total>,
    pub(crate) hits: Vec<RawHit<S>>,
}

impl<S> Default for Hits<S> {
    fn default() -> Self {
        Self {
            total: None,
            hits: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct Total {
    pub(crate) value: u64,
}

/// A hit, whose document is read as `S`.
pub(crate) struct RawHit<S> {
    pub(crate) id: String,
    pub(crate) version: Option<u64>,
    pub(crate) routing: Option<String>,
    pub(crate) source: Option<S>,
    pub(crate) sort: Vec<Value>,
    /// The memory of the page.
    pub(crate) memory: HeldMemory,
}

impl<S: Source> SearchResponse<S> {
    /// Keeps memory for as long as any of the hits is in memory.
    pub(crate) fn hold(&mut self, mut memory: MemoryReservation) {
        let sources = self.hits.hits.iter().filter_map(|hit| hit.source.as_ref());
        memory.shrink(sources.map(Source::bytes).sum());
        if memory.holds_any() {
            let memory = HeldMemory::new(memory);
            for hit in &mut self.hits.hits {
                hit.memory = memory.clone();
            }
        }
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        let text = str::from_utf8(body).map_err(serde_json::Error::custom)?;
        let mut scanner = JsonScanner::new(text);
        let (mut timed_out, mut shards, mut pit_id) = (None, None, None);
        let (mut hits, mut aggregations) = (None, None);
        let mut read = |scanner: &mut JsonScanner<'_>| {
            scanner.object(|scanner, name| match &*name {
                "timed_out" => once(&mut timed_out, scanner, JsonScanner::deserialize),
                "_shards" => once(&mut shards, scanner, JsonScanner::deserialize),
                "pit_id" => once(&mut pit_id, scanner, JsonScanner::deserialize),
                "hits" => once(&mut hits, scanner, Hits::read),
                "aggregations" => once(&mut aggregations, scanner, JsonScanner::deserialize),
                _ => scanner.skip().map(drop),
            })?;
            scanner.end()
        };
        read(&mut scanner).map_err(|fault| fault.of(text))?;
        let missing = serde_json::Error::missing_field;
        Ok(Self {
            timed_out: timed_out.ok_or_else(|| missing("timed_out"))?,
            shards: shards.ok_or_else(|| missing("_shards"))?,
            pit_id: pit_id.flatten(),
            hits: hits.unwrap_or_default(),
            aggregations: aggregations.flatten(),
        })
    }
}

impl<S: Source> Hits<S> {
    fn read(scanner: &mut JsonScanner<'_>) -> Result<Self, ScanFault> {
        let (mut total, mut hits) = (None, None);
        let read_hits = |scanner: &mut JsonScanner<'_>| {
            let mut hits = Vec::new();
            scanner.array(|scanner| {
                hits.push(RawHit::read(scanner)?);
                Ok(())
            })?;
            Ok(hits)
        };
        scanner.object(|scanner, name| match &*name {
            "total" => once(&mut total, scanner, JsonScanner::deserialize),
            "hits" => once(&mut hits, scanner, read_hits),
            _ => scanner.skip().map(drop),
        })?;
        Ok(Self {
            total: total.flatten(),
            hits: hits.unwrap_or_default(),
        })
    }
}

impl<S: Source> RawHit<S> {
    fn read(scanner: &mut JsonScanner<'_>) -> Result<Self, ScanFault> {
        let (mut id, mut version, mut routing) = (None, None, None);
        let (mut source, mut sort) = (None, None);
        let read_source = |scanner: &mut JsonScanner<'_>| {
            if scanner.null()? {
                return Ok(None);
            }
            S::read(scanner).map(Some)
        };
        scanner.object(|scanner, name| match &*name {
            "_id" => once(&mut id, scanner, JsonScanner::deserialize),
            "_version" => once(&mut version, scanner, JsonScanner::deserialize),
            "_routing" => once(&mut routing, scanner, JsonScanner::deserialize),
            "_source" => once(&mut source, scanner, read_source),
            "sort" => once(&mut sort, scanner, JsonScanner::deserialize),
            _ => scanner.skip().map(drop),
        })?;
        Ok(Self {
            id: id.ok_or(scanner.fault())?,
            version: version.flatten(),
            routing: routing.flatten(),
            source: source.flatten(),
            sort: sort.unwrap_or_default(),
            memory: HeldMemory::default(),
        })
    }
}

/// Reads a member that may be there once.
fn once<'a, T>(
    slot: &mut Option<T>,
    scanner: &mut JsonScanner<'a>,
    read: impl FnOnce(&mut JsonScanner<'a>) -> Result<T, ScanFault>,
) -> Result<(), ScanFault> {
    match slot.replace(read(scanner)?) {
        None => Ok(()),
        Some(_) => Err(scanner.fault()),
    }
}

/// The response of a `terms` aggregation of texts.
#[derive(Deserialize)]
pub(crate) struct TermsResponse {
    pub(crate) buckets: Vec<TermBucket>,
    #[serde(default)]
    pub(crate) sum_other_doc_count: u64,
}

#[derive(Deserialize)]
pub(crate) struct TermBucket {
    pub(crate) key: String,
    pub(crate) doc_count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    type Response = SearchResponse<JsonLine>;

    #[test]
    fn all_that_is_read_of_a_response_is_found_in_any_order() {
        let body = r#" {"took":3,"hits":{"max_score":null,"hits":[
            {"_index":"i","sort":["a",7,null],"_id":"v1/Pod/\"a","_source":{"a": [1, {}]},"_version":12,"_routing":"p1"},
            {"_id":"b","_source":null},{"_id":"c"}],"total":{"value":9,"relation":"eq"}},
            "pit_id":"x","aggregations":{"by":{}},"timed_out":false,"_shards":{"total":2,"successful":1,"skipped":0,"failed":1}} "#;
        let response = Response::parse(body.as_bytes()).unwrap();
        let [first, without, none] = &response.hits.hits[..] else {
            panic!("{} hits", response.hits.hits.len());
        };
        assert_eq!(
            (&*first.id, first.version, first.routing.as_deref()),
            ("v1/Pod/\"a", Some(12), Some("p1"))
        );
        assert_eq!(
            Value::from(first.sort.clone()).to_string(),
            r#"["a",7,null]"#
        );
        assert_eq!(
            first.source.as_deref().unwrap(),
            r#"{"a": [1, {}]}"#.as_bytes()
        );
        assert!(without.source.is_none() && none.source.is_none() && none.sort.is_empty());
        assert_eq!(response.hits.total.as_ref().unwrap().value, 9);
        assert_eq!(response.pit_id.as_deref(), Some("x"));
        assert!(response.aggregations.is_some());
        assert!(matches!(response.lack(), Some(Lack::Other(_))));
    }

    #[test]
    fn a_response_that_lacks_something_is_refused_with_its_place() {
        let shards = r#""_shards":{"total":1,"successful":1,"failed":0}"#;
        let error = |body: String| {
            let parsed = Response::parse(body.as_bytes());
            parsed.map(|_| ()).unwrap_err().to_string()
        };
        let cases = [
            format!("{{{shards}}}"),
            r#"{"timed_out":false}"#.to_owned(),
            format!(r#"{{"timed_out":false,{shards},"hits":{{"hits":[{{"_source":{{}}}}]}}}}"#),
            format!(r#"{{"timed_out":"no",{shards}}}"#),
            format!(r#"{{"timed_out":false,{shards},{shards}}}"#),
            format!(r#"{{"timed_out":false,{shards},"hits":{{"hits":[{{"_id":"a""#),
        ];
        insta::assert_snapshot!(cases.map(error).join("\n"), @r"
        missing field `timed_out`
        missing field `_shards`
        another shape was expected at line 1 column 98
        another shape was expected at line 1 column 14
        another shape was expected at line 1 column 115
        EOF while parsing an object at line 1 column 93
        ");
    }
}
