//! A report as tables of HTML, with Salt's styles in each element: many mail programs ignore style sheets.

use value::{Map, PushFmt, Value};

use super::report::STYLE;

const TABLE: &str = "border-collapse:collapse;width:100%;";
const CELL: &str = "vertical-align:top;font-family:Helvetica,Arial,sans-serif;font-size:9pt;";
const NAME: &str = "width:70pt;";
const CONTAINER: &str = "padding:0;";

/// The lines around the first and the second cell of a row.
struct Lines {
    first: &'static str,
    second: &'static str,
}

const FIRST_ROW: Lines = Lines {
    first: "border-top:0;border-left:0;",
    second: "border-top:0;border-left:1px solid #9e9e9e;",
};
const OTHER_ROW: Lines = Lines {
    first: "border-left:0;border-top:1px solid #9e9e9e;",
    second: "border-top:1px solid #9e9e9e;border-left:1px solid #9e9e9e;",
};

/// Returns the document of a report.
pub(super) fn document(report: &Value) -> String {
    let mut out = "<html>\n<body>\n".to_owned();
    table(report.as_list().unwrap_or_default(), "", &mut out);
    out + "</body>\n</html>\n"
}

/// Returns the declarations of a style of a part.
fn declarations(style: &str) -> &'static str {
    match style {
        "unchanged" => "color:blue;",
        "changed" => "color:green",
        "failed" => "color:red;",
        _ => "",
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.push_fmt(text);
    out.push('\n');
}

/// Appends a table with a row for each part.
fn table(parts: &[Value], style: &str, out: &mut String) {
    line(out, format_args!("<table style=\"{TABLE}\">"));
    for (index, part) in parts.iter().enumerate() {
        let lines = if index == 0 { &FIRST_ROW } else { &OTHER_ROW };
        match part.as_map() {
            Some(part) => named_rows(part, lines, style, out),
            None => {
                out.push_str("<tr style=\"\">\n");
                cell(part, lines.first, style, out);
                out.push_str("</tr>\n");
            }
        }
    }
    out.push_str("</table>\n");
}

/// Appends a row with the name and the value of each key.
fn named_rows(part: &Map, lines: &Lines, style: &str, out: &mut String) {
    let style = match part.get(STYLE).and_then(Value::as_str) {
        Some(own) => declarations(own),
        None => style,
    };
    for (name, value) in part.iter().filter(|(name, _)| name.as_text() != STYLE) {
        let name = escaped(&name.as_text());
        let first = lines.first;
        out.push_str("<tr style=\"\">\n");
        line(
            out,
            format_args!("<td style=\"{CELL}{first}{NAME}{style}\">{name}</td>"),
        );
        cell(value, lines.second, style, out);
        out.push_str("</tr>\n");
    }
}

/// Appends a cell: a list is a table in it.
fn cell(value: &Value, border: &str, style: &str, out: &mut String) {
    match value.as_list() {
        Some(parts) => {
            line(
                out,
                format_args!("<td style=\"{CELL}{border}{CONTAINER}{style}\">"),
            );
            table(parts, style, out);
            out.push_str("</td>\n");
        }
        None => {
            let text = escaped(&value::python::str(value));
            line(
                out,
                format_args!("<td style=\"{CELL}{border}{style}\">{text}</td>"),
            );
        }
    }
}

/// Returns a text in which no character begins an element or ends an attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            other => out.push(other),
        }
    }
    out
}
