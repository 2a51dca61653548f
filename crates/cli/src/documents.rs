//! Reads objects from files, folders, URLs and standard input, as kubectl reads them.
//!
//! A file holds YAML or JSON, one or several documents; a list counts as its items. Everything is
//! bounded: the bytes of a source, the depth of a document, the time of a download.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use fleetdex_core::{model::causes, yaml::reader};
use reqwest::{Client, redirect};
use serde_json::Value;

mod yaml_problem;

/// The most bytes of one file, one download or standard input.
const MAX_SOURCE_BYTES: u64 = 64 << 20;
/// The stack of the parser, which calls itself for each level of a document.
const PARSER_STACK_BYTES: usize = 64 << 20;
/// The most documents of one source.
const MAX_DOCUMENTS: usize = 100_000;
/// How long a download may take.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How many redirects a download follows, as in Go's HTTP client.
const MAX_REDIRECTS: usize = 10;
/// What is read from a folder. Source: `FileExtensions` of
/// <https://pkg.go.dev/k8s.io/cli-runtime/pkg/resource>
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
/// What standard input is called, as in kubectl.
const STANDARD_INPUT: &str = "STDIN";

/// A document and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceDocument {
    /// The file, the URL or `STDIN`.
    pub source: String,
    /// The content.
    pub content: Value,
}

/// A source cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// There is no such file.
    #[error("the path {0:?} does not exist")]
    Missing(String),
    /// A file or folder cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file or folder.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A folder without a file to read.
    #[error("error reading {0:?}: recognized file extensions are [.json .yaml .yml]")]
    NoFiles(String),
    /// Two arguments are `-`.
    #[error("standard input cannot be used for multiple arguments")]
    StandardInputUsedTwice,
    /// A source has too many bytes.
    #[error("{0} has more than {limit} MiB", limit = MAX_SOURCE_BYTES >> 20)]
    TooLong(String),
    /// A URL cannot be read.
    #[error("unable to read URL {url:?}: {reason}")]
    Download {
        /// The URL.
        url: String,
        /// Why.
        reason: String,
    },
    /// A source is neither YAML nor JSON.
    #[error("error parsing {origin}: {reason}")]
    Parse {
        /// The source.
        origin: String,
        /// What the parser says.
        reason: String,
    },
}

/// Reads sources. Standard input is read once.
pub struct DocumentReader<'r> {
    standard_input: Option<&'r mut dyn Read>,
}

impl<'r> DocumentReader<'r> {
    /// A reader of files, URLs and one stream for `-`.
    pub fn new(standard_input: &'r mut dyn Read) -> Self {
        Self {
            standard_input: Some(standard_input),
        }
    }

    /// Returns the objects of all sources; those of a list one by one. Empty documents are left
    /// out.
    pub async fn objects(
        &mut self,
        names: &[String],
        is_recursive: bool,
    ) -> Result<Vec<SourceDocument>, DocumentError> {
        let documents = self.documents(names, is_recursive).await?;
        Ok(documents.into_iter().flat_map(flattened).collect())
    }

    /// Returns the documents of all sources. Empty documents are left out.
    pub async fn documents(
        &mut self,
        names: &[String],
        is_recursive: bool,
    ) -> Result<Vec<SourceDocument>, DocumentError> {
        let mut documents = Vec::new();
        for name in names {
            for (source, text) in self.texts(name, is_recursive).await? {
                for content in parse(&source, &text)? {
                    documents.push(SourceDocument {
                        source: source.clone(),
                        content,
                    });
                }
            }
        }
        Ok(documents)
    }

    /// Returns the text of one argument, which is of several files if it is a folder.
    pub async fn texts(
        &mut self,
        name: &str,
        is_recursive: bool,
    ) -> Result<Vec<(String, String)>, DocumentError> {
        if name == "-" {
            let stream = self.standard_input.take();
            let stream = stream.ok_or(DocumentError::StandardInputUsedTwice)?;
            return Ok(vec![(
                STANDARD_INPUT.to_owned(),
                read_text(STANDARD_INPUT, stream)?,
            )]);
        }
        if name.starts_with("http://") || name.starts_with("https://") {
            return Ok(vec![(name.to_owned(), download(name).await?)]);
        }
        let mut texts = Vec::new();
        for path in files(name, is_recursive)? {
            let source = path.display().to_string();
            let mut file = fs::File::open(&path).map_err(|error| unreadable(&path, error))?;
            let text = read_text(&source, &mut file)?;
            texts.push((source, text));
        }
        Ok(texts)
    }
}

