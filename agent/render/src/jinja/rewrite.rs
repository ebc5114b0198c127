//! Rewrites a Salt template to one that minijinja runs, by edits between tokens; no line moves.
//!
//! This is the only file that uses minijinja's unstable tokenizer.
//! - List and dictionary literals, and values that `set` assigns, become containers that can be
//!   changed (`__m`).
//! - `a ~ b` and `a % b` become the filters `__cat` and `__mod`, which handle Python's texts;
//!   `a + b` becomes `__add`, which handles lists.
//! - `do`, `load_*`, `import_*` and `profile` are replaced by equivalent tags.
//! - An import without context uses `__plain`; macros that use `varargs` or `kwargs` use `__macro`.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::edits::Edits;
use super::lines::Lines;
use super::reached::Branches;

mod tags;

/// The maximum depth of an expression; deeper ones are left to the parser, which refuses them.
const DEPTH_MAX: usize = 150;

/// Rewrites a template. With a number, every piece of output is marked with this number and its
/// line: see `trace`. An unreadable template is returned unchanged, so that the parser reports the
/// error.
pub(super) fn rewrite(
    source: &str,
    syntax: &SyntaxConfig,
    marks: Option<u32>,
    branches: Option<Branches<'_>>,
) -> String {
    let Ok(tokens) = tokenize(source, false, syntax.clone()).collect::<Result<Vec<_>, _>>() else {
        return source.to_owned();
    };
    let mut walker = Walker {
        source,
        lines: Lines::new(source),
        tokens,
        at: 0,
        depth: 0,
        macros: Vec::new(),
        edits: Edits::default(),
        marks,
        branches,
    };
    if walker.template().is_none() {
        return source.to_owned();
    }
    if let Some(branches) = walker.branches {
        branches.keep();
    }
    walker.edits.apply(source)
}

/// A macro whose end has not been read yet.
struct Macro<'a> {
    name: &'a str,
    arguments: Vec<&'a str>,
    /// The end of its argument list, and the text to insert before one more argument.
    end: usize,
    comma: &'static str,
    takes_more: bool,
    /// True if it includes another template.
    includes: bool,
}

struct Walker<'a> {
    source: &'a str,
    lines: Lines<'a>,
    tokens: Vec<(Token<'a>, Span)>,
    at: usize,
    depth: usize,
    macros: Vec<Macro<'a>>,
    edits: Edits,
    marks: Option<u32>,
    /// The branches, if they are recorded.
    branches: Option<Branches<'a>>,
}

impl<'a> Walker<'a> {
    fn token(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn ahead(&self, by: usize) -> Option<&Token<'a>> {
        self.tokens.get(self.at + by).map(|(token, _)| token)
    }

