//! The header `Accept`, clause by clause.
//!
//! Source of the rules: `NegotiateMediaTypeOptions` of
//! <https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/handlers/negotiation>

use http::{HeaderMap, header};

/// Clauses that are parsed; clients send three or four.
const MAX_CLAUSES: usize = 64;

/// One media range and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause<'h> {
    family: &'h str,
    subtype: &'h str,
    quality: f32,
    parameters: Vec<(&'h str, &'h str)>,
}

impl<'h> Clause<'h> {
    /// `None` if it is no media range.
    fn parse(text: &'h str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let range = parts.next()?;
        let (family, subtype) = match range.split_once('/') {
            Some((family, subtype)) if !subtype.contains('/') => (family.trim(), subtype.trim()),
            None if range == "*" => ("*", "*"),
            _ => return None,
        };
        let mut clause = Self {
            family,
            subtype,
            quality: 1.0,
            parameters: Vec::new(),
        };
        for (key, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
            let (key, value) = (key.trim(), value.trim());
            if key == "q" {
                let quality = value.parse().ok();
                let quality = quality.filter(|quality| (0.0..=1.0).contains(quality));
                clause.quality = quality.unwrap_or_default();
            } else {
                clause.parameters.push((key, value));
            }
        }
        Some(clause)
    }

    /// Whether it accepts the media type `application/<subtype>`.
    pub fn accepts(&self, subtype: &str) -> bool {
        match (self.family, self.subtype) {
            ("*" | "application", "*") => true,
            (family, own) => family == "application" && own == subtype,
        }
    }

    /// Its parameters, `q` aside.
    pub fn parameters(&self) -> impl Iterator<Item = (&'h str, &'h str)> {
        self.parameters.iter().copied()
    }

    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&'h str> {
        let found = self.parameters().find(|(key, _)| *key == name);
        found.map(|(_, value)| value)
    }

    fn wildcards(&self) -> u8 {
        u8::from(self.family == "*") + u8::from(self.subtype == "*")
    }
}

/// The header's text; empty without one.
pub fn text(headers: &HeaderMap) -> String {
    let lines = headers.get_all(header::ACCEPT).iter();
    let lines = lines.map(|value| value.to_str().unwrap_or_default());
    lines.collect::<Vec<_>>().join(",")
}

/// The clauses of a header by quality; those of equal quality in their order, but wildcards last.
pub fn clauses(header: &str) -> Vec<Clause<'_>> {
    let clauses = header.split(',').filter_map(Clause::parse);
    let mut clauses: Vec<Clause<'_>> = clauses.take(MAX_CLAUSES).collect();
    clauses.sort_by(|left, right| {
        let by_quality = right.quality.total_cmp(&left.quality);
        by_quality.then(left.wildcards().cmp(&right.wildcards()))
    });
    clauses
}
