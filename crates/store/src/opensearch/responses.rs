//! Memory for responses of OpenSearch: a limit for each response, and two budgets for each store.
//!
//! Responses to users and responses to the operator itself have a budget each, so that neither can
//! keep the other waiting. A response is counted from its first bytes until it has been parsed, and
//! nothing else is awaited meanwhile: a request that waits for room waits for responses in transit
//! from this store, never for a user who reads, a member or another store.

use bytes::Bytes;
use fleetdex_core::{model::MAX_OBJECT_BYTES, query::Requester};
use fleetdex_limits::intake::{Budget, Intake, IntakeError, MemoryLimits};
use http::StatusCode;

/// The largest document that is written, so that a response has room for any: an object, and twice
/// as much for its search terms.
pub(super) const MAX_DOCUMENT_BYTES: usize = 3 * MAX_OBJECT_BYTES;
/// The longest response that is read: the largest document and the rest of its hit. A page of 1,000
/// usual objects has 5 MiB, one of 10,000 ids and versions 2 MiB.
pub const MAX_ANSWER_BYTES: usize = MAX_DOCUMENT_BYTES + (8 << 20);
/// Bytes to read of an error response; the rest is left unread. OpenSearch reports each failed
/// shard in half a KiB.
const MAX_REFUSAL_BYTES: usize = 1 << 20;
/// What responses to users of one store may take together, besides one of the largest size: a dozen
/// pages of 1,000 usual objects at the same time.
const QUESTIONS: usize = 64 << 20;
/// The same for responses to the operator: bulk requests, what they replace, ids and versions,
/// indices.
const UPKEEP: usize = 32 << 20;
/// Divisor of the number of hits when a response is too long: from 10,000 to 1 in seven requests.
const SHRINKING: usize = 4;

/// On whose behalf a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
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
pub struct Answers {
    questions: Intake,
    upkeep: Intake,
}

impl Default for Answers {
    fn default() -> Self {
        let budget = |shared| Answers::budget(MAX_ANSWER_BYTES, MAX_REFUSAL_BYTES, shared);
        Self {
            questions: budget(QUESTIONS),
            upkeep: budget(UPKEEP),
        }
    }
}

impl Answers {
    /// The same with another limit for each response, and budgets that have room for one response
    /// of that length besides the reserve.
    pub fn of_at_most(bytes: usize) -> Self {
        let budget = || Self::budget(bytes, bytes, bytes);
        Self {
            questions: budget(),
            upkeep: budget(),
        }
    }

    fn budget(answer: usize, refusal: usize, shared: usize) -> Intake {
        // A request without room waits: a share would refuse what would fit a moment later.
        let limits = MemoryLimits {
            page: answer,
            line: 0,
            answer,
            refusal,
            share: usize::MAX,
            shared,
        };
        Budget::new(limits).share("")
    }

    /// The budget for a response.
    pub(super) fn allowance(&self, purpose: Purpose) -> Allowance {
        match purpose {
            Purpose::Question => Allowance(self.questions.clone()),
            Purpose::Upkeep => Allowance(self.upkeep.clone()),
        }
    }

    /// Bytes of responses that are held now.
    pub fn held(&self) -> usize {
        self.questions.held() + self.upkeep.held()
    }

    /// The most bytes that were held at any time, in each budget.
    pub fn peaks(&self) -> [usize; 2] {
        [self.questions.peak(), self.upkeep.peak()]
    }
}

/// The budget that a response is read into; an extension of each request.
#[derive(Clone, Debug)]
pub struct Allowance(Intake);

impl Default for Allowance {
    /// A budget of its own.
    fn default() -> Self {
        Answers::default().allowance(Purpose::Upkeep)
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
        let limits = self.0.limits();
        if status.is_success() {
            self.0.read(body, limits.answer).await
        } else {
            self.0.read_beginning(body, limits.refusal).await
        }
    }
}

/// How many hits to request when the response with `asked` of them was too long; `None` if a single
/// one is.
pub(super) fn fewer(asked: usize) -> Option<usize> {
    (asked > 1).then(|| (asked / SHRINKING).max(1))
}
