//! Lists of names in messages.

/// How many names a message lists.
const MAX_NAMES: usize = 5;

/// The first names, and how many more there are.
pub(super) fn first_names(names: &[&str]) -> String {
    first_names_of(names, MAX_NAMES)
}

/// The first `count` names, and how many more there are.
pub(super) fn first_names_of(names: &[&str], count: usize) -> String {
    let shown = names
        .iter()
        .take(count)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().checked_sub(count) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
