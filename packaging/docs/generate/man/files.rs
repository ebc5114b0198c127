//! The man pages of the configuration files and of the language.

use super::markdown::{inline, roff};
use super::{escaped, head};
use crate::reference::options::{Row, SECTIONS, Texts, rows};

/// Returns the man page of the configuration file of a daemon, `minion` or `master`.
///
/// # Errors
/// If the texts of the options cannot be read.
pub(crate) fn configuration(daemon: &str) -> std::io::Result<String> {
    let texts = Texts::read()?;
    let file = format!("/etc/salt/{daemon}");
    let mut page = head(
        (&format!("pinch-{daemon}"), 5),
        &format!("configuration file of the {daemon}"),
    );
    let (path, folder) = (escaped(&file), escaped(&format!("{file}.d/*.conf")));
    page.push_str(&format!(
        ".SH SYNOPSIS\n.I {path}\n.br\n.I {folder}\n.SH DESCRIPTION\nThe file is YAML: a line\n.B name: value\n\
         for each option. The files of the folder are read after it, sorted by name. An option without a default is absent.\n\
         Options with other names are ignored.\n"
    ));
    let rows = rows(&texts);
    let (own, salt): (Vec<&Row<'_>>, Vec<&Row<'_>>) = rows
        .iter()
        .filter(|row| row.is_on(daemon))
        .partition(|row| texts.is_of_pinch(row.known.name));
    page += &section("Options that Salt does not have", "", own);
    for (status, title, about) in SECTIONS {
        let rows = salt.iter().filter(|row| row.known.status == status);
        page += &section(title, about, rows.copied().collect());
    }
    Ok(page + ".SH SEE ALSO\n.BR pinch (1),\n.BR pinch\\-sls (7)\n")
}

fn section(title: &str, about: &str, rows: Vec<&Row<'_>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!(
        ".SH {}\n{}\n",
        escaped(&title.to_uppercase()),
        escaped(about)
    );
    for Row {
        known, text: doc, ..
    } in rows
    {
        let default = known.default.value();
        let default = default.map(|default| format!("default {}", value::python::repr(&default)));
        let kind = Some(known.expected()).filter(|kind| !kind.is_empty());
        let facts: Vec<String> = kind.into_iter().chain(default).collect();
        let facts = match facts.is_empty() {
            true => String::new(),
            false => escaped(&format!(" ({})", facts.join(", "))),
        };
        text += &format!(
            ".TP\n\\fB{}\\fR{facts}\n{}\n",
            escaped(known.name),
            inline(doc)
        );
    }
    text
}

/// Returns the man page of the language of SLS files, which is the page `sls.md`.
///
/// # Errors
/// If the page cannot be read.
pub(crate) fn language() -> std::io::Result<String> {
    let page = std::fs::read_to_string(crate::docs().join("sls.md"))?;
    let head = head(("pinch-sls", 7), "the language of SLS files, in one page");
    let see =
        ".SH SEE ALSO\n.BR pinch (1),\n.BR pinch\\-salt\\-call (1),\n.BR pinch\\-minion (5)\n";
    Ok(format!("{head}.SH DESCRIPTION\n{}{see}", roff(&page)))
}
