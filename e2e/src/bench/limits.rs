//! The limits of a first sync: the bare LIST, raw `_bulk`, and the rate at which one core encodes
//! documents, with and without interpretation.

use std::time::Instant;

use anyhow::{Context, Result};
use bytes::Bytes;
use fleetdex_clusters::watch::ListPage;
use fleetdex_core::model::InterpretationLevel;
use fleetdex_store::bulk;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    figures::{Figures, verdict},
    raw::{self, PAGE, Target},
};
use crate::{
    fleet::{ApiServer, Fleet},
    load::gzip_ratio,
};

/// Raw bulk is measured with each of these.
const CONNECTIONS: [usize; 4] = [1, 2, 3, 4];
const BATCH_MEBIBYTES: [usize; 3] = [1, 2, 5];
/// Expected rate of watch lines on one core, in objects per second.
const ENCODED_PER_SECOND: f64 = 60_000.0;
/// The part that built-in rules and relations may have in the time of encoding: docs/adr/0018.
const INTERPRETATION_SHARE: f64 = 0.25;

/// Measures all limits.
pub async fn measure(fleet: &Fleet, pods: usize, figures: &mut Figures) -> Result<()> {
    let member = fleet.member(1);
    list(member, pods, figures).await?;
    let lines = raw::watch_lines(member.client().await?).await?;
    encoding(&lines, figures)?;
    bulk_of_new(fleet, &lines, figures).await
}

