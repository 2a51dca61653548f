//! Which resources and names the words after `get` mean.

use super::resolve::{Held, resolve};
use crate::console::CommandError;

/// One resource, and the names that are asked for; all of them if there are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The resource.
    pub held: Held,
    /// The names.
    pub names: Vec<String>,
}

/// `pods`, `pods,services`, `pods a b`, `pod/a service/b`. Each resource once, in the order of the words.
pub fn targets(
    resource: &str,
    words: &[String],
    held: &[Held],
) -> Result<Vec<Target>, CommandError> {
    let mut targets: Vec<Target> = Vec::new();
    for (word, names) in wanted(resource, words)? {
        let found = resolve(&word, held).ok_or(CommandError::UnknownResource(word))?;
        match targets.iter_mut().find(|target| target.held == *found) {
            Some(target) => target.names.extend(names),
            None => targets.push(Target {
                held: found.clone(),
                names,
            }),
        }
    }
    for target in &mut targets {
        target.names.sort_unstable();
        target.names.dedup();
    }
    Ok(targets)
}

/// Each resource as it is called, with its names.
fn wanted(resource: &str, words: &[String]) -> Result<Vec<(String, Vec<String>)>, CommandError> {
    let all: Vec<&str> = std::iter::once(resource)
        .chain(words.iter().map(String::as_str))
        .collect();
    if !all.iter().any(|word| word.contains('/')) {
        return Ok(resource
            .split(',')
            .map(|word| (word.to_owned(), words.to_vec()))
            .collect());
    }
    let mut wanted = Vec::new();
    for word in all {
        match word.split_once('/') {
            Some((resource, name))
                if !resource.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                wanted.push((resource.to_owned(), vec![name.to_owned()]));
            }
            _ => {
                let problem = format!(
                    "{word:?}: where one argument is TYPE/NAME, such as pod/web-0, all of them are"
                );
                return Err(CommandError::Usage(problem));
            }
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<(String, Vec<String>)>, String> {
        let mut words = line.split(' ').map(str::to_owned);
        let resource = words.next().unwrap();
        wanted(&resource, &words.collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    fn pair(resource: &str, names: &[&str]) -> (String, Vec<String>) {
        (
            resource.to_owned(),
            names.iter().map(|name| (*name).to_owned()).collect(),
        )
    }

    #[test]
    fn resources_and_names_are_written_as_for_kubectl() {
        assert_eq!(words("pods"), Ok(vec![pair("pods", &[])]));
        assert_eq!(
            words("pods,svc"),
            Ok(vec![pair("pods", &[]), pair("svc", &[])])
        );
        assert_eq!(words("pods a b"), Ok(vec![pair("pods", &["a", "b"])]));
        assert_eq!(
            words("pod/a svc/b"),
            Ok(vec![pair("pod", &["a"]), pair("svc", &["b"])])
        );
        for mixed in ["pods a/b", "pod/a b", "pod/", "/a", "pod/a/b"] {
            assert!(words(mixed).unwrap_err().contains("TYPE/NAME"), "{mixed}");
        }
    }
}
