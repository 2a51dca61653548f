//! The table of what can be held in memory, in docs/operating.md, is made of the constants of the
//! code, and its sum is within the memory limit of the chart.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{fmt::Write as _, fs, path::Path};

const MIB: u64 = 1 << 20;
/// What the chart sets as the limit of a container.
const LIMIT_MIB: u64 = 1_024;
/// Watches whose clients read slowly that the limit covers.
const SLOW_WATCHES: u64 = 500;
const UPDATE: &str = "UPDATE_MEMORY_TABLE";
const PAGE: &str = "docs/operating.md";
const HEADER: &str = "| what | bounded by | MiB |\n|---|---|---|\n";

/// A row: what, by what it is bounded, and how many bytes that is.
type Row = (&'static str, String, u64);

/// The value of a constant or field in a file, as it is written there.
fn constant(file: &str, name: &str) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(&path).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    let value = code.lines().find_map(|line| {
        let (before, after) = line.split_once(name)?;
        let is_name = before.chars().next_back().is_none_or(char::is_whitespace);
        let value = [": usize", ": u64", ": u32"]
            .iter()
            .find_map(|kind| after.strip_prefix(kind))
            .unwrap_or(after);
        let value = value
            .strip_prefix(" = ")
            .or_else(|| value.strip_prefix(": "))?;
        is_name.then(|| value.trim_end_matches([';', ',']).to_owned())
    });
    let value = value.unwrap_or_else(|| panic!("no constant {name} in {file}"));
    evaluated(&value).unwrap_or_else(|| panic!("{name} of {file} is {value:?}"))
}

/// A number, a product of numbers, or a shifted number.
fn evaluated(expression: &str) -> Option<u64> {
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    if let Some((left, right)) = expression.split_once("<<") {
        return Some(number(left)? << number(right)?);
    }
    expression.split('*').map(number).product()
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB)
}

fn of_members() -> Vec<Row> {
    let limits = "crates/limits/src/intake/limits.rs";
    let parsed = constant("crates/core/src/model/object_limits.rs", "MAX_PARSED_BYTES");
    vec![
        (
            "without load, 200,000 objects in OpenSearch",
            "measured".to_owned(),
            90 * MIB,
        ),
        (
            "data from members",
            "[one budget](security.md#bytes-and-memory), however many there are".to_owned(),
            constant(limits, "shared") + constant(limits, "page"),
        ),
        (
            "objects that rules, redactions or fields read",
            format!(
                "{} of them on all threads, as much as one may take",
                mib(parsed)
            ),
            parsed,
        ),
    ]
}

fn of_stores() -> Vec<Row> {
    let pending = constant("crates/sync/src/pipeline/queue.rs", "pending_bytes");
    let large = constant("crates/sync/src/pipeline/queue.rs", "LARGE_KIB") << 10;
    let log = constant("crates/store/src/memory.rs", "bytes");
    let replaced = constant(
        "crates/store/src/opensearch/feed/unacknowledged.rs",
        "MAX_BYTES",
    );
    let object = constant("crates/core/src/model/object_limits.rs", "MAX_OBJECT_BYTES");
    let response = 3 * object + 8 * MIB;
    let upkeep = constant(
        "crates/store/src/opensearch/connection/responses.rs",
        "UPKEEP",
    );
    let views = "crates/store/src/memory/views.rs";
    let lists = constant(views, "all_users") * constant(views, "UNIT_BYTES");
    let retained = constant(views, "RETAINED_BYTES");
    vec![
        (
            "documents that are queued for a store",
            format!("{}, and {} of large ones", mib(pending), mib(large)),
            pending + large,
        ),
        (
            "changes of a store that watches can resume from",
            format!(
                "its [log](adr/0007-log-of-changes.md), and {} of replaced documents",
                mib(replaced)
            ),
            log + replaced,
        ),
        (
            "responses of OpenSearch to the operator; or open lists of the embedded store",
            format!(
                "{}, and {} for one more and what is parsed of it; or {}, and {} of replaced objects",
                mib(upkeep),
                mib(2 * response),
                mib(lists),
                mib(retained)
            ),
            (upkeep + 2 * response).max(lists + retained),
        ),
    ]
}

