//! Translates the engine's syntax errors to Jinja2's messages. This runs only after an error.

use minijinja::Error;
use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::lines::Lines;
use super::spaces;

/// The place of a token.
struct At {
    line: usize,
    end: usize,
}

type Tokens<'a> = [(Token<'a>, At)];

/// A message and its line.
type Finding = (String, usize);

/// A tag that still needs its end.
struct Open<'a> {
    tag: &'a str,
    awaited: &'static [&'static str],
}

/// Reads the tokens of a template with their lines.
fn read<'a>(
    source: &'a str,
    syntax: &SyntaxConfig,
) -> impl Iterator<Item = Result<(Token<'a>, At), Error>> + use<'a> {
    let mut lines = Lines::new(source);
    tokenize(source, false, syntax.clone()).map(move |token| {
        let (token, span) = token?;
        let line = lines.at(span.start_offset as usize);
        let end = span.end_offset as usize;
        Ok((token, At { line, end }))
    })
}

/// Returns Jinja2's message and line for a template that the engine refused with `detail` at a
/// line.
pub(super) fn explain(source: &str, syntax: &SyntaxConfig, detail: &str, line: usize) -> Finding {
    let source = &*spaces::plain(source, syntax);
    let mut tokens = Vec::new();
    for token in read(source, syntax) {
        match token {
            Ok(token) => tokens.push(token),
            Err(_) => return (unreadable(source, &tokens, detail), line),
        }
    }
    let ended = detail.contains("end of input") && !detail.ends_with("end of variable block");
    unpaired(&tokens)
        .or_else(|| misplaced(&tokens, ended).filter(|(_, found)| *found <= line || ended))
        .unwrap_or_else(|| (translated(&tokens, detail, line), line))
}

/// Returns the line where the statement of a line begins, the only line that Jinja2 knows.
pub(super) fn statement_line(source: &str, syntax: &SyntaxConfig, line: usize) -> usize {
    let source = &*spaces::plain(source, syntax);
    let mut begun = line;
    for (token, at) in read(source, syntax).map_while(Result::ok) {
        let here = at.line;
        match token {
            Token::BlockStart if here <= line => begun = here,
            Token::BlockEnd if here >= line => return begun.min(line),
            Token::BlockEnd => begun = line,
            _ if here > line && begun == line => return line,
            _ => {}
        }
    }
    line
}

/// Describes a text that cannot be split into tokens, usually because of an unterminated string.
fn unreadable(source: &str, tokens: &Tokens<'_>, detail: &str) -> String {
    let done = tokens.last().map_or(0, |(_, at)| at.end);
    let rest = source.get(done..).unwrap_or_default();
    let at = done + rest.len() - rest.trim_start().len();
    match rest.trim_start().chars().next() {
        Some('\'') => format!("unexpected char \"'\" at {at}"),
        Some(other) => format!("unexpected char '{other}' at {at}"),
        None => detail.to_owned(),
    }
}

/// Finds a bracket that closes nothing.
fn unpaired(tokens: &Tokens<'_>) -> Option<Finding> {
    let mut awaited = Vec::new();
    for (token, at) in tokens {
        let closing = match token {
            Token::BracketOpen => {
                awaited.push(']');
                continue;
            }
            Token::BraceOpen => {
                awaited.push('}');
                continue;
            }
            Token::ParenOpen => {
                awaited.push(')');
                continue;
            }
            Token::BracketClose => ']',
            Token::BraceClose => '}',
            Token::ParenClose => ')',
            _ => continue,
        };
        let line = at.line;
        match awaited.pop() {
            None => return Some((format!("unexpected '{closing}'"), line)),
            Some(other) if other != closing => {
                return Some((format!("unexpected '{closing}', expected '{other}'"), line));
            }
            Some(_) => {}
        }
    }
    None
}

/// Finds a tag that is unknown or misplaced, or a block without an end if the template `ended` too
/// early.
fn misplaced(tokens: &Tokens<'_>, ended: bool) -> Option<Finding> {
    let mut open: Vec<Open<'_>> = Vec::new();
    for (index, (token, at)) in tokens.iter().enumerate() {
        let (Token::BlockStart, Some((Token::Ident(tag), _))) = (token, tokens.get(index + 1))
        else {
            continue;
        };
        if open.last().is_some_and(|open| open.awaited.contains(tag)) {
            match (*tag, open.last_mut()) {
                ("elif", _) => {}
                ("else", Some(open)) => {
                    open.awaited = if open.tag == "if" {
                        &["endif"]
                    } else {
                        &["endfor"]
                    }
                }
                _ => {
                    open.pop();
                }
            }
        } else if let Some(awaited) = awaited(tag, tokens.get(index..).unwrap_or_default()) {
            open.push(Open { tag, awaited });
        } else if !SINGLE.contains(tag) {
            let nested = open.iter().any(|open| open.awaited.contains(tag));
            return Some((unknown(tag, &open, nested), at.line));
        }
    }
    open.last().filter(|_| ended)?;
    let line = tokens.last().map_or(1, |(_, at)| at.line);
    Some((
        format!("Unexpected end of template.{}", looking_for(&open, false)),
        line,
    ))
}

fn unknown(tag: &str, open: &[Open<'_>], nested: bool) -> String {
    format!(
        "Encountered unknown tag '{tag}'.{}",
        looking_for(open, nested)
    )
}

fn looking_for(open: &[Open<'_>], nested: bool) -> String {
    let Some(innermost) = open.last() else {
        return String::new();
    };
    let tags: Vec<String> = innermost
        .awaited
        .iter()
        .map(|tag| format!("'{tag}'"))
        .collect();
    let tags = tags.join(" or ");
    let looking = if nested {
        format!(
            "You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for {tags}."
        )
    } else {
        format!("Jinja was looking for the following tags: {tags}.")
    };
    format!(
        " {looking} The innermost block that needs to be closed is '{}'.",
        innermost.tag
    )
}

/// Tags without an end tag.
const SINGLE: &[&str] = &[
    "extends",
    "include",
    "import",
    "from",
    "do",
    "break",
    "continue",
    "set",
    "import_yaml",
    "import_json",
    "import_text",
    "raw",
    "endraw",
];

/// Returns the tags that may follow the tag at the start of the tokens.
fn awaited(tag: &str, tokens: &Tokens<'_>) -> Option<&'static [&'static str]> {
    Some(match tag {
        "if" => &["elif", "else", "endif"],
        "for" => &["endfor", "else"],
        "macro" => &["endmacro"],
        "call" => &["endcall"],
        "filter" => &["endfilter"],
        "with" => &["endwith"],
        "block" => &["endblock"],
        "autoescape" => &["endautoescape"],
        "load_yaml" | "load_json" | "load_text" => &["endload"],
        "profile" => &["endprofile"],
        "set" => {
            let inside = tokens
                .iter()
                .take_while(|(token, _)| !matches!(token, Token::BlockEnd | Token::Pipe));
            let assigns = inside
                .into_iter()
                .any(|(token, _)| matches!(token, Token::Assign));
            return (!assigns).then_some(&["endset"]);
        }
        _ => return None,
    })
}

/// Translates the engine's message about an unexpected token.
fn translated(tokens: &Tokens<'_>, detail: &str, line: usize) -> String {
    let Some(rest) = detail.strip_prefix("unexpected ") else {
        return detail.to_owned();
    };
    let (got, expected) = match rest.split_once(", expected ") {
        Some((got, expected)) => (got, Some(name(expected))),
        None => (rest, None),
    };
    let got = if got == "identifier" {
        identifier(tokens, line).unwrap_or("name")
    } else {
        name(got)
    };
    match (got, expected) {
        ("end of input", Some(expected)) => {
            format!("unexpected end of template, expected '{expected}'.")
        }
        (got, Some(expected)) if expected != "expression" => {
            format!("expected token '{expected}', got '{got}'")
        }
        ("end of statement block", _) => format!("Expected an expression, got '{got}'"),
        (got, _) => format!("unexpected '{got}'"),
    }
}

/// Returns the name at the place of an operator: the second of two operands in a row.
fn identifier<'a>(tokens: &'a Tokens<'_>, line: usize) -> Option<&'a str> {
    tokens.windows(3).find_map(|three| match three {
        [(Token::BlockStart, _), ..] => None,
        [_, (before, _), (Token::Ident(name), at)] if at.line == line => {
            let operand = matches!(
                before,
                Token::Ident(_)
                    | Token::Str(_)
                    | Token::Int(_)
                    | Token::ParenClose
                    | Token::BracketClose
            );
            operand.then_some(*name)
        }
        _ => None,
    })
}

/// Returns Jinja2's name of a token.
fn name(token: &str) -> &str {
    match token {
        "end of variable block" => "end of print statement",
        "end of block" => "end of statement block",
        "start of variable block" => "begin of print statement",
        "start of block" => "begin of statement block",
        "identifier" => "name",
        "assignment operator" => "=",
        other => other.trim_matches('`'),
    }
}