/// The files of an argument: itself, or those of the folder with a known extension, sorted by name.
fn files(name: &str, is_recursive: bool) -> Result<Vec<PathBuf>, DocumentError> {
    let root = PathBuf::from(name);
    match fs::metadata(&root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DocumentError::Missing(name.to_owned()));
        }
        Err(error) => return Err(unreadable(&root, error)),
        Ok(metadata) if !metadata.is_dir() => return Ok(vec![root]),
        Ok(_) => {}
    }
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, error))? {
            let entry = entry.map_err(|error| unreadable(&folder, error))?;
            // The type of the entry itself: a link to a folder could lead back to one of its
            // parents.
            let kind = entry
                .file_type()
                .map_err(|error| unreadable(&folder, error))?;
            match entry.path() {
                path if kind.is_dir() && is_recursive => folders.push(path),
                path if !kind.is_dir() && has_known_extension(&path) => found.push(path),
                _ => {}
            }
        }
    }
    if found.is_empty() {
        return Err(DocumentError::NoFiles(name.to_owned()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether a file is read as a part of its folder.
pub fn has_known_extension(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}

fn unreadable(path: &Path, source: io::Error) -> DocumentError {
    DocumentError::Read {
        path: path.display().to_string(),
        source,
    }
}

fn read_text(source: &str, stream: &mut dyn Read) -> Result<String, DocumentError> {
    let mut bytes = Vec::new();
    stream
        .take(MAX_SOURCE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(Path::new(source), error))?;
    text(source, bytes)
}

/// The bytes of a source as text, without a byte order mark.
fn text(source: &str, bytes: Vec<u8>) -> Result<String, DocumentError> {
    if bytes.len() as u64 > MAX_SOURCE_BYTES {
        return Err(DocumentError::TooLong(source.to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_| DocumentError::Parse {
        origin: source.to_owned(),
        reason: "it is not UTF-8".to_owned(),
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

async fn download(url: &str) -> Result<String, DocumentError> {
    let failed = |reason: String| DocumentError::Download {
        url: url.to_owned(),
        reason,
    };
    let unsent = |error: reqwest::Error| failed(causes(&error.without_url()));
    let client = Client::builder()
        .redirect(redirect::Policy::limited(MAX_REDIRECTS))
        .timeout(DOWNLOAD_TIMEOUT)
        .build()
        .map_err(unsent)?;
    let mut response = client.get(url).send().await.map_err(unsent)?;
    if !response.status().is_success() {
        return Err(failed(format!("server reported {}", response.status())));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unsent)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > MAX_SOURCE_BYTES {
            break;
        }
    }
    text(url, bytes)
}

/// Parses one or several documents. As kubectl, it accepts repeated keys (the last one counts),
/// reads the booleans and octal numbers of YAML 1.1, and a number such as `3.0` or `1e3` as an
/// integer.
pub fn parse(source: &str, text: &str) -> Result<Vec<Value>, DocumentError> {
    let mut parsed = parse_values(source, text)?;
    parsed
        .iter_mut()
        .for_each(reader::make_whole_numbers_integers);
    Ok(parsed)
}

fn parse_values(source: &str, text: &str) -> Result<Vec<Value>, DocumentError> {
    // Much faster than YAML, and what begins so is seldom YAML.
    if text.trim_start().starts_with(['{', '[']) {
        let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        if let Ok(documents) = stream.collect::<Result<Vec<_>, _>>() {
            return Ok(documents);
        }
    }
    let documents = parse_yaml(text).map_err(|reason| DocumentError::Parse {
        origin: source.to_owned(),
        reason,
    })?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// Parses YAML on a stack that is large enough for the deepest document.
fn parse_yaml(text: &str) -> Result<Vec<Value>, String> {
    let parse = || {
        reader::parse(text, MAX_DOCUMENTS)
            .map_err(|error| yaml_problem::describe(text, error.without_snippet()))
    };
    thread::scope(|scope| {
        thread::Builder::new()
            .stack_size(PARSER_STACK_BYTES)
            .spawn_scoped(scope, parse)
            .map_err(|error| error.to_string())?
            .join()
            .unwrap_or_else(|_| Err("the parser failed".to_owned()))
    })
}

/// The items of a list, or the object itself. Items of a typed list, such as a `PodList`, may omit
/// their type.
fn flattened(document: SourceDocument) -> Vec<SourceDocument> {
    let SourceDocument {
        source,
        mut content,
    } = document;
    let text = |key: &str| content[key].as_str().unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let Some(item_kind) = kind.strip_suffix("List") else {
        return vec![SourceDocument { source, content }];
    };
    let Some(Value::Array(items)) = content.get_mut("items").map(Value::take) else {
        return vec![SourceDocument { source, content }];
    };
    let typed = |mut item: Value| {
        if let Some(members) = item.as_object_mut()
            && !item_kind.is_empty()
        {
            let absent = |key: &str| members.get(key).is_none_or(Value::is_null);
            if absent("kind") && absent("apiVersion") {
                members.insert("apiVersion".to_owned(), api_version.clone().into());
                members.insert("kind".to_owned(), item_kind.into());
            }
        }
        SourceDocument {
            source: source.clone(),
            content: item,
        }
    };
    items.into_iter().map(typed).collect()
}

#[cfg(test)]
mod tests;
