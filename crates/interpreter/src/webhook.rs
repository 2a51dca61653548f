//! Webhooks: the messages of both dialects, and the configurations that say whom to ask.
//!
//! ```text
//!  request (clients)              ──┐
//!  answer  (clients) ──> check ──┐ ├──> message ──> dialect <── configuration
//!  review  (servers) ──> check ──┴─┴──> patch
//! ```
//!
//! A client encodes a [`Request`](crate::Request) with [`encode`] and reads the answer with
//! [`decode`]. A server reads the request as a [`ReviewRequest`] and answers with a
//! [`ReviewResponse`]. Both use the same definition of what an answer has to hold.
//!
//! Source: `pkg/apis/config/v1alpha1/interpretercontext_types.go` of
//! <https://github.com/karmada-io/karmada>, and the proposal of a
//! `ResourceExploringWebhookConfiguration` there.

mod answer;
mod answer_error;
mod check;
pub mod configuration;
mod dialect;
mod message;
mod patch;
mod request;
mod review;

pub use crate::bounded_patch::{MAX_ADDED_BYTES, MAX_DEPTH};
pub use answer::decode;
pub use answer_error::{AnswerError, MAX_ANSWER_BYTES};
pub use dialect::{API_VERSION, Dialect, REVIEW_VERSION};
pub use patch::{MAX_OPERATIONS, PatchFault};
pub use request::{EncodeError, encode};
pub use review::{
    MAX_REQUEST_BYTES, ReviewRequest, ReviewRequestError, ReviewResponse, ReviewResponseError,
};
