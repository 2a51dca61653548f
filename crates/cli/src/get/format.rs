//! The values of `--output`.

use std::{fs, path::PathBuf, str::FromStr};

use fleetdex_core::json_path::{JsonPathError, Path, Template};

/// How objects are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Format {
    /// One line per object.
    #[default]
    Table,
    /// The same with more columns.
    Wide,
    /// A List as JSON.
    Json,
    /// A List as YAML.
    Yaml,
    /// `<cluster>/<resource>/<name>` per line.
    Name,
    /// The text of a template.
    JsonPath(Template),
    /// One line per object, of the columns that are given.
    CustomColumns(Vec<CustomColumn>),
}

/// A column of one's own.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomColumn {
    /// Its title.
    pub header: String,
    /// What stands in it.
    pub path: Path,
}

/// A value of `--output` that is none.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// None of kubectl's.
    #[error(
        "{0:?} is no output format; these are: table, wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-file=FILE, \
         custom-columns=HEADER:PATH,…, custom-columns-file=FILE"
    )]
    Unknown(String),
    /// One of kubectl's that is left out.
    #[error(
        "{0} is not there: Go's templates need Go; use jsonpath=TEMPLATE or custom-columns=HEADER:PATH,… instead"
    )]
    GoTemplate(String),
    /// The template is none.
    #[error(transparent)]
    JsonPath(#[from] JsonPathError),
    /// The columns are none.
    #[error("custom-columns: {0}")]
    CustomColumns(String),
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        match (name, value) {
            ("table" | "", "") => Ok(Self::Table),
            ("wide", "") => Ok(Self::Wide),
            ("json", "") => Ok(Self::Json),
            ("yaml", "") => Ok(Self::Yaml),
            ("name", "") => Ok(Self::Name),
            ("jsonpath", template) if !template.is_empty() => Ok(Self::JsonPath(template.parse()?)),
            ("jsonpath-file", file) if !file.is_empty() => Ok(Self::JsonPath(read(file)?.parse()?)),
            ("custom-columns", columns) if !columns.is_empty() => {
                Ok(Self::CustomColumns(custom_columns(columns)?))
            }
            ("custom-columns-file", file) if !file.is_empty() => {
                Ok(Self::CustomColumns(columns_of_file(&read(file)?)?))
            }
            ("go-template" | "go-template-file" | "template" | "templatefile", _) => {
                Err(FormatError::GoTemplate(name.to_owned()))
            }
            _ => Err(FormatError::Unknown(text.to_owned())),
        }
    }
}

impl Format {
    /// Whether people read it line by line, so that they are told when there is none.
    pub fn is_for_people(&self) -> bool {
        matches!(
            self,
            Self::Table | Self::Wide | Self::Name | Self::CustomColumns(_)
        )
    }
}

fn read(file: &str) -> Result<String, FormatError> {
    let text = fs::read_to_string(file).map_err(|source| FormatError::File {
        path: file.into(),
        source,
    })?;
    Ok(text)
}

/// `NAME:.metadata.name,NODE:.spec.nodeName`
fn custom_columns(text: &str) -> Result<Vec<CustomColumn>, FormatError> {
    let mut columns = Vec::new();
    for column in text.split(',') {
        let Some((header, path)) = column.split_once(':') else {
            return Err(FormatError::CustomColumns(format!(
                "{column:?}: expected HEADER:PATH"
            )));
        };
        columns.push(CustomColumn {
            header: header.to_owned(),
            path: path.parse()?,
        });
    }
    Ok(columns)
}

/// A line of headers and a line of paths.
fn columns_of_file(text: &str) -> Result<Vec<CustomColumn>, FormatError> {
    let mut lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let (headers, paths) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    if headers.is_empty() || headers.len() != paths.len() {
        let problem = format!(
            "{} headers in the first line and {} paths in the second one",
            headers.len(),
            paths.len()
        );
        return Err(FormatError::CustomColumns(problem));
    }
    let columns = headers.into_iter().zip(paths);
    columns
        .map(|(header, path)| {
            Ok(CustomColumn {
                header: header.to_owned(),
                path: path.parse()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_kubectls() {
        assert_eq!("wide".parse::<Format>().unwrap(), Format::Wide);
        assert!(matches!(
            "jsonpath={.a".parse::<Format>(),
            Err(FormatError::JsonPath(_))
        ));
        assert!(matches!(
            "jsonpath={.items[?(@.a==\"b\")]}".parse::<Format>(),
            Ok(Format::JsonPath(_))
        ));
        let columns = "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image"
            .parse::<Format>()
            .unwrap();
        let Format::CustomColumns(columns) = columns else {
            panic!("{columns:?}")
        };
        assert_eq!(
            columns
                .iter()
                .map(|column| column.header.as_str())
                .collect::<Vec<_>>(),
            ["NAME", "IMAGE"]
        );
    }

    #[test]
    fn formats_that_are_none_are_told_with_those_that_are() {
        let problem = |text: &str| text.parse::<Format>().unwrap_err().to_string();
        assert!(problem("xml").contains("these are: table, wide, json"));
        assert!(problem("json=x").contains("\"json=x\" is no output format"));
        assert!(problem("jsonpath").contains("no output format"));
        assert!(problem("go-template={{.a}}").contains("use jsonpath=TEMPLATE"));
        assert!(problem("custom-columns=NAME").contains("expected HEADER:PATH"));
        assert!(problem("jsonpath-file=/nowhere").contains("cannot read /nowhere"));
    }

    #[test]
    fn files_hold_templates_and_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("columns");
        fs::write(&path, "NAME          NODE\nmetadata.name spec.nodeName\n").unwrap();
        let format: Format = format!("custom-columns-file={}", path.display())
            .parse()
            .unwrap();
        assert!(matches!(format, Format::CustomColumns(columns) if columns.len() == 2));
        fs::write(&path, "A B\n.a\n").unwrap();
        let error = format!("custom-columns-file={}", path.display())
            .parse::<Format>()
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "custom-columns: 2 headers in the first line and 1 paths in the second one"
        );
        fs::write(&path, "{.kind}").unwrap();
        assert!(
            format!("jsonpath-file={}", path.display())
                .parse::<Format>()
                .is_ok()
        );
    }
}
