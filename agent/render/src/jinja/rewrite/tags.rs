//! Rewrites tags: macros, `call`, `with`, imports, `load_*` and `profile`.

use minijinja::machinery::{Span, Token};

use super::{Macro, Walker};

impl<'a> Walker<'a> {
    pub(super) fn open_macro(&mut self) -> Option<()> {
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
            includes: false,
        });
        Some(())
    }

    /// Reads `(a, b=1)` and returns the names. A default that uses an earlier argument moves behind
    /// the list, because the engine evaluates the last default first.
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

    /// Removes and returns a default that uses one of the arguments before it.
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
        // The parser requires a default here if an earlier argument has one; no variable has this
        // name.
        self.edits
            .instead
            .insert(start, (end, "=__later".to_owned()));
        Some(self.source.get(start + 1..end)?.to_owned())
    }

    pub(super) fn close_macro(&mut self) {
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
        let outer = self.macros.iter().flat_map(|open| &open.arguments);
        let outer: Vec<&str> = outer.copied().collect();
        if closed.includes && !outer.is_empty() {
            // The engine makes arguments of outer macros available only if the macro names them.
            let text = format!(" %}}{{% set __do = ''|__seen({})", outer.join(", "));
            self.edits.after(closed.end + 1, &text);
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

    pub(super) fn call(&mut self) -> Option<()> {
        self.step();
        if matches!(self.token()?, Token::ParenOpen) {
            self.parameters()?;
        }
        self.expression()
    }

    /// Rewrites `a=1, b=a`: as in a tuple, all values are evaluated before any of the names is set.
    pub(super) fn with(&mut self) -> Option<()> {
        self.step();
        let (mut names, mut places) = (Vec::new(), Vec::new());
        while let Some(name) = self.word() {
            let place = self.start();
            self.step();
            if !matches!(self.token()?, Token::Assign) {
                return Some(());
            }
            self.step();
            names.push(name);
            places.push((place, self.end()));
            let start = self.start();
            self.expression()?;
            self.wrap(start, "(", ")|__m");
            if matches!(self.token()?, Token::Comma) {
                self.step();
            }
        }
        if names.len() > 1 {
            self.in_a_tuple(&names, &places);
        }
        Some(())
    }

    /// Rewrites `a=1, b=2` to `(a, b)=(1, 2)`.
    fn in_a_tuple(&mut self, names: &[&str], places: &[(usize, usize)]) {
        for (index, (start, end)) in places.iter().enumerate() {
            let written = self.source.get(*start..*end).unwrap_or_default();
            let lines = "\n".repeat(written.matches('\n').count());
            let text = match index {
                0 => format!("({}) =({lines}", names.join(", ")),
                _ => lines,
            };
            self.edits.instead.insert(*start, (*end, text));
        }
        let end = self.end();
        self.edits.after(end, ")");
    }

    /// Rewrites a block in a macro to an `if`: it is a part of the macro and cannot be replaced.
    pub(super) fn block(&mut self) {
        let is_end = self.is_word("endblock");
        if self.macros.is_empty() {
            return;
        }
        self.replace(if is_end { "endif" } else { "if true" });
        while self.word().is_some() {
            self.replace("");
        }
    }

    /// Reads an include. A template that is included in a macro sees the arguments of the
    /// surrounding macros: see `close_macro`.
    pub(super) fn include(&mut self) -> Option<()> {
        self.step();
        if let Some(open) = self.macros.last_mut() {
            open.includes = true;
        }
        self.expression()
    }

    /// Reads the name of a template, and marks it unless it is imported with context.
    pub(super) fn import(&mut self) -> Option<()> {
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

    /// Spoils a tag such as `import x as 5`, so that the parser refuses it: the engine would panic.
    pub(super) fn check_alias(&mut self, begin: usize) {
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

    pub(super) fn import_data(&mut self, word: &str) -> Option<()> {
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

    pub(super) fn load_data(&mut self, word: &str) {
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

    pub(super) fn profile(&mut self) -> Option<()> {
        self.replace("with __profile =");
        if self.is_word("as") {
            self.replace("");
        }
        self.expression()
    }
}
