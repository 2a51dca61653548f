//! The chart: what it renders and installs, what stays of it, and the rights of its accounts.

mod crd_apply;
mod grants;
mod install_page;
mod lifecycle;
mod rendering;
mod rights;
pub mod tool;
