//! Converts the Markdown of a page in `packaging/docs` to roff.

use super::escaped;

/// A part of a page.
enum Part<'a> {
    Heading(&'a str),
    Code(Vec<&'a str>),
    Table(Vec<&'a str>),
    Item(String),
    Text(String),
}

/// Returns the sections of a page. Its title is left out.
pub(super) fn roff(page: &str) -> String {
    parts(page).iter().map(Part::roff).collect()
}

fn parts(page: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let is_row = |line: &&str| line.starts_with('|');
        let is_block = |line: &str| {
            ["|", "```", "#", "- "]
                .iter()
                .any(|mark| line.starts_with(mark))
        };
        let continues = |line: &&str| !line.is_empty() && !is_block(line);
        let mut joined = || {
            let mut text = line.trim_start_matches("- ").to_owned();
            while let Some(more) = lines.next_if(continues) {
                text = format!("{text} {}", more.trim());
            }
            text
        };
        let part = match line {
            "" => continue,
            line if line.starts_with("# ") => continue,
            line if line.starts_with("```") => {
                let code = lines.by_ref().take_while(|line| *line != "```");
                Part::Code(code.collect())
            }
            line if line.starts_with("## ") => Part::Heading(line.trim_start_matches("## ")),
            line if line.starts_with('|') => {
                // The heading of the table and the line below it.
                lines.next();
                let mut rows = Vec::new();
                while let Some(row) = lines.next_if(is_row) {
                    rows.push(row);
                }
                Part::Table(rows)
            }
            line if line.starts_with("- ") => Part::Item(joined()),
            _ => Part::Text(joined()),
        };
        parts.push(part);
    }
    parts
}

impl Part<'_> {
    fn roff(&self) -> String {
        match self {
            Self::Heading(title) => format!(".SH {}\n", inline(&title.to_uppercase())),
            Self::Text(text) => format!(".PP\n{}\n", inline(text)),
            Self::Item(text) => format!(".IP \\(bu 2\n{}\n", inline(text)),
            Self::Code(lines) => {
                let lines = lines.iter().map(|line| format!("{}\n", escaped(line)));
                format!(".PP\n.RS 4\n.nf\n{}.fi\n.RE\n", lines.collect::<String>())
            }
            Self::Table(rows) => rows.iter().map(|row| entry(row)).collect(),
        }
    }
}

/// Returns a row of a table as an entry of a list: the first cell, and below it the others.
fn entry(row: &str) -> String {
    let cells: Vec<String> = row
        .trim_matches('|')
        .split(" | ")
        .map(|cell| inline(cell.trim()))
        .collect();
    match cells.split_first() {
        Some((first, rest)) => format!(".TP\n{first}\n{}\n", rest.join("; ")),
        None => String::new(),
    }
}

/// Returns a line with code and bold text in bold, and of links only the text.
pub(super) fn inline(text: &str) -> String {
    let mut line = String::new();
    for (at, part) in text.split('`').enumerate() {
        match at % 2 {
            0 => line.push_str(&prose(part)),
            _ => line.push_str(&format!("\\fB{}\\fR", escaped(part))),
        }
    }
    line
}

fn prose(text: &str) -> String {
    let mut line = String::new();
    for (at, part) in text.split("**").enumerate() {
        let part = escaped(&without_links(part)).replace('*', "");
        match at % 2 {
            0 => line.push_str(&part),
            _ => line.push_str(&format!("\\fB{part}\\fR")),
        }
    }
    line
}

/// Returns text with `[words](target)` replaced by the words.
fn without_links(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let link = after
            .split_once("](")
            .and_then(|(words, target)| Some((words, target.split_once(')')?.1)));
        let Some((words, after)) = link else {
            break;
        };
        kept.push_str(before);
        kept.push_str(words);
        rest = after;
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::roff;

    #[test]
    fn a_page_becomes_roff() {
        let page = "# Title\n\nFirst `a-b`\nsecond [link](x.md#y).\n\n## A part\n\n```sh\n.x\n```\n\n| a | b |\n|---|---|\n| `k` | v **w** |\n\n- item\n  more\n- other\n";
        assert_eq!(
            roff(page),
            ".PP\nFirst \\fBa\\-b\\fR second link.\n.SH A PART\n.PP\n.RS 4\n.nf\n\\&.x\n.fi\n.RE\n.TP\n\\fBk\\fR\nv \\fBw\\fR\n.IP \\(bu 2\nitem more\n.IP \\(bu 2\nother\n"
        );
    }
}
