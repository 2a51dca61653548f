//! Prints objects.

use std::{io, str::FromStr};

use fleetdex_core::yaml;
use serde_json::{Value, json};

/// How objects are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenderFormat {
    /// One document for each object.
    #[default]
    Yaml,
    /// A list.
    Json,
}

impl FromStr for RenderFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "yaml" => Ok(Self::Yaml),
            "json" => Ok(Self::Json),
            _ => Err("use yaml or json".to_owned()),
        }
    }
}

pub(crate) fn write(
    objects: &[Value],
    format: RenderFormat,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        RenderFormat::Yaml => {
            for object in objects {
                let text = yaml::to_string(object).map_err(io::Error::other)?;
                write!(out, "---\n{text}")?;
            }
            Ok(())
        }
        RenderFormat::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            serde_json::to_writer_pretty(&mut *out, &list)?;
            writeln!(out)
        }
    }
}
