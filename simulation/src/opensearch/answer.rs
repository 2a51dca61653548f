//! Answers and refusals, in OpenSearch's words.

use serde_json::{Map, Value, json};

/// What a handler answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body; `filter_path` applies to it.
    pub body: Value,
}

impl Answer {
    /// 200.
    pub fn ok(body: Value) -> Self {
        Self { status: 200, body }
    }

    /// What changes of the cluster's state are answered with.
    pub fn acknowledged() -> Self {
        Self::ok(json!({ "acknowledged": true }))
    }
}

/// An exception of OpenSearch. `filter_path` does not apply to its body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    /// HTTP status, also that of a bulk item.
    pub status: u16,
    error: Map<String, Value>,
    root_causes: Option<Vec<Value>>,
}

impl Refusal {
    /// An exception by its type, such as `illegal_argument_exception`.
    pub fn new(status: u16, kind: &str, reason: impl Into<String>) -> Self {
        let mut error = Map::new();
        error.insert("type".to_owned(), kind.into());
        error.insert("reason".to_owned(), reason.into().into());
        Self {
            status,
            error,
            root_causes: None,
        }
    }

    /// 400 `illegal_argument_exception`.
    pub fn illegal_argument(reason: impl Into<String>) -> Self {
        Self::new(400, "illegal_argument_exception", reason)
    }

    /// 400 `action_request_validation_exception`.
    pub fn invalid(problems: &[String]) -> Self {
        Self::new(
            400,
            "action_request_validation_exception",
            numbered(problems),
        )
    }

    /// 404 for an index or alias that a request names.
    pub fn no_such_index(name: &str) -> Self {
        Self::no_such(name, "index_or_alias")
    }

    /// 404 where a single document was asked for, or nothing was left of an expression.
    pub fn no_such_expression(name: &str) -> Self {
        Self::no_such(name, "index_expression")
    }

    fn no_such(name: &str, resource_type: &str) -> Self {
        Self::new(
            404,
            "index_not_found_exception",
            format!("no such index [{name}]"),
        )
        .with("index", name)
        .with("resource.id", name)
        .with("resource.type", resource_type)
        .with("index_uuid", "_na_")
    }

    /// What does not even begin like an object.
    pub fn no_content() -> Self {
        let reason = "Compressor detection can only be called on some xcontent bytes or compressed xcontent bytes";
        Self::new(400, "not_x_content_exception", reason)
    }

    /// JSON that is none.
    pub fn syntax(error: &serde_json::Error) -> Self {
        let kind = if error.is_eof() {
            "json_e_o_f_exception"
        } else {
            "json_parse_exception"
        };
        Self::new(400, kind, error.to_string())
    }

    /// Another member of the error.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.error.insert(key.to_owned(), value.into());
        self
    }

    /// The same, because of another.
    pub fn caused_by(self, cause: &Self) -> Self {
        let cause = cause.error();
        self.with("caused_by", cause)
    }

    /// The same with root causes other than itself.
    pub fn with_root_causes(mut self, causes: Vec<Value>) -> Self {
        self.root_causes = Some(causes);
        self
    }

    /// The error alone, as bulk items and failed shards hold it.
    pub fn error(&self) -> Value {
        Value::Object(self.error.clone())
    }

    /// The body of an answer.
    pub fn body(&self) -> Value {
        let itself = || {
            let mut cause = self.error.clone();
            cause.remove("caused_by");
            vec![Value::Object(cause)]
        };
        let mut error = Map::new();
        error.insert(
            "root_cause".to_owned(),
            self.root_causes.clone().unwrap_or_else(itself).into(),
        );
        error.extend(self.error.clone());
        json!({ "error": error, "status": self.status })
    }
}

/// Problems as validation exceptions list them.
pub(super) fn numbered(problems: &[String]) -> String {
    let listed = problems
        .iter()
        .enumerate()
        .map(|(number, problem)| format!("{}: {problem};", number + 1));
    format!("Validation Failed: {}", listed.collect::<String>())
}

/// 400 for a name that no index can have.
pub(super) fn invalid_name(name: &str, problem: &str) -> Refusal {
    Refusal::new(
        400,
        "invalid_index_name_exception",
        format!("Invalid index name [{name}], {problem}"),
    )
    .with("index", name)
    .with("index_uuid", "_na_")
}
