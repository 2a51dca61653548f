//! Parses the positional arguments of `get` and its siblings: resource types and names.

use super::{
    console::CommandError,
    resources::{DiscoveredResource, resolve},
};

/// One resource type and the requested names; without names, all objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceTarget {
    /// The resource.
    pub resource: DiscoveredResource,
    /// The names.
    pub names: Vec<String>,
}

/// Parses `pods`, `pods,services`, `pods a b` or `pod/a service/b`; returns each resource once, in
/// the order of the arguments.
pub fn targets(
    resource: &str,
    words: &[String],
    resources: &[DiscoveredResource],
) -> Result<Vec<ResourceTarget>, CommandError> {
    let mut targets: Vec<ResourceTarget> = Vec::new();
    for (word, names) in type_and_names(resource, words)? {
        let found = resolve(&word, resources).ok_or(CommandError::UnknownResource(word))?;
        match targets.iter_mut().find(|target| target.resource == *found) {
            Some(target) => target.names.extend(names),
            None => targets.push(ResourceTarget {
                resource: found.clone(),
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

/// Splits the arguments into resource types, each with its names.
fn type_and_names(
    resource: &str,
    words: &[String],
) -> Result<Vec<(String, Vec<String>)>, CommandError> {
    let all: Vec<&str> = std::iter::once(resource)
        .chain(words.iter().map(String::as_str))
        .collect();
    if !all.iter().any(|word| word.contains('/')) {
        return Ok(resource
            .split(',')
            .map(|word| (word.to_owned(), words.to_vec()))
            .collect());
    }
    let mut pairs = Vec::new();
    for word in all {
        match word.split_once('/') {
            Some((resource, name))
                if !resource.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                pairs.push((resource.to_owned(), vec![name.to_owned()]));
            }
            _ => {
                let problem = format!(
                    "{word:?}: if one argument is TYPE/NAME, such as pod/web-0, all arguments have to be"
                );
                return Err(CommandError::Usage(problem));
            }
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<(String, Vec<String>)>, String> {
        let mut words = line.split(' ').map(str::to_owned);
        let resource = words.next().unwrap();
        type_and_names(&resource, &words.collect::<Vec<_>>()).map_err(|error| error.to_string())
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