fn of_users() -> Vec<Row> {
    let request = "crates/limits/src/request.rs";
    let [shared, one] = ["shared", "request"].map(|name| constant(request, name));
    let small_ones = constant(request, "small");
    let limits = "crates/server/src/limits.rs";
    let in_flight = constant(limits, "max_requests_in_flight");
    let queries = constant(limits, "QUERY_UNITS") * constant(limits, "QUERY_UNIT");
    let small = constant(request, "SMALL_PAGE_BYTES");
    let watch = constant("crates/store/src/changes/watch.rs", "MAX_EVENT_BYTES")
        + constant("crates/server/src/read/page_reader.rs", "CHUNK_BYTES");
    let documents = constant("crates/server/src/proxying/document_cache.rs", "MAX_BYTES");
    let runs = constant("crates/server/src/read/interpreters.rs", "RUNS");
    let script = constant("crates/interpreter/src/script/sandbox.rs", "MEMORY_BYTES");
    let result = constant(
        "crates/interpreter/src/script/convert.rs",
        "MAX_RESULT_BYTES",
    );
    vec![
        (
            "requests of users: bodies, pages of lists and searches, responses of members, merged objects, views of the page, and what is parsed of all these",
            format!(
                "[one budget](security.md#shares-of-the-server): {}, {} for one request more, and {} for small ones",
                mib(shared),
                mib(one),
                mib(small_ones)
            ),
            shared + one + small_ones,
        ),
        (
            "small pages of the embedded store",
            format!(
                "2 of {} KiB for each of {in_flight} slots (`api.maxRequestsInFlight`)",
                small >> 10
            ),
            2 * small * in_flight,
        ),
        (
            "watches whose clients read slowly",
            format!(
                "{} KiB each: {SLOW_WATCHES} of them; larger changes are in the budget of requests",
                watch >> 10
            ),
            watch * SLOW_WATCHES,
        ),
        (
            "names, selectors and permissions of queries",
            "one budget".to_owned(),
            queries,
        ),
        (
            "OpenAPI documents of members",
            "a cache".to_owned(),
            documents,
        ),
        (
            "scripts that run for users",
            format!(
                "{runs} runs of {}, and {} for the result of each",
                mib(script),
                mib(result)
            ),
            runs * (script + result),
        ),
    ]
}

fn of_webhooks() -> Vec<Row> {
    let queue = constant("crates/webhooks/src/queue/room.rs", "DEFAULT_BYTES");
    let asked = 2 * constant("crates/sync/src/enrichment/object.rs", "request");
    let answer = constant(
        "crates/interpreter/src/webhook/answer_error.rs",
        "MAX_ANSWER_BYTES",
    );
    vec![
        (
            "objects that wait for interpreter webhooks, and those that these are asked about",
            format!("{} of text, {} of what is parsed", mib(queue), mib(asked)),
            queue + asked,
        ),
        (
            "answers of interpreter webhooks",
            "one budget".to_owned(),
            2 * answer,
        ),
    ]
}

#[test]
fn the_table_of_memory_is_that_of_the_code_and_within_the_limit() {
    let rows = [of_members(), of_stores(), of_users(), of_webhooks()].concat();
    let mut table = HEADER.to_owned();
    let mut sum = 0;
    for (what, bound, bytes) in &rows {
        let mib = bytes.div_ceil(MIB);
        sum += mib;
        writeln!(table, "| {what} | {bound} | {mib} |").unwrap();
    }
    writeln!(table, "| **in all** | | {sum} |").unwrap();
    assert!(sum <= LIMIT_MIB, "{sum} MiB in all:\n{table}");

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let start = page.find(HEADER).unwrap();
    let end = start + page[start..].find("\n\n").unwrap() + 1;
    if std::env::var_os(UPDATE).is_some() {
        let page = format!("{}{table}{}", &page[..start], &page[end..]);
        fs::write(&path, page).unwrap();
        return;
    }
    assert!(
        page[start..end] == table,
        "the table of {PAGE} is another one; write it with {UPDATE}=1 cargo test --test pure memory_table\n{table}"
    );
}

#[test]
fn the_chart_limits_a_container_to_what_the_table_covers() {
    let values = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/fleetdex/values.yaml");
    let values = fs::read_to_string(&values).unwrap();
    assert!(values.contains("memory: 1Gi"), "resources.limits.memory");
}
