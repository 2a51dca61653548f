//! The values of `--output`.

use std::str::FromStr;

use crate::api::ListShape;

/// How objects are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// One line per object, with the columns of the server's Table.
    #[default]
    Table,
    /// The same with the columns of priority 1 and above.
    Wide,
    /// A List as JSON.
    Json,
    /// A List as YAML.
    Yaml,
    /// `<cluster>/<resource>/<name>` per line.
    Name,
}

/// An unknown value of `--output`.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is not an output format of this command; use table, wide, json, yaml or name, or use kubectl with the context that \
     `fleetdex kubeconfig` writes"
)]
pub struct UnknownFormat(String);

impl FromStr for OutputFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "table" | "" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            _ => Err(UnknownFormat(text.to_owned())),
        }
    }
}

impl OutputFormat {
    /// Whether it shows the columns of the server's Table.
    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// Whether it is read line by line. An empty list of these formats is announced on standard
    /// error.
    pub(crate) fn is_line_based(self) -> bool {
        self.is_table() || self == Self::Name
    }

    /// What the server is asked for: the server knows the columns of every kind.
    pub(crate) fn shape(self) -> ListShape {
        match self {
            Self::Table | Self::Wide => ListShape::Table,
            Self::Json | Self::Yaml | Self::Name => ListShape::Objects,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_kubectl_alone_are_refused_with_the_way_to_kubectl() {
        assert_eq!("wide".parse::<OutputFormat>().unwrap(), OutputFormat::Wide);
        for format in ["xml", "json=x", "jsonpath={.items}", "go-template={{.a}}"] {
            let error = format.parse::<OutputFormat>().unwrap_err().to_string();
            assert!(
                error.contains("use table, wide, json, yaml or name")
                    && error.contains("fleetdex kubeconfig"),
                "{error}"
            );
        }
    }
}
