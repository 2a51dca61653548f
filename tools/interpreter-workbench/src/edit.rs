//! `--edit`: opens a customization in an editor as one Lua file, and writes it back to its file.
//!
//! Guarantee: what cannot be saved is not lost. The editor opens again with the reason, and when
//! the user gives up or the editor fails, the text stays in a file whose name is printed.

use std::{
    env, fs,
    io::{ErrorKind, Write as _},
    path::Path,
    process::Command,
};

use fleetdex_cli::{
    console::{CommandError, Console},
    documents::{DocumentReader, SourceDocument},
    kubeconfig::storage,
};
use fleetdex_core::{model::causes, terminal::escaped_line, yaml};
use fleetdex_interpreter::{customization::KIND, value::text};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{check::check, execute::compile, key_order::sorted, rules::check_type};
mod script_file;

use self::script_file::ScriptFile;

/// The editor of the user, as kubectl finds it.
pub fn editor() -> String {
    let given = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let named = ["KUBE_EDITOR", "EDITOR"].into_iter().find_map(given);
    named.unwrap_or_else(|| "vi".to_owned())
}

/// Edits the one customization of a file, or a new one if the file is empty. Returns whether the
/// text was saved, or nothing was changed.
pub async fn edit(
    filenames: &[String],
    with_documents: bool,
    editor: &str,
    reader: &mut DocumentReader<'_>,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let original = customization(filenames, reader).await?;
    let mut file = ScriptFile::of(&original.content, with_documents);
    let unedited = file.text.clone();
    let unchanged = file.read(&unedited, &original.content);
    loop {
        let edited = in_editor(editor, &file.text, &unedited, console)?;
        let read = file.read(&edited, &original.content);
        if read.is_ok() && read == unchanged {
            writeln!(console.err, "Edit cancelled, no changes made.")?;
            return Ok(true);
        }
        let problems = match read.and_then(|customization| checked(&original, customization)) {
            Ok(customization) => {
                let saved = save(&original.source, &customization, console);
                if saved.is_err() {
                    keep(&edited, console)?;
                }
                return saved;
            }
            Err(problems) => problems,
        };
        if file.is_same(&edited, &file.text) {
            writeln!(console.err, "Edit cancelled, no valid changes were saved.")?;
            keep(&edited, console)?;
            return Ok(false);
        }
        for line in problems.lines() {
            writeln!(console.err, "{}", escaped_line(line))?;
        }
        file = file.again(&edited, &problems);
    }
}

/// The customization to edit, with the name of its file.
async fn customization(
    filenames: &[String],
    reader: &mut DocumentReader<'_>,
) -> Result<SourceDocument, CommandError> {
    let [name] = filenames else {
        return Err(usage(
            "--edit needs one file with one customization: name it with -f",
        ));
    };
    let is_new =
        name != "-" && fs::metadata(name).is_ok_and(|found| found.is_file() && found.len() == 0);
    let documents = if is_new {
        Vec::new()
    } else {
        let documents = reader.documents(filenames, false).await;
        documents.map_err(|error| usage(&causes(&error)))?
    };
    let mut documents = documents.into_iter();
    let first = documents.next();
    if documents.next().is_some() {
        return Err(usage(
            "only one customization can be edited, and it must be alone in its file",
        ));
    }
    let document = first.unwrap_or_else(|| SourceDocument {
        source: name.clone(),
        content: json!({ "apiVersion": fleetdex_interpreter::webhook::API_VERSION, "kind": KIND }),
    });
    check_type(&document.content).map_err(|problem| usage(&problem))?;
    Ok(document)
}

fn usage(text: &str) -> CommandError {
    CommandError::Usage(text.to_owned())
}

/// The customization, if its target is complete and its scripts compile.
fn checked(original: &SourceDocument, customization: Value) -> Result<Value, String> {
    let document = SourceDocument {
        source: original.source.clone(),
        content: customization,
    };
    if text(&document.content, &["metadata", "name"]).is_empty() {
        return Err("the customization has no name".to_owned());
    }
    let report = check(std::slice::from_ref(&document), &compile);
    if report.is_valid {
        Ok(document.content)
    } else {
        Err(report.text)
    }
}

/// Writes a text to a file, opens it in an editor, and reads it when the editor is closed. If that
/// fails, the file is kept, unless it has the `unedited` text.
fn in_editor(
    editor: &str,
    text: &str,
    unedited: &str,
    console: &mut Console<'_>,
) -> Result<String, CommandError> {
    let temporary = temporary_file(text)?;
    let edited = edited_file(editor, temporary.path());
    if edited.is_err() {
        match fs::read(temporary.path()) {
            Ok(left) if left == unedited.as_bytes() => {}
            // The editor has removed the file.
            Err(error) if error.kind() == ErrorKind::NotFound && text == unedited => {}
            Err(error) if error.kind() == ErrorKind::NotFound => keep(text, console)?,
            _ => keep_file(temporary, console)?,
        }
    }
    edited
}

/// Opens a file in an editor, and reads it when the editor is closed.
fn edited_file(editor: &str, path: &Path) -> Result<String, CommandError> {
    // The editor is a command line, such as `code --wait`.
    let command = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(path)
        .status();
    let status =
        command.map_err(|error| usage(&format!("cannot open the editor {editor:?}: {error}")))?;
    if !status.success() {
        return Err(usage(&format!(
            "the editor {editor:?} ended with {status}; nothing was saved"
        )));
    }
    fs::read_to_string(path).map_err(|error| {
        usage(&format!(
            "cannot read what the editor {editor:?} saved: {error}"
        ))
    })
}

fn temporary_file(text: &str) -> std::io::Result<NamedTempFile> {
    let mut temporary = tempfile::Builder::new()
        .prefix("fleetdex-edit-")
        .suffix(".lua")
        .tempfile()?;
    temporary.write_all(text.as_bytes())?;
    Ok(temporary)
}

/// Keeps a text that was not saved, and says where.
fn keep(text: &str, console: &mut Console<'_>) -> Result<(), CommandError> {
    keep_file(temporary_file(text)?, console)
}

/// Keeps a file whose text was not saved, and says where it is.
fn keep_file(temporary: NamedTempFile, console: &mut Console<'_>) -> Result<(), CommandError> {
    let (_, path) = temporary.keep().map_err(|error| error.error)?;
    let path = path.display();
    writeln!(
        console.err,
        "A copy of your changes has been stored to \"{path}\""
    )?;
    Ok(())
}

/// Writes a customization to its file, as JSON if that was JSON; to standard output if it came from
/// no file.
fn save(
    source: &str,
    customization: &Value,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let path = Path::new(source);
    let before = if path.is_file() {
        fs::read_to_string(path)?
    } else {
        String::new()
    };
    let after = if before.trim_start().starts_with('{') {
        format!("{customization:#}\n")
    } else {
        yaml::to_string(sorted(customization))
            .map_err(|error| usage(&format!("cannot write the customization as YAML: {error}")))?
    };
    if path.is_file() {
        storage::replace(path, &after, false)?;
    } else {
        write!(console.out, "{after}")?;
    }
    let name = text(customization, &["metadata", "name"]);
    writeln!(
        console.err,
        "{}",
        escaped_line(&format!(
            "resourceinterpretercustomization.config.karmada.io/{name} edited"
        ))
    )?;
    Ok(true)
}

#[cfg(test)]
mod tests;
