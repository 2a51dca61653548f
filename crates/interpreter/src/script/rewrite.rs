//! From gopher-lua's dialect to Luau: `goto`, the escapes of strings, and what loops iterate over.
//!
//! Luau has no `goto`. Nearly all uses of it skip the rest of a loop's body, which Luau writes as
//! `continue`: a label that nothing but the ends of inner blocks separates from the end of its
//! loop's body is dropped, and each `goto` to it from that loop becomes `continue`. Any other
//! `goto` is refused. The lines of the text stay what they are.

use std::borrow::Cow;

use self::tokens::{LuaLexeme, LuaToken, Replacement};
use super::error::ScriptError;

mod blocks;
mod loops;
mod tokens;

/// The text in Luau's dialect.
pub fn to_luau(text: &str) -> Result<Cow<'_, str>, ScriptError> {
    let tokens = tokens::of(text);
    let mut replacements = escapes(text, &tokens);
    replacements.extend(loops::ordered(&tokens));
    if has_goto(&tokens) {
        replacements.extend(jumps(&tokens)?);
    }
    replacements.sort_by_key(|(range, _)| range.start);
    if replacements.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(replace(text, &replacements)))
}

/// Whether a text names a function that visits the members of a table, or has a loop that may. A
/// text that does it in another way (`_G["pa" .. "irs"]`) finds all members in the order of names.
pub fn visits_members(text: &str) -> bool {
    let tokens = tokens::of(text);
    let names_one =
        |token: &LuaToken<'_>| matches!(token.lexeme, LuaLexeme::Word("pairs" | "next"));
    tokens.iter().any(names_one) || !loops::ordered(&tokens).is_empty()
}

fn has_goto(tokens: &[LuaToken<'_>]) -> bool {
    tokens
        .iter()
        .any(|token| matches!(token.lexeme, LuaLexeme::Label | LuaLexeme::Word("goto")))
}

fn replace(text: &str, replacements: &[Replacement]) -> String {
    let mut out = String::with_capacity(text.len() + 8 * replacements.len());
    let mut position = 0;
    for (range, with) in replacements {
        out.push_str(&text[position..range.start]);
        out.push_str(with);
        // What follows stays on its line.
        let lines = text[range.clone()].matches('\n').count();
        let kept = with.matches('\n').count();
        out.extend(std::iter::repeat_n('\n', lines.saturating_sub(kept)));
        position = range.end;
    }
    out.push_str(&text[position..]);
    out
}

/// `\x`, `\u` and `\z` in strings: letters in gopher-lua, the beginnings of longer escapes in Luau.
fn escapes(text: &str, tokens: &[LuaToken<'_>]) -> Vec<Replacement> {
    let strings = tokens
        .iter()
        .filter(|token| token.lexeme == LuaLexeme::Quoted);
    let mut found = Vec::new();
    for string in strings {
        let mut escaped = false;
        for (offset, character) in text[string.range.clone()].char_indices() {
            if escaped && matches!(character, 'x' | 'u' | 'z') {
                let at = string.range.start + offset;
                found.push((at - 1..at, String::new()));
            }
            escaped = !escaped && character == '\\';
        }
    }
    found
}

fn jumps(tokens: &[LuaToken<'_>]) -> Result<Vec<Replacement>, ScriptError> {
    let found = blocks::scan(tokens);
    let mut replacements: Vec<Replacement> = found
        .labels
        .iter()
        .map(|label| (label.range.clone(), String::new()))
        .collect();
    for jump in &found.gotos {
        let target = if found.are_too_many() {
            Err("the script has too many labels or gotos")
        } else {
            found.target(jump)
        };
        match target {
            Ok(()) => replacements.push((jump.range.clone(), "do continue end".to_owned())),
            Err(reason) => {
                let name: String = jump.name.chars().take(64).collect();
                return Err(ScriptError::Syntax {
                    line: jump.line,
                    reason: format!("goto {name}: {reason}"),
                });
            }
        }
    }
    Ok(replacements)
}

#[cfg(test)]
mod tests;
