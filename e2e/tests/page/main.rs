//! Pages in a real browser.

mod accessibility;
mod book;
mod broken;
mod clients;
mod documented_commands;
mod first_view;
mod harness;
mod keyboard;
mod live;
mod object;
mod pictures;
mod questions;
mod rights;
mod search;
mod sessions;
mod site;
mod without_scripts;