    fn word(&self) -> Option<&'a str> {
        match self.token() {
            Some(Token::Ident(word)) => Some(*word),
            _ => None,
        }
    }

    fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    /// Returns the start of the next token.
    fn start(&self) -> usize {
        self.tokens
            .get(self.at)
            .map_or(self.source.len(), |(_, span)| span.start_offset as usize)
    }

    /// Returns the end of the previous token.
    fn end(&self) -> usize {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.map_or(0, |(_, span)| span.end_offset as usize)
    }

    fn step(&mut self) {
        self.at += 1;
    }

    /// Replaces the next token and skips it.
    fn replace(&mut self, text: &str) {
        if let Some((_, span)) = self.tokens.get(self.at) {
            self.edits.instead.insert(
                span.start_offset as usize,
                (span.end_offset as usize, text.to_owned()),
            );
        }
        self.step();
    }

    /// Puts `open` and `close` around the text that was read since `start`.
    fn wrap(&mut self, start: usize, open: &str, close: &str) {
        self.edits.before(start, open);
        self.edits.after(self.end(), close);
    }

    fn template(&mut self) -> Option<()> {
        while let Some((token, span)) = self.tokens.get(self.at) {
            let line = self.lines.at(span.start_offset as usize);
            match token {
                Token::TemplateData(text) => {
                    let text: &'a str = text;
                    self.mark_text(text);
                    self.step();
                }
                Token::VariableStart => {
                    self.step();
                    self.mark_expression(line);
                    self.tuple("(", ")")?;
                    self.skip_to_end();
                }
                Token::BlockStart => {
                    self.step();
                    let word = self.word();
                    self.statement()?;
                    self.skip_to_end();
                    self.branch(word.unwrap_or_default(), line);
                }
                _ => self.step(),
            }
        }
        Some(())
    }

    fn branch(&mut self, word: &str, line: usize) {
        let end = self.end();
        let text = self.source.get(..end).unwrap_or_default();
        let branches = self.branches.as_mut();
        if let Some(note) = branches.and_then(|branches| branches.tag(word, line, text)) {
            self.edits.after(end, &note);
        }
    }

    fn skip_to_end(&mut self) {
        while let Some(token) = self.token() {
            if matches!(
                token,
                Token::BlockStart | Token::VariableStart | Token::TemplateData(_)
            ) {
                return;
            }
            self.step();
        }
    }

    fn mark_text(&mut self, text: &'a str) {
        let Some(number) = self.marks else { return };
        let start = (text.as_ptr() as usize).saturating_sub(self.source.as_ptr() as usize);
        let first = self.lines.at(start);
        let mut offset = start;
        for (line, piece) in (first..).zip(text.split_inclusive('\n')) {
            let blank = piece.len() - piece.trim_start().len();
            if blank < piece.len() {
                let mark = super::trace::mark(number, line);
                self.edits.before(offset + blank, &mark);
            }
            offset += piece.len();
        }
    }

    fn mark_expression(&mut self, line: usize) {
        if let Some(number) = self.marks {
            let mark = super::trace::mark(number, line);
            let end = self.end();
            self.edits.after(end, &format!(" \"{mark}\" }}}}{{{{ "));
        }
    }

    fn statement(&mut self) -> Option<()> {
        let Some(word) = self.word() else {
            return Some(());
        };
        match word {
            "set" => self.set()?,
            "do" => {
                self.replace("set __do = ");
                self.tuple("(", ")")?;
            }
            "if" | "elif" => {
                self.step();
                self.tuple("(", ")")?;
            }
            "include" => self.include()?,
            "extends" => {
                self.step();
                self.expression()?;
            }
            "for" => self.for_loop()?,
            "block" | "endblock" => self.block(),
            "macro" => self.open_macro()?,
            "endmacro" => self.close_macro(),
            "call" => self.call()?,
            "filter" => {
                self.step();
                self.filter_name()?;
                self.filters(None)?;
            }
            "with" => self.with()?,
            "from" => {
                self.step();
                self.import()?;
            }
            "import" => {
                self.step();
                let begin = self.at;
                self.import()?;
                self.check_alias(begin);
            }
            "import_yaml" | "import_json" | "import_text" => self.import_data(word)?,
            "load_yaml" | "load_json" | "load_text" => self.load_data(word),
            "endload" => self.replace("endwith %}{% endset"),
            "profile" => self.profile()?,
            "endprofile" => self.replace("endwith"),
            _ => {}
        }
        Some(())
    }

    fn set(&mut self) -> Option<()> {
        self.step();
        while !matches!(self.token()?, Token::Assign | Token::Pipe | Token::BlockEnd) {
            self.step();
        }
        match self.token()? {
            Token::Assign => {
                self.step();
                let plain = matches!(
                    self.token()?,
                    Token::Str(_) | Token::Int(_) | Token::Float(_)
                ) && matches!(self.ahead(1), Some(Token::BlockEnd));
                let start = self.start();
                self.tuple("", "")?;
                if !plain {
                    self.wrap(start, "(", ")|__m");
                }
            }
            _ => self.filters(None)?,
        }
        Some(())
    }

    fn for_loop(&mut self) -> Option<()> {
        self.step();
        while !self.is_word("in") {
            if matches!(self.token()?, Token::BlockEnd) {
                return Some(());
            }
            self.step();
        }
        self.step();
        let start = self.start();
        self.or()?;
        if matches!(self.token()?, Token::Comma) {
            while matches!(self.token()?, Token::Comma) {
                self.step();
                self.or()?;
            }
            self.wrap(start, "(", ")");
        }
        self.wrap(start, "(", ")|__iter");
        if self.is_word("if") {
            self.step();
            self.expression()?;
        }
        Some(())
    }

    /// Reads one expression, or several with commas, which become a tuple between `open` and
    /// `close`.
    fn tuple(&mut self, open: &str, close: &str) -> Option<()> {
        let start = self.start();
        self.expression()?;
        let mut many = false;
        while matches!(self.token(), Some(Token::Comma)) {
            many = true;
            self.step();
            if matches!(self.token(), Some(Token::BlockEnd | Token::VariableEnd)) {
                break;
            }
            self.expression()?;
        }
        if many && !open.is_empty() {
            self.wrap(start, open, close);
        }
        Some(())
    }

    fn expression(&mut self) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        self.or()?;
        while self.is_word("if") {
            self.step();
            self.or()?;
            if self.is_word("else") {
                self.step();
                self.expression()?;
            }
        }
        self.depth -= 1;
        Some(())
    }

    fn or(&mut self) -> Option<()> {
        self.not()?;
        while self.is_word("or") || self.is_word("and") {
            self.step();
            self.not()?;
        }
        Some(())
    }

    fn not(&mut self) -> Option<()> {
        while self.is_word("not") {
            self.step();
        }
        self.compare()
    }

    fn compare(&mut self) -> Option<()> {
        let start = self.start();
        self.sum()?;
        let mut operators = Vec::new();
        while let Some((operator, tokens)) = self.operator() {
            operators.push((self.at, operator, tokens));
            self.at += tokens;
            self.sum()?;
        }
        let ordered = |(_, operator, _): &(usize, &str, usize)| operator.starts_with(['<', '>']);
        if !operators.iter().any(ordered) {
            return Some(());
        }
        // The engine can order any two values; Python cannot.
        for (index, (at, operator, tokens)) in operators.into_iter().enumerate() {
            let close = if index == 0 { ")|__compare(" } else { "), " };
            let (first, last) = (self.tokens.get(at)?, self.tokens.get(at + tokens - 1)?);
            let text = format!("{close}\"{operator}\", (");
            self.edits.instead.insert(
                first.1.start_offset as usize,
                (last.1.end_offset as usize, text),
            );
        }
        self.wrap(start, "((", ")))");
        Some(())
    }

    /// Returns the next comparison operator and its number of tokens.
    fn operator(&self) -> Option<(&'static str, usize)> {
        Some(match self.token()? {
            Token::Eq => ("==", 1),
            Token::Ne => ("!=", 1),
            Token::Lt => ("<", 1),
            Token::Lte => ("<=", 1),
            Token::Gt => (">", 1),
            Token::Gte => (">=", 1),
            Token::Ident("in") => ("in", 1),
            Token::Ident("not") if matches!(self.ahead(1), Some(Token::Ident("in"))) => {
                ("not in", 2)
            }
            _ => return None,
        })
    }

    fn sum(&mut self) -> Option<()> {
        let start = self.start();
        self.concat()?;
        while let Some(sign @ (Token::Plus | Token::Minus)) = self.token() {
            let is_plus = matches!(sign, Token::Plus);
            // A number is never added to a list or a safe text, so the faster operator of the
            // engine is used.
            let is_list = !matches!(self.ahead(1), Some(Token::Int(_) | Token::Float(_)));
            if is_plus && is_list {
                self.replace(")|__add(");
                self.concat()?;
                self.wrap(start, "((", "))");
            } else {
                self.step();
                self.concat()?;
            }
        }
        Some(())
    }

    fn concat(&mut self) -> Option<()> {
        let start = self.start();
        self.product()?;
        if !matches!(self.token(), Some(Token::Tilde)) {
            return Some(());
        }
        self.replace(")|__cat(");
        self.product()?;
        while matches!(self.token(), Some(Token::Tilde)) {
            self.replace(",");
            self.product()?;
        }
        self.wrap(start, "((", "))");
        Some(())
    }

    fn product(&mut self) -> Option<()> {
        let start = self.start();
        self.power()?;
        loop {
            match self.token() {
                Some(Token::Mul | Token::Div | Token::FloorDiv) => {
                    self.step();
                    self.power()?;
                }
                Some(Token::Mod) => {
                    self.replace(")|__mod(");
                    self.power()?;
                    self.wrap(start, "((", "))");
                }
                _ => return Some(()),
            }
        }
    }

    fn power(&mut self) -> Option<()> {
        self.unary()?;
        while matches!(self.token(), Some(Token::Pow)) {
            self.step();
            self.unary()?;
        }
        Some(())
    }

    fn unary(&mut self) -> Option<()> {
        let start = self.start();
        self.operand()?;
        self.filters(Some(start))
    }

    fn operand(&mut self) -> Option<()> {
        while let Some(sign @ (Token::Minus | Token::Plus)) = self.token() {
            if matches!(sign, Token::Plus) {
                self.replace("");
            } else {
                self.step();
            }
        }
        self.primary()?;
        self.postfix()
    }

    fn primary(&mut self) -> Option<()> {
        let start = self.start();
        match self.token()? {
            Token::Ident(name) => {
                if matches!(*name, "varargs" | "kwargs") {
                    for open in &mut self.macros {
                        open.takes_more = true;
                    }
                }
                self.step();
            }
            Token::Str(_) | Token::String(_) => {
                while matches!(self.token(), Some(Token::Str(_) | Token::String(_))) {
                    self.step();
                }
            }
            Token::Int(_) | Token::Int128(_) | Token::Float(_) => self.step(),
            Token::ParenOpen => {
                self.step();
                self.elements(|token| matches!(token, Token::ParenClose))?;
            }
            Token::BracketOpen => {
                self.step();
                self.elements(|token| matches!(token, Token::BracketClose))?;
                self.wrap(start, "(", "|__m)");
            }
            Token::BraceOpen => {
                self.step();
                self.elements(|token| matches!(token, Token::BraceClose))?;
                self.wrap(start, "(", "|__m)");
            }
            _ => return None,
        }
        Some(())
    }

    /// Reads expressions, commas and colons up to and including the closing bracket.
    fn elements(&mut self, closes: impl Fn(&Token<'_>) -> bool) -> Option<()> {
        while !closes(self.token()?) {
            match self.token()? {
                Token::Comma | Token::Colon | Token::Mul | Token::Pow => self.step(),
                Token::Ident(_) if matches!(self.ahead(1), Some(Token::Assign)) => {
                    self.step();
                    self.step();
                }
                _ => self.expression()?,
            }
        }
        self.step();
        Some(())
    }

    fn postfix(&mut self) -> Option<()> {
        loop {
            match self.token() {
                Some(Token::Dot) => {
                    self.step();
                    self.step();
                }
                Some(Token::BracketOpen) => {
                    self.step();
                    self.elements(|token| matches!(token, Token::BracketClose))?;
                }
                Some(Token::ParenOpen) => {
                    self.step();
                    self.elements(|token| matches!(token, Token::ParenClose))?;
                }
                _ => return Some(()),
            }
        }
    }

    /// Reads filters, tests and calls of their results, after an operand that began at `start`.
    fn filters(&mut self, start: Option<usize>) -> Option<()> {
        loop {
            if matches!(self.token(), Some(Token::Pipe)) {
                self.step();
                self.filter_name()?;
            } else if self.is_word("is") {
                self.step();
                self.test()?;
            } else if matches!(self.token(), Some(Token::ParenOpen)) {
                // `x|f(1)(2)`: the parser supports calls of operands only.
                self.wrap(start?, "(", ")");
                self.step();
                self.elements(|token| matches!(token, Token::ParenClose))?;
            } else {
                return Some(());
            }
        }
    }

    fn filter_name(&mut self) -> Option<()> {
        self.word()?;
        self.step();
        while matches!(self.token(), Some(Token::Dot)) {
            self.step();
            self.step();
        }
        if matches!(self.token(), Some(Token::ParenOpen)) {
            self.step();
            self.elements(|token| matches!(token, Token::ParenClose))?;
        }
        Some(())
    }

    fn test(&mut self) -> Option<()> {
        if self.is_word("not") {
            self.step();
        }
        self.word()?;
        self.step();
        match self.token()? {
            Token::ParenOpen => {
                self.step();
                self.elements(|token| matches!(token, Token::ParenClose))
            }
            Token::Ident("and" | "or" | "else" | "is" | "if" | "not" | "in") => Some(()),
            Token::Ident(_)
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_)
            | Token::BracketOpen
            | Token::BraceOpen => self.operand(),
            _ => Some(()),
        }
    }
}
