//! [`Advice`]: the cause of an error in a text, in words for its author, and the remedy. YAML's own
//! messages name the token that the parser did not expect, which is often not the mistake.

use crate::error::Place;
use crate::yaml::{Error, Mark};

/// The cause of an error and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The cause. `{line}` is replaced by the number of the line.
    pub cause: String,
    /// The remedy: an instruction.
    pub remedy: String,
}

impl Advice {
    /// Creates an advice.
    #[must_use]
    pub fn new(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            remedy: remedy.into(),
        }
    }

    /// Inserts the number of the line, or "the line" if it is unknown.
    #[must_use]
    pub(crate) fn at_line(self, line: Option<u32>) -> Self {
        let line = line.map_or_else(|| "the line".to_owned(), |line| format!("line {line}"));
        Self {
            cause: self.cause.replace("{line}", &line),
            ..self
        }
    }
}

/// The advice for a YAML error, and the place of the mistake.
type Found = (Advice, Mark);

/// Returns the advice for a YAML error in `text`, and the place of the mistake.
pub(crate) fn for_yaml(error: &Error, text: &str) -> Option<Found> {
    let lines: Vec<&str> = text.lines().collect();
    let page = Page { lines, error };
    let context = error.context.as_ref();
    let problem = error.problem.as_str();
    match problem {
        "found character that cannot start any token" => page.tab().or_else(|| page.reserved()),
        "found undefined alias" => page.reserved(),
        "mapping values are not allowed in this context" => page.value(),
        "could not find expected ':'" => page.no_colon(context?.1.line),
        "found unexpected end of stream" => page.open_quote(context?.1),
        "did not find expected '-' indicator" => page.no_dash().or_else(|| page.indentation()),
        "did not find expected key" => {
            let tab = page.tab();
            tab.or_else(|| page.after_quote())
                .or_else(|| page.indentation())
        }
        _ if problem.starts_with("could not determine a constructor for the tag") => {
            page.reserved()
        }
        "did not find expected ',' or ']'" | "did not find expected ',' or '}'" => {
            page.open_bracket(context?.1)
        }
        _ => None,
    }
}

/// The lines of a text with an error.
struct Page<'a> {
    lines: Vec<&'a str>,
    error: &'a Error,
}

