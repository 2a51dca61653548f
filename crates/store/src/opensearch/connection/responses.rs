//! Memory for responses of OpenSearch: a limit for each response, and a budget for those to the
//! operator itself.
//!
//! Responses to users count in the memory of their requests, so that users and the operator do not
//! keep each other waiting. A response is counted from its first bytes until it has been parsed,
//! and what is parsed of it for users until they have it. Nothing else is awaited while a response
//! to the operator is counted: a request that waits for room waits for responses in transit from
//! this store, never for a user who reads, a member or another store.

use bytes::Bytes;
use fleetdex_core::{model::MAX_OBJECT_BYTES, query::Requester};
use fleetdex_limits::{
    intake::{Budget, Intake, IntakeError, MemoryLimits, MemoryReservation},
    request::UserRequest,
};
use http::StatusCode;

/// The largest document that is written, so that a response has room for any: an object, and twice
/// as much for its search terms.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 3 * MAX_OBJECT_BYTES;
/// The longest response that is read: the largest document and the rest of its hit. A page of 1,000
/// usual objects has 5 MiB, one of 10,000 ids and versions 2 MiB.
pub const MAX_ANSWER_BYTES: usize = MAX_DOCUMENT_BYTES + (8 << 20);
/// Bytes to read of an error response; the rest is left unread. OpenSearch reports each failed
/// shard in half a KiB.
const MAX_REFUSAL_BYTES: usize = 1 << 20;
/// What responses to the operator may take together, besides one of the largest size: bulk
/// requests, what they replace, ids and versions, indices.
const UPKEEP: usize = 32 << 20;
/// Divisor of the number of hits when a response is too long: from 10,000 to 1 in seven requests.
const SHRINKING: usize = 4;

/// On whose behalf a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A user, who waits for the result.
    Question,
    /// The operator itself.
    Upkeep,
}

impl From<&Requester> for Purpose {
    fn from(requester: &Requester) -> Self {
        match requester {
            Requester::User(_) => Self::Question,
            Requester::Operator => Self::Upkeep,
        }
    }
}

/// The memory for the responses of one store. Clones share it.
#[derive(Clone, Debug)]
pub struct ResponseBudget {
    upkeep: Intake,
}

impl Default for ResponseBudget {
    fn default() -> Self {
        Self::within(MAX_ANSWER_BYTES, MAX_REFUSAL_BYTES, UPKEEP)
    }
}

impl ResponseBudget {
    /// The same with another limit for each response, and a budget that has room for one response
    /// of that length besides the reserve.
    pub fn of_at_most(bytes: usize) -> Self {
        Self::within(bytes, bytes, bytes)
    }

    fn within(answer: usize, refusal: usize, shared: usize) -> Self {
        // A request without room waits: a share would refuse what would fit a moment later.
        let limits = MemoryLimits {
            page: answer,
            line: 0,
            answer,
            refusal,
            // And what is parsed of it.
            small: 0,
            request: 2 * answer,
            share: usize::MAX,
            shared,
        };
        Self {
            upkeep: Budget::new(limits).share(""),
        }
    }

    /// The memory for an operation.
    pub(crate) fn allowance(&self, purpose: Purpose) -> Allowance {
        let limits = *self.upkeep.limits();
        let intake = match purpose {
            Purpose::Question => UserRequest::current().memory().clone(),
            Purpose::Upkeep => self.upkeep.of_one_request(),
        };
        Allowance { intake, limits }
    }

    /// Bytes of responses to the operator that are held now.
    pub fn held(&self) -> usize {
        self.upkeep.held()
    }

    /// The most bytes of responses to the operator that were held at any time.
    pub fn peak(&self) -> usize {
        self.upkeep.peak()
    }
}

/// The memory that a response is read into; an extension of each request.
#[derive(Clone, Debug)]
pub struct Allowance {
    intake: Intake,
    /// How long responses may be.
    limits: MemoryLimits,
}

impl Default for Allowance {
    /// A budget of its own.
    fn default() -> Self {
        ResponseBudget::default().allowance(Purpose::Upkeep)
    }
}

impl Allowance {
    /// Reads a response: all of a successful one, if it is not too long, and the beginning of any
    /// other. The bytes count until they are dropped.
    pub async fn read<B>(&self, status: StatusCode, body: B) -> Result<Bytes, IntakeError>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if status.is_success() {
            self.intake.read(body, self.limits.answer).await
        } else {
            self.intake.read_beginning(body, self.limits.refusal).await
        }
    }

    /// Memory for what is parsed of a response of `bytes`.
    pub(crate) async fn parsed(&self, bytes: usize) -> Result<MemoryReservation, IntakeError> {
        let mut memory = self.intake.reservation();
        memory.grow(bytes).await?;
        Ok(memory)
    }
}

/// How many hits to request when the response with `asked` of them was too long; `None` if a single
/// one is.
pub(crate) fn fewer(asked: usize) -> Option<usize> {
    (asked > 1).then(|| (asked / SHRINKING).max(1))
}
