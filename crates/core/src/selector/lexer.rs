//! Splits label selectors into tokens, as `k8s.io/apimachinery/pkg/labels` does.

/// One token. `in` and `notin` are words: the parser decides whether they are operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Not,
    Equal,
    DoubleEqual,
    NotEqual,
    Greater,
    Less,
    Comma,
    Open,
    Close,
    End,
}

/// A token and the byte at which it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexeme<'a> {
    pub(super) token: Token<'a>,
    pub(super) start: usize,
}

/// The tokens of the text; the last one, and only that, is [`Token::End`].
///
/// As Kubernetes' lexer does, this one skips a NUL after a token, and takes a NUL at the start of a
/// token for the end of the text.
pub(super) fn tokens(text: &str) -> Vec<Lexeme<'_>> {
    let mut lexemes = Vec::new();
    let mut position = 0;
    loop {
        let rest = text[position..].trim_start_matches([' ', '\t', '\r', '\n']);
        let start = text.len() - rest.len();
        let (token, length) = first_token(rest);
        lexemes.push(Lexeme { token, start });
        if token == Token::End {
            return lexemes;
        }
        position = start + length;
        position += usize::from(text.as_bytes().get(position) == Some(&0));
    }
}

/// The token at the start of the text, and its length in bytes.
fn first_token(text: &str) -> (Token<'_>, usize) {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.get(1)) {
        (None | Some(0), _) => (Token::End, 0),
        (Some(b'='), Some(b'=')) => (Token::DoubleEqual, 2),
        (Some(b'!'), Some(b'=')) => (Token::NotEqual, 2),
        (Some(b'='), _) => (Token::Equal, 1),
        (Some(b'!'), _) => (Token::Not, 1),
        (Some(b'>'), _) => (Token::Greater, 1),
        (Some(b'<'), _) => (Token::Less, 1),
        (Some(b','), _) => (Token::Comma, 1),
        (Some(b'('), _) => (Token::Open, 1),
        (Some(b')'), _) => (Token::Close, 1),
        _ => word(text),
    }
}

fn word(text: &str) -> (Token<'_>, usize) {
    let ends_word = |byte: u8| {
        matches!(
            byte,
            0 | b' ' | b'\t' | b'\r' | b'\n' | b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<'
        )
    };
    let length = text.bytes().position(ends_word).unwrap_or(text.len());
    (Token::Word(&text[..length]), length)
}
