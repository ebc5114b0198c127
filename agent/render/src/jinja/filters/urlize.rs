//! The filter `urlize`: marks the links in a text, which it finds with Jinja2's regular
//! expressions.

use std::sync::OnceLock;

use ::value::pyre::{Anchor, Flags, Regex, Subject};
use minijinja::{Error, State, Value};

use super::super::args::{self, Args};
use super::super::errors::runtime_error;
use super::builtin::escaped;

const HTTP: &str = r"(?i)^((https?://|www\.)(([\w%-]+\.)+)?([a-z]{2,63}|xn--[\w%]{2,59})|([\w%-]{2,63}\.)+(com|net|int|edu|gov|org|info|mil)|(https?://)((([\d]{1,3})(\.[\d]{1,3}){3})|(\[([\da-f]{0,4}:){2}([\da-f]{0,4}:?){1,6}])))(?::[\d]{1,5})?(?:[/?#]\S*)?$";
const MAIL: &str = r"^\S+@\w[\w.-]*\.\w+$";

fn is_match(regex: &'static OnceLock<Option<Regex>>, pattern: &str, text: &str) -> bool {
    let compile = || Regex::compiled(pattern, Flags::NONE, Subject::Text, Anchor::Start).ok();
    let regex = regex.get_or_init(compile).as_ref();
    regex.is_some_and(|regex| regex.is_match(text).unwrap_or(false))
}

fn is_http(text: &str) -> bool {
    static REGEX: OnceLock<Option<Regex>> = OnceLock::new();
    is_match(&REGEX, HTTP, text)
}

fn is_mail(text: &str) -> bool {
    static REGEX: OnceLock<Option<Regex>> = OnceLock::new();
    is_match(&REGEX, MAIL, text)
}

/// The format of links.
struct Links {
    limit: Option<usize>,
    /// The attributes `rel` and `target`.
    attributes: String,
    schemes: Vec<String>,
}

/// Evaluates `urlize(trim_url_limit, nofollow, target, rel, extra_schemes)`.
pub(super) fn urlize(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let text = escaped(&args.text(0, "value")?);
    let given = |at, name| args.at(at, name).filter(|value| !value.is_none());
    let limit = given(1, "trim_url_limit").map(args::int).transpose()?;
    let rel = args.text_or(4, "rel", "")?;
    let mut rel: Vec<&str> = rel.split_whitespace().chain(["noopener"]).collect();
    if args.flag(2, "nofollow", false) {
        rel.push("nofollow");
    }
    rel.sort_unstable();
    rel.dedup();
    let mut attributes = format!(" rel=\"{}\"", escaped(&rel.join(" ")));
    let target = args.text_or(3, "target", "")?;
    if !target.is_empty() {
        attributes.push_str(&format!(" target=\"{}\"", escaped(&target)));
    }
    let links = Links {
        limit: limit.map(|limit| usize::try_from(limit).unwrap_or(0)),
        attributes,
        schemes: schemes(given(5, "extra_schemes"))?,
    };
    Ok(Value::from(links.in_text(&text)))
}

fn schemes(given: Option<&Value>) -> Result<Vec<String>, Error> {
    let Some(given) = given else {
        return Ok(Vec::new());
    };
    let schemes: Vec<String> = args::items(given)?
        .iter()
        .map(ToString::to_string)
        .collect();
    let good = |scheme: &&String| {
        let name = scheme.split(':').next().unwrap_or_default();
        scheme.contains(':') && !name.is_empty()
    };
    match schemes.iter().find(|scheme| !good(scheme)) {
        Some(bad) => Err(runtime_error(format!(
            "'{bad}' is not a valid URI scheme prefix."
        ))),
        None => Ok(schemes),
    }
}

impl Links {
    fn in_text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut word = String::new();
        for c in text.chars() {
            if c.is_whitespace() {
                out.push_str(&self.in_word(&word));
                word.clear();
                out.push(c);
            } else {
                word.push(c);
            }
        }
        out + &self.in_word(&word)
    }

    fn in_word(&self, word: &str) -> String {
        let middle = trimmed(word, &["(", "<", "&lt;"], str::strip_prefix);
        let head = word.get(..word.len() - middle.len()).unwrap_or_default();
        let inner = trimmed(middle, &[")", ">", ".", ",", "&gt;"], str::strip_suffix);
        let (middle, tail) = balanced(middle, inner.len());
        format!("{head}{}{tail}", self.link(middle))
    }

    fn link(&self, text: &str) -> String {
        let Self { attributes, .. } = self;
        if is_http(text) {
            let is_whole = text.starts_with("https://") || text.starts_with("http://");
            let scheme = if is_whole { "" } else { "https://" };
            let shown = self.display_text(text);
            return format!("<a href=\"{scheme}{text}\"{attributes}>{shown}</a>");
        }
        if let Some(address) = text.strip_prefix("mailto:").filter(|text| is_mail(text)) {
            return format!("<a href=\"{text}\">{address}</a>");
        }
        if !text.starts_with("www.")
            && !text.starts_with('@')
            && !text.contains(':')
            && is_mail(text)
        {
            return format!("<a href=\"mailto:{text}\">{text}</a>");
        }
        let has_scheme = |scheme: &String| text != scheme && text.starts_with(scheme.as_str());
        match self.schemes.iter().any(has_scheme) {
            true => format!("<a href=\"{text}\"{attributes}>{text}</a>"),
            false => text.to_owned(),
        }
    }

    fn display_text(&self, url: &str) -> String {
        match self.limit.filter(|limit| url.chars().count() > *limit) {
            Some(limit) => url.chars().take(limit).chain("...".chars()).collect(),
            None => url.to_owned(),
        }
    }
}

/// Returns the text without any of these strings at one end.
fn trimmed<'a>(
    text: &'a str,
    ends: &[&'static str],
    strip: fn(&'a str, &'static str) -> Option<&'a str>,
) -> &'a str {
    let mut rest = text;
    while let Some(shorter) = ends.iter().find_map(|end| strip(rest, end)) {
        rest = shorter;
    }
    rest
}

/// Splits a word after its link: a bracket that closes one inside the link belongs to the link.
fn balanced(word: &str, mut end: usize) -> (&str, &str) {
    for (open, close) in [("(", ")"), ("<", ">"), ("&lt;", "&gt;")] {
        let (inside, tail) = word.split_at_checked(end).unwrap_or_default();
        let opened = inside.matches(open).count();
        if opened <= inside.matches(close).count() {
            continue;
        }
        let closing = tail.match_indices(close).take(opened).last();
        end += closing.map_or(0, |(at, close)| at + close.len());
    }
    word.split_at_checked(end).unwrap_or((word, ""))
}
