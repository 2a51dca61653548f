//! Servers that die, hang, refuse or forget, and operators that do: nothing is lost, and the status says what is wrong.

mod faults;
mod nothing_lost;
mod parts;
mod replicas;
