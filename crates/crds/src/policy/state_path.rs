//! Paths of values within a status: `{.jobStatus.points[0].id}`.

/// Paths within a status, for schemas. Other expressions of `JSONPath` could cost any time.
pub(super) const STATE_PATH: &str = r"^\s*\{?\s*\$?(\.[A-Za-z0-9_-]+|\[[0-9]+\])+\s*\}?\s*$";

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateStep<'p> {
    /// A member of a map.
    Member(&'p str),
    /// An item of a list.
    Item(&'p str),
}

/// The steps of a path; `None`: the schema refuses it.
pub fn state_steps(path: &str) -> Option<Vec<StateStep<'_>>> {
    let mut rest = without_start(without_start(path, '{'), '$');
    let is_name = |found: char| found.is_ascii_alphanumeric() || found == '_' || found == '-';
    let mut steps = Vec::new();
    loop {
        if let Some(named) = rest.strip_prefix('.') {
            let end = named.find(|found| !is_name(found)).unwrap_or(named.len());
            let (name, after) = named.split_at(end);
            if name.is_empty() {
                return None;
            }
            steps.push(StateStep::Member(name));
            rest = after;
        } else if let Some(numbered) = rest.strip_prefix('[') {
            let (number, after) = numbered.split_once(']')?;
            if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
                return None;
            }
            steps.push(StateStep::Item(number));
            rest = after;
        } else {
            break;
        }
    }
    let is_whole = !steps.is_empty() && without_start(rest, '}').trim().is_empty();
    is_whole.then_some(steps)
}

fn without_start(text: &str, start: char) -> &str {
    let text = text.trim_start();
    text.strip_prefix(start).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_members_and_items() {
        use StateStep::{Item, Member};
        let steps = Some(vec![Member("a"), Item("0"), Member("b-c")]);
        for path in ["{.a[0].b-c}", " { $.a[0].b-c } ", ".a[0].b-c"] {
            assert_eq!(state_steps(path), steps, "{path}");
        }
        for other in [
            "", "{}", "a", "{.a", "{.a[*]}", "{.a[]}", "{.a[0}", "{..a}", "{.a} b",
        ] {
            let is_open = other == "{.a";
            assert_eq!(state_steps(other).is_some(), is_open, "{other}");
        }
    }
}
