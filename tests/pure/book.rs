//! The documentation is a book: every page is in its summary, and every link leads to a heading.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

/// Pages outside of the book.
const OTHER_PAGES: [&str; 4] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "dashboards/README.md",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// The pages of the book, without its summary.
fn pages_of_the_book() -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    for folder in ["docs", "docs/adr"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_page = Path::new(&name).extension().is_some_and(|end| end == "md");
            if is_page && name != "SUMMARY.md" {
                pages.insert(format!("{folder}/{name}"));
            }
        }
    }
    pages
}

/// Lines outside of blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

fn targets(page: &str) -> Vec<&str> {
    let targets = prose(page).flat_map(|line| {
        // What is between backquotes is no link.
        let is_link = |at: &usize| line[..*at].matches('`').count().is_multiple_of(2);
        let links = line.match_indices("](").map(|(at, _)| at).filter(is_link);
        links.filter_map(|at| line[at + 2..].split_once(')'))
    });
    targets.map(|(target, _)| target).collect()
}

/// The anchors of headings, as mdBook and code forges make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(page).filter_map(|line| {
        let text = line.trim_start_matches('#');
        (text.len() < line.len() && text.starts_with(' ')).then(|| text.trim())
    });
    headings
        .map(|heading| {
            let kept = heading.chars().filter(|&character| {
                character.is_alphanumeric() || matches!(character, ' ' | '-' | '_')
            });
            let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let count = seen.entry(anchor.clone()).or_default();
            *count += 1;
            match *count {
                1 => anchor,
                more => format!("{anchor}-{}", more - 1),
            }
        })
        .collect()
}

/// A path without `..`, as far as it stays below the root of the repository.
fn resolved(page: &str, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap().join(target).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{page} links out of the repository"),
            other => path.push(other),
        }
    }
    path
}

#[test]
fn every_page_is_in_the_summary_once() {
    let summary = read("docs/SUMMARY.md");
    let mut listed: Vec<String> = targets(&summary)
        .into_iter()
        .filter(|target| !target.is_empty())
        .map(|target| format!("docs/{target}"))
        .collect();
    listed.sort_unstable();
    let pages: Vec<String> = pages_of_the_book().into_iter().collect();
    assert_eq!(
        listed, pages,
        "docs/SUMMARY.md and the pages below docs/ differ"
    );
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let book = pages_of_the_book();
    let summary = "docs/SUMMARY.md".to_owned();
    let others = OTHER_PAGES.iter().map(|&page| page.to_owned());
    for page in book.iter().cloned().chain(others).chain([summary]) {
        let text = read(&page);
        for target in targets(&text) {
            if target.starts_with("http") || target.is_empty() {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => PathBuf::from(&page),
                file => resolved(&page, file),
            };
            assert!(
                root().join(&path).exists(),
                "{page} links to {target}, which is not there"
            );
            assert!(
                !book.contains(&page) || path.starts_with("docs"),
                "{page} links to {target}, which the book does not contain: name it instead"
            );
            let linked = path.to_str().unwrap();
            assert!(
                anchor.is_empty() || anchors(&read(linked)).contains(anchor),
                "{page} links to {target}, a heading that {linked} does not have: {:?}",
                anchors(&read(linked))
            );
        }
    }
}

/// Words of the longest way to a first answer. Who installs reads this page, and the others when
/// they need them.
const INSTALL_WORDS: usize = 1_500;

#[test]
fn who_installs_reads_one_page() {
    let words = read("docs/install.md").split_whitespace().count();
    assert!(
        words <= INSTALL_WORDS,
        "docs/install.md has {words} words; move what is not needed for a first answer to other pages"
    );
}

/// Objects of the release are in its namespace, which is not the one that kubectl uses.
#[test]
fn commands_on_objects_of_the_release_name_its_namespace() {
    let objects = [
        "deployment/fleetdex",
        "job/fleetdex",
        "service/fleetdex",
        "pod/fleetdex",
    ];
    let mut without = Vec::new();
    for page in pages_of_the_book() {
        let text = read(&page);
        let commands = text
            .lines()
            .filter(|line| line.contains("kubectl") || line.contains("helm "))
            .filter(|line| objects.iter().any(|object| line.contains(object)));
        for line in commands {
            if !line.contains("-n fleetdex-system") && !line.contains("--namespace fleetdex-system")
            {
                without.push(format!("{page}: {line}"));
            }
        }
    }
    assert_eq!(without, [""; 0]);
}
