//! How much is read of what OpenSearch answers: a limit for each answer, and two budgets for each store.
//!
//! Answers to users and answers to the operator itself have a budget each, so that neither can keep the other waiting. An answer is counted from its
//! first bytes until it has been parsed, and nothing else is waited for meanwhile: who waits for room waits for answers that are on their way from
//! this store, never for a user who reads, a member or another store.

use bytes::Bytes;
use fleetdex_core::{model::MAX_OBJECT_BYTES, query::Requester};
use fleetdex_limits::intake::{Budget, Intake, Limits, ReadError};
use http::StatusCode;

/// The largest document that is written, so that an answer has room for any: an object, and twice as much for what it is found by.
pub(super) const MAX_DOCUMENT_BYTES: usize = 3 * MAX_OBJECT_BYTES;
/// The longest answer that is read: the largest document and what a hit has beside it. A page of 1,000 usual objects has 5 MiB, one of 10,000 ids and
/// versions 2 MiB.
pub const MAX_ANSWER_BYTES: usize = MAX_DOCUMENT_BYTES + (8 << 20);
/// What is read of an answer that says no; the rest is left unread. OpenSearch tells of each shard that failed, in half a KiB.
const MAX_REFUSAL_BYTES: usize = 1 << 20;
/// What answers to users of one store may take together, beside one of the largest size: a dozen pages of 1,000 usual objects at the same moment.
const QUESTIONS: usize = 64 << 20;
/// The same for answers to the operator: bulk requests, what they replace, ids and versions, indices.
const UPKEEP: usize = 32 << 20;
/// What becomes of the number of hits when an answer is too long: from 10,000 to 1 in seven requests.
const SHRINKING: usize = 4;

/// Whom a request is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A user, who waits for what is found.
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

/// The memory for the answers of one store. A clone is the same one.
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
    /// The same with another limit for each answer, and budgets that have room for one answer of that length beside the reserve.
    pub fn of_at_most(bytes: usize) -> Self {
        let budget = || Self::budget(bytes, bytes, bytes);
        Self {
            questions: budget(),
            upkeep: budget(),
        }
    }

    fn budget(answer: usize, refusal: usize, shared: usize) -> Intake {
        // Whoever finds no room waits: a share would refuse what would have fitted a moment later.
        let limits = Limits {
            page: answer,
            line: 0,
            answer,
            refusal,
            share: usize::MAX,
            shared,
        };
        Budget::new(limits).share("")
    }

    /// What an answer is read into.
    pub(super) fn allowance(&self, purpose: Purpose) -> Allowance {
        match purpose {
            Purpose::Question => Allowance(self.questions.clone()),
            Purpose::Upkeep => Allowance(self.upkeep.clone()),
        }
    }

    /// Bytes of answers that are held now.
    pub fn held(&self) -> usize {
        self.questions.held() + self.upkeep.held()
    }

    /// The most bytes that were held at any time, in each budget.
    pub fn peaks(&self) -> [usize; 2] {
        [self.questions.peak(), self.upkeep.peak()]
    }
}

/// What an answer is read into; an extension of each request.
#[derive(Clone, Debug)]
pub struct Allowance(Intake);

impl Default for Allowance {
    /// One of nobody else's.
    fn default() -> Self {
        Answers::default().allowance(Purpose::Upkeep)
    }
}

impl Allowance {
    /// Reads an answer: all of one that says yes, if it is not too long, and the beginning of any other. The bytes count until they are dropped.
    pub async fn read<B>(&self, status: StatusCode, body: B) -> Result<Bytes, ReadError>
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

/// How many hits to ask for when the answer with `asked` of them was too long; nothing if one alone is.
pub(super) fn fewer(asked: usize) -> Option<usize> {
    (asked > 1).then(|| (asked / SHRINKING).max(1))
}
