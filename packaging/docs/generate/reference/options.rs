//! The page of the configuration options: the tables of `cli`, with the texts of
//! `packaging/docs/options.toml`.

use cli::config::{self, KnownOption, Status};
use toml::Table;

use super::{cell, code, escaped, head};

/// The sections for Salt's options: support, heading, explanation.
pub(crate) const SECTIONS: [(Status, &str, &str); 5] = [
    (Status::Used, "Options of Salt", "They work as in Salt."),
    (
        Status::Master,
        "Options of a minion that has a master",
        "They have a meaning only with a master. Those that adjust Salt's own protocols have no effect.",
    ),
    (
        Status::Unsupported,
        "Options without an effect yet",
        "Setting one causes a warning.",
    ),
    (
        Status::Restricting,
        "Options that stop the program",
        "They forbid something in Salt, and Pinch does not support them. Setting one is an error, so that nothing runs that \
         it forbids.",
    ),
    (
        Status::Moot,
        "Options of parts that Pinch does not have",
        "They have no effect, and nothing is missing without it.",
    ),
];

/// The texts of the options.
pub(crate) struct Texts(Table);

impl Texts {
    /// Reads the texts.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub(crate) fn read() -> std::io::Result<Self> {
        let path = super::super::docs().join("options.toml");
        super::toml(&path).map(Self)
    }

    fn named(&self, part: &str, name: &str) -> Option<&str> {
        self.0.get(part)?.get(name)?.as_str()
    }

    /// Returns the text of an option of a minion, or of a master.
    fn option_text(&self, name: &str, on_master: bool) -> &str {
        let own = on_master.then(|| self.named("master", name)).flatten();
        own.or_else(|| self.named("pinch", name))
            .or_else(|| self.named("salt", name))
            .unwrap_or_default()
    }

    /// Returns whether Salt does not have the option.
    pub(crate) fn is_of_pinch(&self, name: &str) -> bool {
        self.named("pinch", name).is_some()
    }
}

/// A row of the page.
#[derive(PartialEq)]
pub(crate) struct Row<'a> {
    pub(crate) known: &'static KnownOption,
    pub(crate) text: &'a str,
    on: &'static str,
}

impl Row<'_> {
    /// Returns whether this daemon, `minion` or `master`, has the option.
    pub(crate) fn is_on(&self, daemon: &str) -> bool {
        [daemon, "both"].contains(&self.on)
    }
}

/// Returns the page.
///
/// # Errors
/// If the texts cannot be read.
pub(super) fn page() -> std::io::Result<String> {
    let texts = Texts::read()?;
    let about = "The options of the configuration files `/etc/salt/minion` and `/etc/salt/master`. \"On\" says which daemon has the \
                 option; `salt-call` reads \
                 that of the minion, and the master's commands that of the master, which may also have the other options of a \
                 minion. An option without a default is absent.";
    let mut page = head("Options", about);
    let (own, salt): (Vec<Row<'_>>, Vec<Row<'_>>) = rows(&texts)
        .into_iter()
        .partition(|row| texts.is_of_pinch(row.known.name));
    page += &section("Options that Salt does not have", "", &own);
    for (status, title, about) in SECTIONS {
        let rows = salt.iter().filter(|row| row.known.status == status);
        page += &section(title, about, rows);
    }
    Ok(page)
}

/// Returns the options of both daemons, sorted by name. An option that is the same on both has one
/// row.
pub(crate) fn rows(texts: &Texts) -> Vec<Row<'_>> {
    let row = |known: &'static KnownOption, on| Row {
        known,
        text: texts.option_text(known.name, on == "master"),
        on,
    };
    let mut rows: Vec<Row<'_>> = config::all().iter().map(|one| row(one, "minion")).collect();
    for known in config::all_of_master() {
        let own = row(known, "master");
        let same = rows
            .iter_mut()
            .find(|row| row.known == known && row.text == own.text);
        match same {
            Some(row) => row.on = "both",
            None => rows.push(own),
        }
    }
    rows.sort_by_key(|row| (row.known.name, row.on != "minion"));
    rows
}

fn section<'a>(title: &str, about: &str, rows: impl IntoIterator<Item = &'a Row<'a>>) -> String {
    let mut text = format!("\n## {title}\n");
    if !about.is_empty() {
        text += &format!("\n{about}\n");
    }
    text += "\n| option | on | type | default | meaning |\n|---|---|---|---|---|\n";
    for Row {
        known,
        text: doc,
        on,
    } in rows
    {
        let kind = match known.expected() {
            any if any.is_empty() => "any".to_owned(),
            expected => expected,
        };
        let default = known.default.value();
        let default = default.map(|default| code(&value::python::repr(&default)));
        let cells = [
            code(known.name),
            (*on).to_owned(),
            escaped(&kind),
            default.unwrap_or_default(),
            escaped(doc),
        ];
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cli::config;
    use toml::{Table, Value};

    use super::Texts;

    impl Texts {
        fn names(&self, part: &str) -> BTreeSet<&str> {
            let table = self.0.get(part).and_then(Value::as_table);
            let names = table.into_iter().flat_map(Table::keys);
            names.map(String::as_str).collect()
        }
    }

    #[test]
    fn every_option_has_exactly_one_text() -> std::io::Result<()> {
        let texts = Texts::read()?;
        let (pinch, salt) = (texts.names("pinch"), texts.names("salt"));
        let minion: BTreeSet<&str> = config::all().iter().map(|known| known.name).collect();
        let master: BTreeSet<&str> = config::all_of_master().map(|known| known.name).collect();
        let options: BTreeSet<&str> = &minion | &master;
        let both: BTreeSet<&str> = &minion & &master;
        let none = BTreeSet::new();
        assert_eq!(&options - &(&pinch | &salt), none, "options without a text");
        assert_eq!(
            &(&pinch | &salt) - &options,
            none,
            "texts without an option"
        );
        assert_eq!(&pinch & &salt, none, "options with two texts");
        assert_eq!(&texts.names("master") - &both, none, "not options of both");
        Ok(())
    }
}
