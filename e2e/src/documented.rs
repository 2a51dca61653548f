//! The commands of the documentation, with the output that it shows.
//!
//! A `console` block has commands after `$ `, each followed by its output; a `sh` block has
//! commands only. In an output, `…` stands for any text, and a line of it for any lines. What
//! differs from run to run is compared by its form: ages, times, versions, addresses and UIDs.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use anyhow::{Context, Result};
use regex::Regex;

/// One command of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentedCommand {
    /// The page, from the root of the repository.
    pub page: String,
    /// The line of the page, from 1.
    pub line: usize,
    /// The command; several lines if it continues.
    pub text: String,
    /// The output, for a command of a `console` block.
    pub output: Option<String>,
}

/// The commands of a page.
pub fn commands_of(page: &str) -> Result<Vec<DocumentedCommand>> {
    let path = repository().join(page);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(parse(page, &text))
}

/// Replaces the outputs of a page by those of a run; `outputs` are those of [`commands_of`], in
/// their order.
pub fn write_outputs(page: &str, outputs: &[Option<String>]) -> Result<()> {
    let path = repository().join(page);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let written = with_outputs(&text, outputs);
    fs::write(&path, written).with_context(|| format!("writing {}", path.display()))
}

/// Whether an output is what the page shows, but for what differs from run to run.
pub fn is_as_documented(documented: &str, output: &str) -> bool {
    let mut pattern = String::from("(?s)^");
    for line in comparable(documented).lines() {
        if line == "…" {
            pattern.push_str(".*");
        } else {
            let any = regex::escape(line).replace('…', "[^\\n]*");
            pattern.push_str(&any);
            pattern.push_str("\\n?");
        }
    }
    pattern.push('$');
    Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(&comparable(output)))
}

/// An output with names for what differs from run to run, and two blanks between columns.
pub fn comparable(output: &str) -> String {
    static FORMS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uid>"),
            (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
            (r"\b\d{15,}(-[0-9a-f]+)?\b", "<version>"),
            (r"(https?://)?127\.0\.0\.1:\d+", "<address>"),
            (r"(?m)(^|[ \t(])(\d+[dhm])?\d+[dhms]($|[ \t)])", "$1<age>$3"),
            (r"[ \t]{2,}", "  "),
            (r"(?m)[ \t]+$", ""),
        ]
        .into_iter()
        .filter_map(|(form, name)| Some((Regex::new(form).ok()?, name)))
        .collect()
    });
    let mut text = output.trim_end().to_owned();
    for (form, name) in FORMS.iter() {
        text = form.replace_all(&text, *name).into_owned();
    }
    text
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn parse(page: &str, text: &str) -> Vec<DocumentedCommand> {
    let mut commands = Vec::new();
    for block in blocks(text) {
        let lines = block.lines.iter().enumerate();
        let mut continues = false;
        for (index, line) in lines {
            let started = if block.is_console {
                line.strip_prefix("$ ")
            } else {
                (!line.trim().is_empty()).then_some(*line)
            };
            match (continues, started, commands.last_mut()) {
                (true, _, Some(last)) => {
                    let last: &mut DocumentedCommand = last;
                    last.text.push('\n');
                    last.text.push_str(line);
                }
                (_, Some(text), _) => commands.push(DocumentedCommand {
                    page: page.to_owned(),
                    line: block.first_line + index,
                    text: text.to_owned(),
                    output: block.is_console.then(String::new),
                }),
                (_, None, Some(last)) if block.is_console => {
                    let output = last.output.get_or_insert_default();
                    let _ = writeln!(output, "{line}");
                }
                _ => {}
            }
            let last = commands.last();
            continues = started.is_some() | continues
                && last.is_some_and(|command| is_unfinished(&command.text));
        }
    }
    commands
}

struct Block<'p> {
    is_console: bool,
    /// From 1.
    first_line: usize,
    lines: Vec<&'p str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut inside = None;
    for (index, line) in text.lines().enumerate() {
        match (inside, line.strip_prefix("```")) {
            (Some(_), Some(_)) => inside = None,
            (None, Some(language)) => {
                inside = Some(language);
                if matches!(language, "console" | "sh") {
                    blocks.push(Block {
                        is_console: language == "console",
                        first_line: index + 2,
                        lines: Vec::new(),
                    });
                }
            }
            (Some("console" | "sh"), None) => {
                if let Some(block) = blocks.last_mut() {
                    block.lines.push(line);
                }
            }
            _ => {}
        }
    }
    blocks
}

/// Whether a shell would read a further line: after a backslash or a pipe, in quotes, or in a loop.
fn is_unfinished(text: &str) -> bool {
    let code = without_comment(text);
    let end = code.trim_end();
    let is_quoted = code.matches('\'').count() % 2 == 1;
    let words = |word: &str| {
        code.split_whitespace()
            .filter(|other| other.trim_end_matches(';') == word)
            .count()
    };
    end.ends_with('\\') || end.ends_with('|') || is_quoted || words("do") > words("done")
}

/// A command without the comment behind it. A `#` in quotes is part of the command.
pub fn without_comment(text: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '#') if before == ' ' => return text[..index].trim_end(),
            _ => {}
        }
        before = character;
    }
    text
}

fn with_outputs(text: &str, outputs: &[Option<String>]) -> String {
    let commands = parse("", text);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (command, output) in commands.iter().zip(outputs).rev() {
        let (Some(documented), Some(output)) = (&command.output, output) else {
            continue;
        };
        let first = command.line + command.text.lines().count() - 1;
        let last = first + documented.lines().count();
        lines.splice(first..last, output.trim_end().lines().map(str::to_owned));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n```console\n$ one a |\n  two\nNAME   AGE\nweb    35s\n$ three\n```\n\n```sh\nfour    # a comment\nfive 'a\nb'\n```\n\n```yaml\n$ no\n```\n";

    #[test]
    fn commands_have_their_lines_and_outputs() {
        let commands = parse("page.md", PAGE);
        let seen: Vec<(usize, &str, Option<&str>)> = commands
            .iter()
            .map(|command| {
                (
                    command.line,
                    command.text.as_str(),
                    command.output.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (4, "one a |\n  two", Some("NAME   AGE\nweb    35s\n")),
                (8, "three", Some("")),
                (12, "four    # a comment", None),
                (13, "five 'a\nb'", None),
            ]
        );
    }

    #[test]
    fn outputs_are_replaced_in_their_place() {
        let outputs = [
            Some("NEW\n".to_owned()),
            Some("more\nlines\n".to_owned()),
            None,
            None,
        ];
        let written = with_outputs(PAGE, &outputs);
        assert!(
            written.contains("  two\nNEW\n$ three\nmore\nlines\n```\n"),
            "{written}"
        );
    }

    #[test]
    fn outputs_are_compared_by_their_form() {
        for (documented, output) in [
            ("NAME   AGE\nweb    35s", "NAME     AGE\nweb      2m10s\n"),
            ("{\"a\":…,\"b\":1}", "{\"a\":[1,2],\"b\":1}"),
            ("first\n…\nlast", "first\nsecond\nthird\nlast"),
            ("2026-01-02T03:04:05Z", "2027-01-02T03:04:05Z"),
            ("", ""),
        ] {
            assert!(is_as_documented(documented, output), "{documented}");
        }
        for (documented, output) in [
            ("web   Running   35s", "web   Pending   35s"),
            ("a\nb", "b\na"),
            ("a", "a\nb"),
            ("", "a"),
        ] {
            assert!(!is_as_documented(documented, output), "{documented}");
        }
    }
}