impl Page<'_> {
    fn line(&self, number: u32) -> Option<&str> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.lines.get(index).copied()
    }

    /// Returns the text of the error's line before its column, and from its column on.
    fn split(&self) -> Option<(String, String)> {
        let line = self.line(self.error.line)?;
        let column = usize::try_from(self.error.column).ok()?.checked_sub(1)?;
        let (before, after) = (line.chars().take(column), line.chars().skip(column));
        Some((before.collect(), after.collect()))
    }

    /// Returns the number and the text of the last line before `number` that has contents.
    fn above(&self, number: u32) -> Option<(u32, &str)> {
        (1..number).rev().find_map(|number| {
            let line = self.line(number)?;
            let text = line.trim_start();
            (!text.is_empty() && !text.starts_with('#')).then_some((number, line))
        })
    }

    fn tab(&self) -> Option<Found> {
        let line = self.line(self.error.line)?;
        let white = line.chars().take_while(|c| c.is_whitespace());
        let tab = white.into_iter().position(|c| c == '\t');
        let remedy = "replace the tab with spaces, two for each level";
        let (cause, column) = match tab {
            Some(0) => ("{line} begins with a tab; YAML accepts spaces only", 1),
            Some(column) => (
                "the indentation of {line} contains a tab; YAML accepts spaces only",
                column + 1,
            ),
            None if self.split()?.1.starts_with('\t') => (
                "{line} contains a tab before a value; YAML accepts spaces only",
                usize::try_from(self.error.column).ok()?,
            ),
            None => return None,
        };
        let column = u32::try_from(column).ok()?;
        Some((Advice::new(cause, remedy), self.on_line(column)))
    }

    fn on_line(&self, column: u32) -> Mark {
        let line = self.error.line;
        Mark { line, column }
    }

    /// A value that begins with a character that has a meaning in YAML.
    fn reserved(&self) -> Option<Found> {
        let (_, value) = self.split()?;
        let value = value.trim_end();
        let first = value.chars().next()?;
        let cause = format!("the value begins with {first}, which has a meaning in YAML");
        let remedy = format!("put the value in quotes: {}", quoted(value));
        Some((Advice::new(cause, remedy), self.error.mark()))
    }

    /// A colon that begins a value where none can be.
    fn value(&self) -> Option<Found> {
        let (before, after) = self.split()?;
        let item = before.trim_start().trim_start_matches("- ");
        if let Some((key, rest)) = item.split_once(": ") {
            let value = format!("{rest}{after}");
            let cause = format!("the value of '{key}' contains a colon and a space");
            let remedy = format!("put the value in quotes: {key}: {}", quoted(value.trim()));
            return Some((Advice::new(cause, remedy), self.error.mark()));
        }
        let (number, above) = self.above(self.error.line)?;
        let text = above.trim_end();
        if text.contains(": ") {
            let spaces = indentation(above);
            let cause = "{line} is indented more than the line above, which has a value already";
            let remedy = format!("indent it like the line above: {}", count(spaces));
            let column = column_of(&before);
            return Some((Advice::new(cause, remedy), self.on_line(column)));
        }
        self.no_colon(number)
    }

    /// A line whose key has no colon.
    fn no_colon(&self, number: u32) -> Option<Found> {
        let line = self.line(number)?.trim_end();
        let text = line.trim_start();
        let key = text.trim_start_matches("- ");
        let dash = text.strip_suffix(key)?;
        let cause = format!("'{key}' has no colon");
        let remedy = match key.split_once(' ') {
            Some((name, value)) if is_word(name) => {
                format!("write {dash}{name}: {}", value.trim_start())
            }
            _ => format!("write {dash}{key}:"),
        };
        let column = u32::try_from(line.chars().count() + 1).ok()?;
        let mark = Mark {
            line: number,
            column,
        };
        Some((Advice::new(cause, remedy), mark))
    }

    fn open_quote(&self, start: Mark) -> Option<Found> {
        let line = self.line(start.line)?;
        let at = usize::try_from(start.column).ok()?.checked_sub(1)?;
        let quote = line.chars().nth(at)?;
        let cause = format!("the quote {quote} that begins here is not closed");
        let remedy = format!("add the closing quote {quote} at the end of the value");
        Some((Advice::new(cause, remedy), start))
    }

    fn open_bracket(&self, start: Mark) -> Option<Found> {
        let line = self.line(start.line)?;
        let at = usize::try_from(start.column).ok()?.checked_sub(1)?;
        let value: String = line.chars().skip(at).collect();
        let (open, close) = match value.chars().next()? {
            '[' => ('[', ']'),
            _ => ('{', '}'),
        };
        let cause = format!("the value begins with {open} and has no {close} where it ends");
        let value = quoted(value.trim_end());
        let remedy = format!("add {close}, or put the value in quotes: {value}");
        Some((Advice::new(cause, remedy), start))
    }

    /// Text that follows a closing quote.
    fn after_quote(&self) -> Option<Found> {
        let (before, after) = self.split()?;
        let item = before.trim();
        let quote = item.chars().last().filter(|c| matches!(c, '"' | '\''))?;
        let value = item.split_once(": ").map_or(item, |(_, value)| value);
        let cause = format!("text follows the closing quote {quote}");
        let value = quoted(&format!("{value} {}", after.trim()));
        let remedy = format!("put the whole value in quotes: {value}");
        Some((Advice::new(cause, remedy), self.error.mark()))
    }

    /// An item of a list that has no dash.
    fn no_dash(&self) -> Option<Found> {
        let (before, after) = self.split()?;
        let text = after.trim_end();
        if !before.trim().is_empty() || text.starts_with("- ") {
            return None;
        }
        let spaces = before.chars().count();
        let above = self.item_above()?;
        if above != spaces {
            return None;
        }
        let cause = "{line} is part of a list and has no dash";
        let remedy = format!("write - {text}");
        Some((Advice::new(cause, remedy), self.error.mark()))
    }

    /// Returns the indentation of the next list item above the error.
    fn item_above(&self) -> Option<usize> {
        let mut number = self.error.line;
        while let Some((above, line)) = self.above(number) {
            if line.trim_start().starts_with("- ") {
                return Some(indentation(line));
            }
            number = above;
        }
        None
    }

    /// A line whose indentation is that of no line above it.
    fn indentation(&self) -> Option<Found> {
        let (before, after) = self.split()?;
        if !before.trim().is_empty() {
            return None;
        }
        let spaces = before.chars().count();
        let is_item = after.starts_with("- ");
        let cause = format!(
            "{{line}} has the wrong indentation: {}, unlike the lines above",
            count(spaces)
        );
        let remedy = match self
            .item_above()
            .filter(|above| is_item && *above != spaces)
        {
            Some(above) => format!("indent it like the item above: {}", count(above)),
            None => {
                let levels = self.levels(is_item);
                let near = levels.iter().min_by_key(|level| level.abs_diff(spaces))?;
                format!("indent it like its neighbours above: {}", count(*near))
            }
        };
        Some((Advice::new(cause, remedy), self.error.mark()))
    }

    /// Returns the indentations of the lines above the error that are still open.
    fn levels(&self, is_item: bool) -> Vec<usize> {
        let mut levels: Vec<usize> = Vec::new();
        let mut number = self.error.line;
        while let Some((above, line)) = self.above(number) {
            let spaces = indentation(line);
            let is_open = levels.last().is_none_or(|last| spaces < *last);
            if is_open && line.trim_start().starts_with("- ") == is_item {
                levels.push(spaces);
            }
            number = above;
        }
        levels
    }
}

