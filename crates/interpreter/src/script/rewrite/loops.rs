//! What a generic `for` iterates over.
//!
//! In Luau that may be a table itself, whose keys the engine visits in the order of their hashes.
//! So the expression of each loop becomes the argument of a function of the sandbox that visits a
//! table as `pairs` does, and returns anything else. A call of `pairs` or `ipairs` and `next, t`,
//! which are most loops, give no table.
//!
//! A loop whose expression has an `if` without an `end`, which only Luau has, may stay as it is.

use super::tokens::{LuaLexeme, LuaToken, Replacement};

/// The global of the sandbox.
const ITERATE: &str = "__iterate";

enum Open {
    /// `for` before its `in` or `do`.
    Head,
    /// `for` with the index of the token after its `in`.
    Expression(usize),
    /// `while` before its `do`.
    While,
    /// Whatever `end` or `until` closes.
    Block,
}

/// What is put around the expressions of loops.
pub fn ordered(tokens: &[LuaToken<'_>]) -> Vec<Replacement> {
    let mut replacements = Vec::new();
    let mut open = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let LuaLexeme::Word(word) = token.lexeme else {
            continue;
        };
        match (word, open.last_mut()) {
            ("for", _) => open.push(Open::Head),
            ("while", _) => open.push(Open::While),
            ("in", Some(head @ Open::Head)) => *head = Open::Expression(index + 1),
            ("do", Some(head @ (Open::Head | Open::Expression(_) | Open::While))) => {
                if let Open::Expression(first) = *head
                    && may_be_table(&tokens[first..index])
                {
                    let start = tokens[first].range.start;
                    replacements.push((start..start, format!("{ITERATE}(")));
                    let end = tokens[index - 1].range.end;
                    replacements.push((end..end, ")".to_owned()));
                }
                *head = Open::Block;
            }
            ("function" | "if" | "repeat" | "do", _) => open.push(Open::Block),
            ("end" | "until", _) => {
                open.pop();
            }
            _ => {}
        }
    }
    replacements
}

fn may_be_table(expression: &[LuaToken<'_>]) -> bool {
    let mut lexemes = expression.iter().map(|token| token.lexeme);
    let known = matches!(
        (lexemes.next(), lexemes.next()),
        (
            Some(LuaLexeme::Word("pairs" | "ipairs")),
            Some(LuaLexeme::Other('('))
        ) | (Some(LuaLexeme::Word("next")), Some(LuaLexeme::Other(',')))
    );
    !known && !expression.is_empty()
}