/// The bare LIST with Fleetdex's client, best of three, and its bytes on the wire.
async fn list(member: &ApiServer, pods: usize, figures: &mut Figures) -> Result<()> {
    println!("limit 1: the bare paged gzip LIST …");
    let mut best = f64::INFINITY;
    let mut bodies = Vec::new();
    for _ in 0..3 {
        let client = member.client().await?;
        let started = Instant::now();
        bodies = raw::pages(client).await?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    let bytes: usize = bodies.iter().map(Bytes::len).sum();
    let wire = wire_bytes(member).await?;
    let packed = gzip_ratio(bodies.first().context("no page")?)?;
    figures.set("list_seconds", best);
    figures.set("list_requests", bodies.len() as f64);
    figures.set("list_bytes", bytes as f64);
    figures.set("list_wire_bytes", wire as f64);
    figures.set("bytes_per_pod", bytes as f64 / pods as f64);
    figures.set("gzip_ratio", packed);
    figures.line(
        "pods",
        format!(
            "{pods} of {:.0} bytes, gzip ratio {packed:.1}",
            bytes as f64 / pods as f64
        ),
    );
    let requests = bodies.len();
    figures.line(
        "bare LIST (limit 1)",
        format!(
            "{best:.2} s, {requests} requests, {:.1} MB on the wire",
            wire as f64 / 1e6
        ),
    );
    println!(
        "  {best:.2} s, {requests} requests, {:.1} MB, {:.1} MB on the wire",
        bytes as f64 / 1e6,
        wire as f64 / 1e6
    );
    Ok(())
}

/// The compressed size of the same list.
async fn wire_bytes(member: &ApiServer) -> Result<usize> {
    let certificate = reqwest::Certificate::from_pem(member.ca_pem().as_bytes())?;
    let client = reqwest::Client::builder()
        .tls_certs_only([certificate])
        .no_gzip()
        .no_proxy()
        .build()?;
    let mut token = String::new();
    let mut bytes = 0;
    loop {
        let url = format!("{}/api/v1/pods", member.url());
        let query = [("limit", PAGE.to_string()), ("continue", token.clone())];
        let request = client
            .get(&url)
            .query(&query)
            .bearer_auth(member.token())
            .header("accept-encoding", "gzip");
        let packed = request.send().await?.error_for_status()?.bytes().await?;
        bytes += packed.len();
        let mut unpacked = Vec::new();
        std::io::Read::read_to_end(
            &mut flate2::read::GzDecoder::new(&packed[..]),
            &mut unpacked,
        )?;
        match ListPage::parse(&unpacked)?.continue_token {
            Some(next) => token = next,
            None => return Ok(bytes),
        }
    }
}

/// Watch line to bulk line on one core: without interpretation, with built-in rules, and these
/// alone; in turns, the best of each.
fn encoding(lines: &[Vec<u8>], figures: &mut Figures) -> Result<()> {
    println!("watch line to bulk line, on one core …");
    let plain = raw::projector(InterpretationLevel::Off)?;
    let interpreting = raw::projector(InterpretationLevel::BuiltIn)?;
    let [mut best, mut best_interpreted, mut best_rules] = [0_f64; 3];
    for _ in 0..7 {
        best = best.max(raw::encode(&plain, lines)?);
        best_interpreted = best_interpreted.max(raw::encode(&interpreting, lines)?);
        best_rules = best_rules.max(raw::interpret(lines)?);
    }
    println!("  {best:.0} objects/s, {best_interpreted:.0} with built-in rules");
    figures.set("encode_objects_per_s_core", best);
    figures.set("interpret_and_encode_objects_per_s_core", best_interpreted);
    figures.set("interpret_objects_per_s_core", best_rules);
    let holds = best >= ENCODED_PER_SECOND;
    let text = format!(
        "{best:.0} objects/s; at least {ENCODED_PER_SECOND:.0}: {}",
        verdict(holds)
    );
    figures.line("watch line to bulk line, per core", text);
    let share = best_interpreted / best_rules;
    figures.set("interpretation_share", share);
    let text = format!(
        "{best_interpreted:.0} objects/s, {:.0} % more time: what rules read is parsed, and what they say is written",
        100.0 * (best / best_interpreted - 1.0)
    );
    figures.line("  with interpretation", text);
    let text = format!(
        "{:.1} % of that time; at most {:.0} %: {}",
        100.0 * share,
        100.0 * INTERPRETATION_SHARE,
        verdict(share <= INTERPRETATION_SHARE)
    );
    figures.line("  built-in rules and relations alone", text);
    Ok(())
}

/// Raw `_bulk` of encoded documents into a new index: the best of several numbers of connections
/// and sizes of batches.
async fn bulk_of_new(fleet: &Fleet, lines: &[Vec<u8>], figures: &mut Figures) -> Result<()> {
    println!("limit 2: raw _bulk of encoded documents …");
    let mut best = 0_f64;
    let mut bytes = 0;
    for mebibytes in BATCH_MEBIBYTES {
        for connections in CONNECTIONS {
            let target = Target::open(fleet, &format!("raw{mebibytes}x{connections}")).await?;
            let writes = target.writes(lines)?;
            let batches = raw::batches(&writes, mebibytes << 20).into_iter();
            let bodies: Vec<(Bytes, usize)> = batches
                .map(|batch| (bulk::encode(&writes[batch.clone()]).body, batch.len()))
                .collect();
            bytes = bodies.iter().map(|(body, _)| body.len()).sum();
            let started = Instant::now();
            stream::iter(bodies)
                .map(|(body, count)| target.send(body, count))
                .buffer_unordered(connections)
                .try_collect::<Vec<()>>()
                .await?;
            let rate = lines.len() as f64 / started.elapsed().as_secs_f64();
            println!("  {connections} × {mebibytes} MiB: {rate:.0} docs/s");
            best = best.max(rate);
            target.remove().await?;
        }
    }
    figures.set("raw_bulk_docs_per_s", best);
    figures.set("raw_bulk_bytes", bytes as f64);
    figures.set("raw_bulk_seconds", lines.len() as f64 / best);
    figures.line(
        "raw _bulk (limit 2)",
        format!(
            "{best:.0} docs/s, {:.2} s for all",
            lines.len() as f64 / best
        ),
    );
    Ok(())
}
