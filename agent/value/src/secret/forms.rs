//! The forms of a text after it was escaped or encoded.

use crate::PushFmt;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A function that appends one character in a certain escaped form.
type Form = fn(char, &mut String);

const FORMS: [Form; 10] = [
    |c, out| json(c, out, false),
    |c, out| json(c, out, true),
    |c, out| python(c, out, true),
    |c, out| python(c, out, false),
    yaml,
    |c, out| quotes(c, out, "''"),
    |c, out| quotes(c, out, "'\"'\"'"),
    |c, out| quotes(c, out, "'\\''"),
    percent,
    markup,
];

/// Returns the text and each different form of it, including JSON inside JSON.
pub(super) fn all_forms(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    let mut add = |form: &Form, text: &str| {
        let written = written(text, *form);
        if !all.contains(&written) {
            all.push(written);
        }
    };
    FORMS.iter().for_each(|form| add(form, text));
    // JSON or Python inside a text that is then written as JSON or Python again.
    for inner in FORMS.iter().take(4) {
        let inner = written(text, *inner);
        FORMS.iter().take(3).for_each(|form| add(form, &inner));
    }
    all
}

/// The minimum length of a base64 line to look for: a shorter last line occurs in other texts as
/// well.
const BASE64_LINE_MIN: usize = 8;

/// The line lengths of `base64` and of PEM files.
const BASE64_LINES: [usize; 2] = [76, 64];

/// Returns the parts that base64 of the text contains, alone or inside a longer text
/// (`user:password`), in the standard alphabet and the one for URLs.
///
/// Three bytes become four characters, so the encoding has three variants, depending on the number
/// of bytes before the text. The characters at the edges, which also depend on neighbouring bytes,
/// are left out: each contains at most four bits of the text.
pub(super) fn base64(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let alone = STANDARD.encode(text);
    for length in BASE64_LINES
        .into_iter()
        .filter(|length| alone.len() > *length)
    {
        let lines = alone
            .as_bytes()
            .chunks(length)
            .filter(|line| line.len() >= BASE64_LINE_MIN);
        all.extend(lines.map(|line| String::from_utf8_lossy(line).into_owned()));
    }
    all.push(alone);
    for before in 0..3 {
        let whole = STANDARD.encode([&[0].repeat(before), text.as_bytes()].concat());
        let (first, end) = ((before * 8).div_ceil(6), (before + text.len()) * 8 / 6);
        all.extend(whole.get(first..end).map(str::to_owned));
    }
    let of_urls: Vec<String> = all
        .iter()
        .map(|form| form.replace('+', "-").replace('/', "_"))
        .collect();
    all.extend(of_urls);
    all.sort_unstable();
    all.dedup();
    all
}

fn written(text: &str, form: Form) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| form(c, &mut out));
    out
}

/// Appends an escape that JSON, Python and YAML share; returns false if `c` needs none of them.
fn shared(c: char, out: &mut String) -> bool {
    let escape = match c {
        '\\' => "\\\\",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        _ => return false,
    };
    out.push_str(escape);
    true
}

fn json(c: char, out: &mut String, ascii: bool) {
    if c == '"' {
        out.push_str("\\\"");
    } else if !shared(c, out) {
        match c < ' ' || ascii && !c.is_ascii() {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_fmt(format_args!("\\u{unit:04x}"));
                }
            }
            false => out.push(c),
        }
    }
}

fn python(c: char, out: &mut String, escapes_quote: bool) {
    if c == '\'' && escapes_quote {
        out.push_str("\\'");
    } else if !shared(c, out) {
        match c.is_ascii_control() {
            true => out.push_fmt(format_args!("\\x{:02x}", u32::from(c))),
            false => out.push(c),
        }
    }
}

fn yaml(c: char, out: &mut String) {
    let code = u32::from(c);
    if c == '"' {
        out.push_str("\\\"");
    } else if !shared(c, out) {
        match code {
            0x20..=0x7e => out.push(c),
            0..=0x1f | 0x7f..=0xff => out.push_fmt(format_args!("\\x{code:02X}")),
            0x100..=0xffff => out.push_fmt(format_args!("\\u{code:04X}")),
            _ => out.push_fmt(format_args!("\\U{code:08X}")),
        }
    }
}

fn quotes(c: char, out: &mut String, quote: &str) {
    match c {
        '\'' => out.push_str(quote),
        c => out.push(c),
    }
}

/// Appends a character as in a URL.
fn percent(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~') {
        return out.push(c);
    }
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        out.push_fmt(format_args!("%{byte:02X}"));
    }
}

/// Appends a character as in XML and HTML.
fn markup(c: char, out: &mut String) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        c => out.push(c),
    }
}
