//! mdBook builds the documentation, and every link of the built pages leads somewhere.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use e2e::{fleet::target_folder, parts::Part, test_result::Tested};

#[test]
fn the_book_is_built_and_its_links_lead_somewhere() -> Tested {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = target_folder().unwrap().join("book");
    let mut mdbook = Command::new(Part::MdBook.ensure().unwrap());
    let built = mdbook
        .arg("build")
        .arg(&root)
        .arg("--dest-dir")
        .arg(&folder)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(built.status.success(), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");

    let pages = pages_below(&folder)?;
    assert!(pages.len() > 30, "{:?}", pages.keys());
    let wrong: Vec<String> = pages
        .iter()
        .flat_map(|(path, page)| broken_links(&pages, path, page))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// A page of the book.
struct Page {
    links: BTreeSet<String>,
    ids: BTreeSet<String>,
}

fn pages_below(folder: &Path) -> Tested<BTreeMap<PathBuf, Page>> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages.extend(pages_below(&path)?);
        } else if path.extension() == Some(OsStr::new("html")) {
            let text = fs::read_to_string(&path)?;
            let values = |name| attributes(&text, name).map(str::to_owned);
            let page = Page {
                links: values("href").chain(values("src")).collect(),
                ids: values("id").collect(),
            };
            pages.insert(path, page);
        }
    }
    Ok(pages)
}

/// The values of an attribute, which mdBook writes in double quotes.
fn attributes<'p>(page: &'p str, name: &str) -> impl Iterator<Item = &'p str> {
    let start = format!(" {name}=\"");
    let starts: Vec<usize> = page
        .match_indices(&start)
        .map(|(index, _)| index + start.len())
        .collect();
    starts
        .into_iter()
        .filter_map(|start| page[start..].split('"').next())
}

/// Links to files and headings that are not there. Links to other sites are not followed.
fn broken_links(pages: &BTreeMap<PathBuf, Page>, path: &Path, page: &Page) -> Vec<String> {
    let own = page.links.iter().filter(|link| !link.contains("://"));
    let broken = own.filter(|link| {
        let (file, id) = link.split_once('#').unwrap_or((link, ""));
        let target = match file {
            "" => path.to_owned(),
            file => normal(&path.parent().unwrap().join(file)),
        };
        let has_id = |page: &Page| id.is_empty() || page.ids.contains(id);
        !target.exists() || pages.get(&target).is_some_and(|page| !has_id(page))
    });
    broken
        .map(|link| format!("{}: {link}", path.display()))
        .collect()
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}