fn indentation(line: &str) -> usize {
    line.chars().take_while(|c| *c == ' ').count()
}

/// Returns the column of the first character of a text that is not white.
fn column_of(text: &str) -> u32 {
    u32::try_from(indentation(text) + 1).unwrap_or(1)
}

fn count(spaces: usize) -> String {
    match spaces {
        0 => "no spaces".to_owned(),
        1 => "1 space".to_owned(),
        spaces => format!("{spaces} spaces"),
    }
}

fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns a value in single quotes.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// Returns the advice for a variable that a template uses and that does not exist. `sentence` is
/// Salt's.
pub(crate) fn for_variable(sentence: &str, place: &Place) -> Option<Advice> {
    if let Some((name, _)) = sentence.split_once("' is undefined") {
        let name = name.trim_start_matches('\'');
        let cause = format!("the variable '{name}' is not defined");
        let remedy = format!(
            "define it with {{% set {name} = … %}}, import it, or give it a default: {{{{ {name} | default('…') }}}}"
        );
        return is_word(name).then(|| Advice::new(cause, remedy));
    }
    let (_, name) = sentence.split_once(" has no attribute '")?;
    let name = name.split('\'').next()?;
    ["pillar", "grains"].iter().find_map(|root| {
        let keys = keys_of(&place.source, root, name)?;
        let at = keys.iter().position(|key| key == name)?;
        let missing = keys.get(..=at)?.join(":");
        let (path, function) = match *root {
            "pillar" => (keys.join(":"), "pillar.get"),
            _ => (keys.join(":"), "grains.get"),
        };
        let cause = match *root {
            "pillar" => format!("the pillar has no key '{missing}'"),
            _ => format!("this minion has no grain '{missing}'"),
        };
        let remedy = format!(
            "define it ({root}.items shows all), or give a default: salt['{function}']('{path}', '…')"
        );
        Some(Advice::new(cause, remedy))
    })
}

