//! Objects of the control plane in real members: where they go, what they are there, what stays the
//! member's own, what is deleted, and what is reported back.

mod deleting;
mod document_004;
mod failover;
mod faults;
mod fixture;
mod flux;
mod hooks;
mod killed;
mod lazy;
mod rollout;
mod sets;
mod staying_right;
mod template_waves;
mod variants;
mod writing;
