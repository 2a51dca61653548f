//! Which objects of a control plane go to which clusters, how their replicas are divided, and what
//! they are there.
//!
//! ```text
//!  plan ──> claim, templates          which policy an object belongs to
//!    ├────> placing ──> candidates    which clusters it can go to
//!    │         ├──────> spread        which of them are chosen
//!    │         └──────> division      how many replicas each of them gets
//!    ├────> room                      how many replicas there is room for
//!    ├────> failover                  which clusters it leaves although they are selected
//!    └────> desired ──> overrides     what the object is in a cluster
//!  binding                             where an object is, as the control plane stores it
//!  placement_report                    what a binding says, as rows for people
//!  sets, rollout                       objects that have no templates, such as those of charts, and
//!                                      in which order clusters get them
//!  hooks                               what runs in clusters before and after they get them
//!  marks, brake                        what Fleetdex has written, and how much of it may go at once
//! ```
//!
//! Guarantee: nothing here does I/O or reads a clock. The same inputs give the same plan, in
//! whatever order they are given. Names and meaning are those of Karmada; where it is different on
//! purpose, the function says so.

pub mod activation;
pub mod binding;
pub mod binding_name;
pub mod brake;
pub mod candidates;
pub mod claim;
pub mod cluster;
pub mod contains;
pub mod desired;
pub mod division;
pub mod failover;
pub mod hooks;
pub mod marks;
pub mod object_text;
pub mod overrides;
pub mod placement_report;
pub mod placing;
pub mod plan;
pub mod rollout;
pub mod room;
pub mod sets;
pub mod spread;
pub mod template_name;
pub mod templates;
