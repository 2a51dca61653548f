//! What every request to the port needs.

use std::sync::Arc;

use fleetdex_telemetry::Traces;

use crate::{answers::Answers, auth::page_session::PageLinks, proxying::MemberProxy};

/// What every request to the port needs.
#[derive(Clone, Debug)]
pub struct ApiState {
    /// Answers questions.
    pub answers: Answers,
    /// Where requests about single objects go on to.
    pub members: Arc<MemberProxy>,
    /// Begins the traces of requests.
    pub traces: Traces,
    /// One-time links to the web page.
    pub links: Arc<PageLinks>,
}

impl ApiState {
    /// Without traces and links.
    pub fn new(answers: Answers, members: Arc<MemberProxy>) -> Self {
        Self {
            answers,
            members,
            traces: Traces::default(),
            links: Arc::default(),
        }
    }
}
