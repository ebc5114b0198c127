//! Turns a Salt template into one that minijinja runs, by edits between tokens: no line ever moves.
//!
//! The one file that drives minijinja's unstable tokenizer.
//! - List and dictionary literals and what `set` assigns become containers that can be changed (`__m`).
//! - `a ~ b` and `a % b` become the filters `__cat` and `__mod`, which know Python's texts.
//! - `do`, `load_*`, `import_*` and `profile` become what they stand for.
//! - An import without context goes through `__plain`; macros that use `varargs` or `kwargs` through `__macro`.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::edits::Edits;
use super::reached::Branches;

/// Deeper expressions are left to the parser, which refuses them.
const DEPTH_MAX: usize = 150;

/// Rewrites a template. With a number, every piece of output is marked with it and its line: see `trace`.
/// What cannot be read is handed on as it is, for the parser to complain about.
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

/// A macro whose end has not come yet.
struct Macro<'a> {
    name: &'a str,
    arguments: Vec<&'a str>,
    /// Where its list of arguments ends, and what goes before one more.
    end: usize,
    comma: &'static str,
    takes_more: bool,
}

struct Walker<'a> {
    source: &'a str,
    tokens: Vec<(Token<'a>, Span)>,
    at: usize,
    depth: usize,
    macros: Vec<Macro<'a>>,
    edits: Edits,
    marks: Option<u32>,
    /// The branches, where somebody wants to know which are reached.
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

    /// Where the token that comes next begins.
    fn start(&self) -> usize {
        self.tokens
            .get(self.at)
            .map_or(self.source.len(), |(_, span)| span.start_offset as usize)
    }

    /// Where the token before it ended.
    fn end(&self) -> usize {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.map_or(0, |(_, span)| span.end_offset as usize)
    }

    fn step(&mut self) {
        self.at += 1;
    }

    /// Replaces the token that comes next and steps over it.
    fn replace(&mut self, text: &str) {
        if let Some((_, span)) = self.tokens.get(self.at) {
            self.edits.instead.insert(
                span.start_offset as usize,
                (span.end_offset as usize, text.to_owned()),
            );
        }
        self.step();
    }

    /// Puts `open` and `close` around what was read since `start`.
    fn wrap(&mut self, start: usize, open: &str, close: &str) {
        self.edits.before(start, open);
        self.edits.after(self.end(), close);
    }

    fn template(&mut self) -> Option<()> {
        while let Some((token, span)) = self.tokens.get(self.at) {
            let line = span.start_line;
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

    fn branch(&mut self, word: &str, line: u16) {
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
        let before = self.source.get(..start).unwrap_or_default();
        let first = before.matches('\n').count() + 1;
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

    fn mark_expression(&mut self, line: u16) {
        if let Some(number) = self.marks {
            let mark = super::trace::mark(number, line.into());
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
            "include" | "extends" => {
                self.step();
                self.expression()?;
            }
            "for" => self.for_loop()?,
            "macro" => self.open_macro()?,
            "endmacro" => self.close_macro(),
            "call" => self.call()?,
            "filter" => {
                self.step();
                self.filter_name()?;
                self.filters()?;
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
            _ => self.filters()?,
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

    fn open_macro(&mut self) -> Option<()> {
        self.step();
        let name = self.word()?;
        self.step();
        if !matches!(self.token()?, Token::ParenOpen) {
            return Some(());
        }
        let arguments = self.parameters()?;
        let comma = if arguments.is_empty()
            || matches!(self.tokens.get(self.at.checked_sub(2)?)?.0, Token::Comma)
        {
            ""
        } else {
            ", "
        };
        let end = self.end().checked_sub(1)?;
        self.macros.push(Macro {
            name,
            arguments,
            end,
            comma,
            takes_more: false,
        });
        Some(())
    }

    /// `(a, b=1)`: the names. A default that uses an earlier argument moves behind the list,
    /// because the engine fills in the last one first.
    fn parameters(&mut self) -> Option<Vec<&'a str>> {
        let mut names = Vec::new();
        let mut moved = String::new();
        self.step();
        while !matches!(self.token()?, Token::ParenClose) {
            let name = self.word()?;
            self.step();
            if matches!(self.token()?, Token::Assign) {
                match self.dependent_default(&names) {
                    Some(default) => moved.push_str(&format!(
                        " %}}{{% if {name} is undefined %}}{{% set {name} = ({default}) %}}{{% endif"
                    )),
                    None => {
                        self.step();
                        self.expression()?;
                    }
                }
            }
            names.push(name);
            if matches!(self.token()?, Token::Comma) {
                self.step();
            }
        }
        self.step();
        let end = self.end();
        self.edits.after(end, &moved);
        Some(names)
    }

    /// Takes out a default that uses one of the arguments before it.
    fn dependent_default(&mut self, names: &[&str]) -> Option<String> {
        let (first, start) = (self.at, self.start());
        let kept = self.edits.clone();
        self.step();
        let read = self.expression();
        let uses = |(token, _): &(Token<'_>, Span)| matches!(token, Token::Ident(name) if names.contains(name));
        let dependent = self.tokens.get(first..self.at)?.iter().any(uses);
        self.edits = kept;
        if read.is_none() || !dependent {
            self.at = first;
            return None;
        }
        let end = self.end();
        // The parser wants a default here when an earlier argument has one; no variable has this name.
        self.edits
            .instead
            .insert(start, (end, "=__later".to_owned()));
        Some(self.source.get(start + 1..end)?.to_owned())
    }

    fn close_macro(&mut self) {
        self.step();
        while self.word().is_some() {
            self.step();
        }
        let Some(closed) = self.macros.pop() else {
            return;
        };
        if closed.takes_more {
            self.edits.after(
                closed.end,
                &format!("{}varargs=__later, kwargs=__later", closed.comma),
            );
        }
        let names: Vec<String> = closed
            .arguments
            .iter()
            .map(|name| format!(", \"{name}\""))
            .collect();
        let (name, more) = (closed.name, closed.takes_more);
        let text = format!(
            " %}}{{% set {name} = {name}|__macro(\"{name}\", {more}{})",
            names.concat()
        );
        self.edits.after(self.end(), &text);
    }

    fn call(&mut self) -> Option<()> {
        self.step();
        if matches!(self.token()?, Token::ParenOpen) {
            self.parameters()?;
        }
        self.expression()
    }

    fn with(&mut self) -> Option<()> {
        self.step();
        while !matches!(self.token()?, Token::BlockEnd) {
            while !matches!(self.token()?, Token::Assign) {
                if matches!(self.token()?, Token::BlockEnd) {
                    return Some(());
                }
                self.step();
            }
            self.step();
            let start = self.start();
            self.expression()?;
            self.wrap(start, "(", ")|__m");
            if matches!(self.token()?, Token::Comma) {
                self.step();
            }
        }
        Some(())
    }

    /// The name of a template, marked unless it is imported with context.
    fn import(&mut self) -> Option<()> {
        let start = self.start();
        self.expression()?;
        let end = self.end();
        let mut with_context = false;
        while !matches!(self.token()?, Token::BlockEnd) {
            with_context |= self.is_word("with");
            self.step();
        }
        if !with_context {
            self.edits.before(start, "(");
            self.edits.after(end, ")|__plain");
        }
        Some(())
    }

    /// The engine panics on `import x as 5`: such a tag is spoilt so that its parser refuses it.
    fn check_alias(&mut self, begin: usize) {
        let inside = self.tokens.get(begin..self.at).unwrap_or_default();
        let at = inside
            .iter()
            .rposition(|(token, _)| matches!(token, Token::Ident("as")));
        let constants = ["true", "True", "false", "False", "none", "None"];
        let good = match at.and_then(|at| inside.get(at + 1..)) {
            None => true,
            Some([(Token::Ident(name), _)]) => !constants.contains(name),
            Some(
                [
                    (Token::Ident(name), _),
                    (Token::Ident("with" | "without"), _),
                    ..,
                ],
            ) => !constants.contains(name),
            Some(_) => false,
        };
        if !good {
            let end = self.end();
            self.edits.after(end, " )");
        }
    }

    fn import_data(&mut self, word: &str) -> Option<()> {
        self.replace("import");
        let begin = self.at;
        self.import()?;
        self.check_alias(begin);
        let end = self.at;
        let is_as = |at: usize| matches!(self.tokens.get(at), Some((Token::Ident("as"), _)));
        let name_at = (begin..end).rev().find(|at| is_as(*at))? + 1;
        let Some((Token::Ident(name), _)) = self.tokens.get(name_at) else {
            return None;
        };
        let loader = word.strip_prefix("import_")?;
        let text = format!(" %}}{{% set {name} = {name}|load_{loader}");
        self.edits.after(self.end(), &text);
        Some(())
    }

    fn load_data(&mut self, word: &str) {
        if !matches!(self.ahead(1), Some(Token::Ident("as"))) {
            return;
        }
        self.replace("set");
        self.replace("");
        while matches!(self.token(), Some(Token::Ident(_) | Token::Dot)) {
            self.step();
        }
        self.edits
            .after(self.end(), &format!(" | {word} %}}{{% with"));
    }

    fn profile(&mut self) -> Option<()> {
        self.replace("with __profile =");
        if self.is_word("as") {
            self.replace("");
        }
        self.expression()
    }

    /// One expression, or several with commas, which become a tuple between `open` and `close`.
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
        // The engine orders everything; Python does not.
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

    /// The comparison that comes next and how many tokens it has.
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
        self.concat()?;
        while matches!(self.token(), Some(Token::Plus | Token::Minus)) {
            self.step();
            self.concat()?;
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
        self.operand()?;
        self.filters()
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

    /// Expressions with commas and colons between them up to the closing bracket, which is stepped over.
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

    fn filters(&mut self) -> Option<()> {
        loop {
            if matches!(self.token(), Some(Token::Pipe)) {
                self.step();
                self.filter_name()?;
            } else if self.is_word("is") {
                self.step();
                self.test()?;
            } else if matches!(self.token(), Some(Token::ParenOpen)) {
                // `x|f(1)(2)`: the parser has no such thing.
                return None;
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
