//! What pages have requested, from the events of the [DevTools protocol].
//!
//! Requests of service workers and of other workers are not among them.
//!
//! [DevTools protocol]: https://chromedevtools.github.io/devtools-protocol/tot/Network/

use anyhow::{Context, Result};
use reqwest::Url;
use serde_json::Value;

/// One request of a page, also one that the browser has blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The requested URL.
    pub url: String,
    /// The method, such as `GET`.
    pub method: String,
    /// What requested it: `Document`, `Script`, `Stylesheet`, `Fetch`, `EventSource`, ….
    pub kind: String,
    /// The response's status, if there was a response.
    pub status: Option<u16>,
    /// Bytes of the response as they were sent: headers and compressed body, so far.
    pub bytes: u64,
    /// Why there was no complete response, such as `csp` or `net::ERR_NAME_NOT_RESOLVED`.
    pub failure: Option<String>,
}

impl PageRequest {
    /// Scheme, host and port, as browsers write them: without the usual port.
    pub fn origin(&self) -> Result<String> {
        let url = Url::parse(&self.url).with_context(|| format!("parsing {}", self.url))?;
        Ok(url.origin().ascii_serialization())
    }
}

/// All requests since the browser was opened or the log was cleared, oldest first, with the
/// browser's id of each. The requests of a redirect chain share an id.
#[derive(Debug, Default)]
pub(super) struct NetworkLog {
    requests: Vec<(String, PageRequest)>,
}

impl NetworkLog {
    /// Adds an entry of the performance log.
    pub(super) fn add(&mut self, entry: &str) -> Result<()> {
        let entry: Value = serde_json::from_str(entry).context("parsing the performance log")?;
        let event = &entry["message"];
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => self.sent(parameters),
            "Network.webSocketCreated" => {
                self.push(parameters, &parameters["url"], "GET", "WebSocket");
            }
            "Network.responseReceived" => self.answered(parameters, &parameters["response"]),
            "Network.dataReceived" => self.update(parameters, |request| {
                request.bytes += number(&parameters["encodedDataLength"]);
            }),
            "Network.loadingFinished" => self.update(parameters, |request| {
                request.bytes = number(&parameters["encodedDataLength"]);
            }),
            "Network.loadingFailed" => self.update(parameters, |request| {
                let reason = ["blockedReason", "errorText"].map(|field| text(&parameters[field]));
                request.failure = reason.into_iter().find(|reason| !reason.is_empty());
            }),
            _ => {}
        }
        Ok(())
    }

    /// The requests, oldest first.
    pub(super) fn requests(&self) -> Vec<PageRequest> {
        let requests = self.requests.iter();
        requests.map(|(_, request)| request.clone()).collect()
    }

    /// Forgets all requests.
    pub(super) fn clear(&mut self) {
        self.requests.clear();
    }

    fn sent(&mut self, parameters: &Value) {
        // Chromium shows pages of its own before the first one of a test.
        if text(&parameters["documentURL"]).starts_with("chrome") {
            return;
        }
        let redirect = &parameters["redirectResponse"];
        if redirect.is_object() {
            self.answered(parameters, redirect);
        }
        let request = &parameters["request"];
        let method = text(&request["method"]);
        self.push(
            parameters,
            &request["url"],
            &method,
            &text(&parameters["type"]),
        );
    }

    fn push(&mut self, parameters: &Value, url: &Value, method: &str, kind: &str) {
        let request = PageRequest {
            url: text(url),
            method: method.to_owned(),
            kind: kind.to_owned(),
            status: None,
            bytes: 0,
            failure: None,
        };
        self.requests
            .push((text(&parameters["requestId"]), request));
    }

    fn answered(&mut self, parameters: &Value, response: &Value) {
        self.update(parameters, |request| {
            request.status = u16::try_from(number(&response["status"])).ok();
            request.bytes = number(&response["encodedDataLength"]);
        });
    }

    /// Changes the newest request of the event's id; the requests that were cleared have none.
    fn update(&mut self, parameters: &Value, change: impl FnOnce(&mut PageRequest)) {
        let id = text(&parameters["requestId"]);
        let mut newest_first = self.requests.iter_mut().rev();
        if let Some((_, request)) = newest_first.find(|(its_id, _)| *its_id == id) {
            change(request);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A count of bytes, which the protocol writes as a floating-point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such a cast saturates, and no response has 2^53 bytes"
)]
fn number(value: &Value) -> u64 {
    value.as_f64().unwrap_or_default() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(events: &[(&str, Value)]) -> Vec<PageRequest> {
        let mut log = NetworkLog::default();
        for (method, parameters) in events {
            let entry = json!({ "message": { "method": format!("Network.{method}"), "params": parameters } });
            log.add(&entry.to_string()).unwrap();
        }
        log.requests()
    }

    fn sent(id: &str, url: &str) -> (&'static str, Value) {
        let request = json!({ "url": url, "method": "GET" });
        (
            "requestWillBeSent",
            json!({ "requestId": id, "documentURL": "http://a/", "request": request, "type": "Fetch" }),
        )
    }

    /// 300 bytes of the response to the first request.
    fn answered() -> (&'static str, Value) {
        let response = json!({ "status": 200, "encodedDataLength": 300 });
        (
            "responseReceived",
            json!({ "requestId": "1", "response": response }),
        )
    }

    fn bytes(method: &'static str, length: u32) -> (&'static str, Value) {
        (
            method,
            json!({ "requestId": "1", "encodedDataLength": length }),
        )
    }

    fn request(url: &str) -> PageRequest {
        PageRequest {
            url: url.to_owned(),
            method: "GET".to_owned(),
            kind: "Fetch".to_owned(),
            status: None,
            bytes: 0,
            failure: None,
        }
    }

    #[test]
    fn a_finished_request_has_its_status_and_all_bytes() {
        let found = log(&[
            sent("1", "http://a/x"),
            answered(),
            bytes("dataReceived", 50),
            bytes("loadingFinished", 360),
        ]);
        let expected = PageRequest {
            status: Some(200),
            bytes: 360,
            ..request("http://a/x")
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn an_open_stream_counts_the_bytes_so_far() {
        let found = log(&[
            sent("1", "http://a/x"),
            answered(),
            bytes("dataReceived", 50),
            bytes("dataReceived", 7),
        ]);
        assert_eq!(found[0].bytes, 357);
    }

    #[test]
    fn each_request_of_a_redirect_is_listed() {
        let (method, mut second) = sent("1", "http://b/");
        second["redirectResponse"] = json!({ "status": 302, "encodedDataLength": 90 });
        let found = log(&[sent("1", "http://a/"), (method, second)]);
        let first = PageRequest {
            status: Some(302),
            bytes: 90,
            ..request("http://a/")
        };
        assert_eq!(found, [first, request("http://b/")]);
    }

    #[test]
    fn a_blocked_request_has_the_reason() {
        let blocked = json!({ "requestId": "1", "blockedReason": "csp", "errorText": "" });
        let found = log(&[sent("1", "http://b/"), ("loadingFailed", blocked)]);
        assert_eq!(found[0].failure.as_deref(), Some("csp"));
        assert_eq!(found[0].origin().unwrap(), "http://b");
    }

    #[test]
    fn requests_of_the_browser_itself_are_not_listed() {
        let (method, mut own) = sent("1", "chrome://resources/x.js");
        own["documentURL"] = json!("chrome://new-tab-page/");
        assert_eq!(log(&[(method, own)]), []);
    }
}
