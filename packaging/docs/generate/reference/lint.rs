//! The page of the lint codes.

use lint::CODES;

use super::{cell, escaped, head, prose};

/// Returns the page.
pub(super) fn page() -> String {
    let about = "The findings of `pinch lint`. `pinch explain CODE` prints the same text. The letter is the severity: E is an \
                 error, W a warning, I information. A comment `# pinch: allow CODE` in a line allows the finding there.\n\n\
                 | code | name | what to do |\n|---|---|---|";
    let mut page = head("Lint codes", about);
    for row in CODES {
        let (anchor, help) = (anchor(row.code, row.name), cell(&escaped(row.help)));
        page += &format!("| [{}](#{anchor}) | {} | {help} |\n", row.code, row.name);
    }
    for row in CODES {
        let title = format!("{} {}", row.code, row.name);
        let (text, help) = (prose(row.text), escaped(row.help));
        let severity = row.severity().word();
        page += &format!("\n## {title}\n\n{text}\n\nSeverity: {severity}. What to do: {help}.\n");
    }
    page
}

/// Returns the anchor that code hosts give the heading of a code.
fn anchor(code: &str, name: &str) -> String {
    format!("{code}-{name}").to_lowercase()
}
