//! Tags that become others: macros, `call`, `with`, imports, `load_*` and `profile`.

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
            // The engine keeps the arguments of outer macros only where they are named.
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

    /// `a=1, b=a`: all values are worked out before one of the names is there, as in a tuple.
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

    /// Makes `a=1, b=2` become `(a, b)=(1, 2)`.
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

    /// A block in a macro is a part of it: nothing can replace it.
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

    /// What is included in a macro sees the arguments of those around it: see `close_macro`.
    pub(super) fn include(&mut self) -> Option<()> {
        self.step();
        if let Some(open) = self.macros.last_mut() {
            open.includes = true;
        }
        self.expression()
    }

    /// The name of a template, marked unless it is imported with context.
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

    /// The engine panics on `import x as 5`: such a tag is spoilt so that its parser refuses it.
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
