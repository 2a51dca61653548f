//! Finds labels, the `goto`s to them and the blocks that both are in.

use std::ops::Range;

use super::tokens::{LuaLexeme, LuaToken};

/// No script that people write has as many labels or `goto`s.
const MAX_JUMPS: usize = 1000;
/// No compiler takes blocks that are nested deeper.
const MAX_DEPTH: usize = 200;

/// The labels and `goto`s of a script.
#[derive(Default)]
pub struct Jumps<'t> {
    /// In the order of the text.
    pub labels: Vec<Label<'t>>,
    /// In the order of the text.
    pub gotos: Vec<Goto<'t>>,
}

/// `::name::`
pub struct Label<'t> {
    /// The whole statement.
    pub range: Range<usize>,
    name: &'t str,
    block: usize,
    /// The loop or function that its block is in.
    body: usize,
    is_last_of_loop: bool,
}

/// `goto name`
pub struct Goto<'t> {
    /// The whole statement.
    pub range: Range<usize>,
    /// The label.
    pub name: &'t str,
    /// The line of the statement.
    pub line: usize,
    /// The numbers of the blocks that it is in.
    blocks: Vec<usize>,
    body: usize,
}

impl Jumps<'_> {
    /// Whether there are so many that the search for targets would take long.
    pub fn are_too_many(&self) -> bool {
        self.labels.len().max(self.gotos.len()) > MAX_JUMPS
    }

    /// Whether a `goto` continues its loop; an error says why not.
    pub fn target(&self, jump: &Goto<'_>) -> Result<(), &'static str> {
        let visible = self
            .labels
            .iter()
            .filter(|label| label.name == jump.name && jump.blocks.contains(&label.block))
            .max_by_key(|label| label.block);
        match visible {
            None => Err("there is no such label in the blocks around it"),
            Some(label) if label.body != jump.body => Err("the label belongs to another loop"),
            Some(label) if !label.is_last_of_loop => {
                Err("the label is not at the end of the body of a loop")
            }
            Some(_) => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `if`, `do`, and the branches of `if`.
    Plain,
    /// `while` or `for` before its `do`.
    LoopHead,
    Loop,
    /// A function or the whole script.
    Function,
}

struct Block {
    number: usize,
    kind: Kind,
}

/// Reads the tokens of a script. Unbalanced blocks are left to the compiler.
pub fn scan<'t>(tokens: &[LuaToken<'t>]) -> Jumps<'t> {
    let mut scanner = Scanner::default();
    scanner.open(Kind::Function);
    let mut position = 0;
    while position < tokens.len() && !scanner.jumps.are_too_many() {
        position += scanner.step(&tokens[position..]);
    }
    scanner.jumps
}

#[derive(Default)]
struct Scanner<'t> {
    jumps: Jumps<'t>,
    blocks: Vec<Block>,
    opened: usize,
    /// Labels (as indices) after which nothing but ends of blocks has come so far.
    open_labels: Vec<usize>,
}

impl<'t> Scanner<'t> {
    /// Takes the first token, or the whole statement of a label or `goto`; returns the number of
    /// tokens taken.
    fn step(&mut self, tokens: &[LuaToken<'t>]) -> usize {
        let lexeme = |index: usize| tokens.get(index).map(|token| token.lexeme);
        let range = |last: usize| tokens[0].range.start..tokens[last].range.end;
        match (lexeme(0), lexeme(1), lexeme(2)) {
            (Some(LuaLexeme::Label), Some(LuaLexeme::Word(name)), Some(LuaLexeme::Label)) => {
                self.label(name, range(2));
                3
            }
            (Some(LuaLexeme::Word("goto")), Some(LuaLexeme::Word(name)), _) => {
                self.goto(name, range(1), tokens[0].line);
                2
            }
            (first, ..) => {
                if let Some(lexeme) = first {
                    self.other(lexeme);
                }
                1
            }
        }
    }

    fn label(&mut self, name: &'t str, range: Range<usize>) {
        self.open_labels.push(self.jumps.labels.len());
        self.jumps.labels.push(Label {
            range,
            name,
            block: self.blocks.last().map_or(0, |block| block.number),
            body: self.body(),
            is_last_of_loop: false,
        });
    }

    fn goto(&mut self, name: &'t str, range: Range<usize>, line: usize) {
        self.open_labels.clear();
        self.jumps.gotos.push(Goto {
            range,
            name,
            line,
            blocks: self.innermost_blocks(),
            body: self.body(),
        });
    }

    fn other(&mut self, lexeme: LuaLexeme<'_>) {
        match lexeme {
            LuaLexeme::Other(';') => {}
            LuaLexeme::Word("end" | "until") => self.close(),
            lexeme => {
                self.open_labels.clear();
                if let LuaLexeme::Word(word) = lexeme {
                    self.word(word);
                }
            }
        }
    }

    fn word(&mut self, word: &str) {
        match word {
            "function" => self.open(Kind::Function),
            "if" => self.open(Kind::Plain),
            "repeat" => self.open(Kind::Loop),
            "while" | "for" => self.open(Kind::LoopHead),
            "do" => match self.blocks.last_mut() {
                Some(block) if block.kind == Kind::LoopHead => block.kind = Kind::Loop,
                _ => self.open(Kind::Plain),
            },
            "else" | "elseif" => {
                self.blocks.pop();
                self.open(Kind::Plain);
            }
            _ => {}
        }
    }

    fn open(&mut self, kind: Kind) {
        self.opened += 1;
        self.blocks.push(Block {
            number: self.opened,
            kind,
        });
    }

    fn close(&mut self) {
        match self.blocks.pop().map(|block| block.kind) {
            Some(Kind::Plain) => {}
            Some(Kind::Loop) => {
                for index in self.open_labels.drain(..) {
                    self.jumps.labels[index].is_last_of_loop = true;
                }
            }
            _ => self.open_labels.clear(),
        }
    }

    fn innermost_blocks(&self) -> Vec<usize> {
        let innermost = self.blocks.iter().rev().take(MAX_DEPTH);
        innermost.map(|block| block.number).collect()
    }

    /// The number of the innermost loop or function.
    fn body(&self) -> usize {
        let body = self
            .blocks
            .iter()
            .rfind(|block| matches!(block.kind, Kind::Loop | Kind::Function));
        body.map_or(0, |block| block.number)
    }
}
