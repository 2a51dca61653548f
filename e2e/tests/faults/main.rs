//! Servers and operators that are killed, hang, refuse requests or lose data: nothing is lost, and
//! the status reports the fault.

mod faults;
mod nothing_lost;
mod parts;
mod replicas;
