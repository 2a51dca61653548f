//! Why the CRDs could not be printed or applied.

use std::io;

use fleetdex_core::model::causes;

use crate::console::CommandError;

/// The CRDs could not be printed or applied.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// A CRD does not serialize.
    #[error("cannot write the CRD {name} as YAML")]
    Serialize {
        /// The CRD.
        name: String,
        /// What the serializer said.
        source: Box<serde_saphyr::ser::Error>,
    },
    /// Standard output is closed.
    #[error("cannot print the CRDs")]
    Print(#[from] io::Error),
    /// The control plane refused a request, or cannot be reached.
    #[error("cannot {verb} {kind} {name} at {server}: {problem}{}", advice(.problem))]
    Refused {
        /// What was requested.
        verb: &'static str,
        /// The kind of the object.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The control plane.
        server: String,
        /// What it said, with all causes: an error of the client has its reason only there.
        problem: String,
    },
    /// The CRD is being deleted.
    #[error(
        "CRD {0} is being deleted, with all of its objects; wait until it is gone (kubectl get crd {0}), then try again"
    )]
    Terminating(String),
    /// The CRD that is needed belongs to another server or program.
    #[error("CRD {name} cannot be applied: {reason}")]
    Foreign {
        /// The CRD.
        name: String,
        /// To whom it belongs.
        reason: String,
    },
    /// The control plane does not accept the names of the CRD.
    #[error("the control plane does not serve CRD {name}: {problem}")]
    NamesRefused {
        /// The CRD.
        name: String,
        /// The condition's message.
        problem: String,
    },
    /// The CRD was not served in time.
    #[error(
        "CRD {name} is applied, but not served after {seconds} s; look at its conditions (kubectl describe crd {name}), or allow more time with --timeout"
    )]
    NotEstablished {
        /// The CRD.
        name: String,
        /// How long was waited.
        seconds: u64,
    },
}

impl CrdError {
    /// A request that failed.
    pub(super) fn refused(
        verb: &'static str,
        kind: &'static str,
        name: &str,
        server: &str,
        error: &kube::Error,
    ) -> Self {
        Self::Refused {
            verb,
            kind,
            name: name.to_owned(),
            server: server.to_owned(),
            problem: causes(error),
        }
    }
}

impl From<CrdError> for CommandError {
    fn from(error: CrdError) -> Self {
        let what = error.to_string();
        match error {
            CrdError::Print(source) => Self::Write { what, source },
            other => Self::failed(other),
        }
    }
}

/// What to do about a problem that is a missing right.
fn advice(problem: &str) -> &'static str {
    if problem.contains("forbidden") {
        "; it needs get, create and patch on Fleetdex's CRDs, and get on the APIServices of their groups, as the chart's hook Job has them"
    } else {
        ""
    }
}
