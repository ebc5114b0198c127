//! The `nested` outputter, which prints the returns of most functions.

use value::Value;
use value::nested::{Kind, Line};

use super::Output;
use super::color::Color;
use super::text;

/// Formats a value with every line indented by at least `indent`.
pub(crate) fn output(value: &Value, how: &Output, indent: usize, retcode: i64) -> String {
    let lines = value::nested::lines(value, indent).into_iter();
    let painted: Vec<String> = lines.map(|line| painted(line, how, retcode != 0)).collect();
    painted.join("\n")
}

/// Returns a line in its colour. Rules and keys are red if the call failed.
fn painted(line: Line, how: &Output, failed: bool) -> String {
    let color = match line.kind {
        Kind::Scalar => Color::LightYellow,
        Kind::Text => Color::Green,
        _ if failed => Color::Red,
        Kind::Rule | Kind::Key => Color::Cyan,
        Kind::Mark => Color::Green,
    };
    let words = match line.kind {
        Kind::Text if how.strip_colors => text::without_escapes(&line.text),
        _ => line.text,
    };
    let (start, end) = (color.code(how.color), Color::End.code(how.color));
    let colon = if line.kind == Kind::Key { ":" } else { "" };
    format!(
        "{:indent$}{start}{words}{end}{colon}",
        "",
        indent = line.indent
    )
}
