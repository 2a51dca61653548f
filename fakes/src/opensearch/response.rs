//! Responses and exceptions, with the texts of OpenSearch.

use serde_json::{Map, Value, json};

/// The response of a handler.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiResponse {
    /// HTTP status.
    pub status: u16,
    /// The body; `filter_path` applies to it.
    pub body: Value,
}

impl ApiResponse {
    /// 200.
    pub fn ok(body: Value) -> Self {
        Self { status: 200, body }
    }

    /// The response to a change of the cluster state.
    pub fn acknowledged() -> Self {
        Self::ok(json!({ "acknowledged": true }))
    }
}

/// An exception of OpenSearch. `filter_path` does not apply to its body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exception {
    /// HTTP status, also of a bulk item.
    pub status: u16,
    error: Map<String, Value>,
    root_causes: Option<Vec<Value>>,
}

impl Exception {
    /// Creates an exception of a type, such as `illegal_argument_exception`.
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

    /// 404 for a request for a single document, or for an expression that matches nothing.
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

    /// 400 for a body that does not begin like an object.
    pub fn no_content() -> Self {
        let reason = "Compressor detection can only be called on some xcontent bytes or compressed xcontent bytes";
        Self::new(400, "not_x_content_exception", reason)
    }

    /// 400 for invalid JSON.
    pub fn syntax(error: &serde_json::Error) -> Self {
        let kind = if error.is_eof() {
            "json_e_o_f_exception"
        } else {
            "json_parse_exception"
        };
        Self::new(400, kind, error.to_string())
    }

    /// Adds a member to the error.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.error.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a cause.
    pub fn caused_by(self, cause: &Self) -> Self {
        let cause = cause.error();
        self.with("caused_by", cause)
    }

    /// Replaces the root causes; the default is the exception itself.
    pub fn with_root_causes(mut self, causes: Vec<Value>) -> Self {
        self.root_causes = Some(causes);
        self
    }

    /// Returns the error alone, as bulk items and failed shards contain it.
    pub fn error(&self) -> Value {
        Value::Object(self.error.clone())
    }

    /// Returns the body of a response.
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

/// Formats problems as validation exceptions list them.
pub(super) fn numbered(problems: &[String]) -> String {
    let listed = problems
        .iter()
        .enumerate()
        .map(|(number, problem)| format!("{}: {problem};", number + 1));
    format!("Validation Failed: {}", listed.collect::<String>())
}

/// 400 for an invalid index name.
pub(super) fn invalid_name(name: &str, problem: &str) -> Exception {
    Exception::new(
        400,
        "invalid_index_name_exception",
        format!("Invalid index name [{name}], {problem}"),
    )
    .with("index", name)
    .with("index_uuid", "_na_")
}