/// Returns the keys of the look-up in a line that begins with `root` and contains `name`, such as
/// `pillar.a['b']`.
fn keys_of(line: &str, root: &str, name: &str) -> Option<Vec<String>> {
    line.match_indices(root).find_map(|(at, _)| {
        let rest = line.get(at + root.len()..)?;
        let is_key =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '[' | ']' | '\'' | '"');
        let rest = rest.split(|c| !is_key(c)).next()?;
        let parts = rest.split(['.', '[']);
        let parts = parts.map(|key| key.trim_matches([']', '"', '\'']).to_owned());
        let keys: Vec<String> = parts.filter(|key| !key.is_empty()).collect();
        keys.iter().any(|key| key == name).then_some(keys)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn advice(text: &str) -> String {
        let error = yaml::load_rendered(text).unwrap_err();
        let (advice, mark) = for_yaml(&error, text).unwrap();
        let advice = advice.at_line(Some(mark.line));
        let (line, column) = (mark.line, mark.column);
        format!("{line}:{column} {}; {}", advice.cause, advice.remedy)
    }

    #[test]
    fn an_error_of_yaml_is_explained_by_its_cause() {
        for (text, want) in [
            (
                "a:\n\tb: 1\n",
                "2:1 line 2 begins with a tab; YAML accepts spaces only; replace the tab with spaces, two for each level",
            ),
            (
                "a:\n  b:\n  \t- c: 1\n",
                "3:3 the indentation of line 3 contains a tab; YAML accepts spaces only; replace the tab with spaces, two for each level",
            ),
            (
                "a:\n  - b: @c\n",
                "2:8 the value begins with @, which has a meaning in YAML; put the value in quotes: '@c'",
            ),
            (
                "a:\n  - b: *c\n",
                "2:8 the value begins with *, which has a meaning in YAML; put the value in quotes: '*c'",
            ),
            (
                "a:\n  - b: c: d\n",
                "2:9 the value of 'b' contains a colon and a space; put the value in quotes: b: 'c: d'",
            ),
            (
                "a:\n  test.nop\n    - name: x\n",
                "2:11 'test.nop' has no colon; write test.nop:",
            ),
            (
                "a\n  test.nop:\n    - name: x\n",
                "1:2 'a' has no colon; write a:",
            ),
            (
                "a: x\n   b: y\n",
                "2:4 line 2 is indented more than the line above, which has a value already; indent it like the line above: no spaces",
            ),
            (
                "a:\n  - b: \"c\n",
                "2:8 the quote \" that begins here is not closed; add the closing quote \" at the end of the value",
            ),
            (
                "a:\n  - b: \"c\" d\n",
                "2:12 text follows the closing quote \"; put the whole value in quotes: '\"c\" d'",
            ),
            (
                "a:\n    - b: 1\n   - c: 2\n",
                "3:4 line 3 has the wrong indentation: 3 spaces, unlike the lines above; indent it like the item above: 4 spaces",
            ),
            (
                "a:\n  b:\n    - c: 1\n d: 2\n",
                "4:2 line 4 has the wrong indentation: 1 space, unlike the lines above; indent it like its neighbours above: 2 spaces",
            ),
            (
                "- a: 1\nb: 2\n",
                "2:1 line 2 is part of a list and has no dash; write - b: 2",
            ),
            (
                "a:\n  - b: 1\n  c: 2\n",
                "3:3 line 3 is part of a list and has no dash; write - c: 2",
            ),
            (
                "a:\n  - b: [c\n",
                "2:8 the value begins with [ and has no ] where it ends; add ], or put the value in quotes: '[c'",
            ),
        ] {
            assert_eq!(advice(text), want, "{text}");
        }
    }
}
