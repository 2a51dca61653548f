//! Who sees and changes what, and what hostile members cannot do.

mod front;
mod helm;
mod hostile_members;
mod members_decide;
mod proxying;
