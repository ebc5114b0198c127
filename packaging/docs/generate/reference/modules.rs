//! A page for each name of a module: its states, execution functions, runners and wheel functions,
//! from the declarations that `sys.doc` shows.

use std::collections::BTreeMap;

use state::module::{Arg, Extra, Function, Module};

use super::{cell, code, escaped, first, head, prose};

/// A kind of modules, with the words of the pages.
#[derive(Clone, Copy)]
struct Kind {
    /// The heading of its section.
    title: &'static str,
    /// Its name in the index.
    name: &'static str,
    /// The language of its examples.
    language: &'static str,
    /// The note at functions that the table of a machine without a daemon or master lacks.
    elsewhere: &'static str,
}

const STATES: Kind = Kind {
    title: "States",
    name: "states",
    language: "yaml",
    elsewhere: "",
};
const FUNCTIONS: Kind = Kind {
    title: "Execution functions",
    name: "execution",
    language: "bash",
    elsewhere: "It needs the daemon `salt-minion`.",
};
const RUNNERS: Kind = Kind {
    title: "Runners",
    name: "runner",
    language: "bash",
    elsewhere: "It needs a master.",
};
const WHEEL: Kind = Kind {
    title: "Wheel functions",
    name: "wheel",
    language: "bash",
    elsewhere: "",
};

/// The wheel functions that only a master has, with the arguments of their examples. Their table has
/// no texts, since no program prints them.
const WHEEL_OF_MASTER: [(&str, &str, &str); 10] = [
    (
        "key.finger",
        " match='web*'",
        "Return the fingerprints of keys, by status.",
    ),
    (
        "key.finger_master",
        "",
        "Return the fingerprint of the master's own key.",
    ),
    (
        "key.gen",
        " id_=web1",
        "Generate a key pair and return it. It is not stored.",
    ),
    (
        "key.gen_accept",
        " id_=web1",
        "Generate a key pair, accept its public key for an id, and return both.",
    ),
    (
        "key.gen_keys",
        " keyname=web1",
        "Generate a key pair in files of `pki_dir` or of the folder `keydir` in it, and return the fingerprint of its public key. If the files exist, their key is not changed. The default of `keyname` is `minion`.",
    ),
    (
        "key.key_str",
        " match=web1",
        "Return public keys. This is another name of `key.print`.",
    ),
    (
        "key.list_match",
        " match=web1,web2",
        "Return the keys with these exact ids, by status.",
    ),
    ("key.master_key_str", "", "Return the master's public key."),
    (
        "key.rotate_master",
        " action=look",
        "Begin a rotation of the master's key, or continue one, and return its state. The action `look` changes nothing, `finish` uses the next key now, and `cancel` deletes it.",
    ),
    (
        "minions.connected",
        "",
        "Return the ids of the minions that are connected to the master or to another master of its cluster.",
    ),
];

/// The documentation of the wheel module that only a master has.
const MINIONS_OF_MASTER: &str = "Report the connections of minions.";

/// One kind of a name: the heading, the module's documentation, and its functions by name.
struct Section {
    kind: Kind,
    doc: &'static str,
    functions: BTreeMap<&'static str, String>,
}

/// Returns the page of each name, and the index.
pub(super) fn pages() -> BTreeMap<String, String> {
    let own = &::modules::REGISTRY;
    let mut names = BTreeMap::new();
    add(&mut names, STATES, own.states, own.states);
    let functions = minion::registry().functions;
    add(&mut names, FUNCTIONS, functions, own.functions);
    add(&mut names, RUNNERS, master::registry().runners, own.runners);
    add(&mut names, WHEEL, own.wheel, own.wheel);
    add_wheel_of_master(&mut names);
    let mut pages: BTreeMap<String, String> = names
        .iter()
        .map(|(name, sections)| (format!("modules/{name}.md"), page(name, sections)))
        .collect();
    pages.insert("modules/README.md".to_owned(), index(&names));
    pages
}

type Names = BTreeMap<&'static str, Vec<Section>>;

/// Adds the functions of one kind. A module can have several parts in a table; the first of two
/// functions with the same name counts.
fn add<R>(names: &mut Names, kind: Kind, all: &[Module<R>], own: &[Module<R>]) {
    for module in all {
        let sections = names.entry(module.name).or_default();
        if sections
            .last()
            .is_none_or(|last| last.kind.title != kind.title)
        {
            sections.push(Section {
                kind,
                doc: module.doc,
                functions: BTreeMap::new(),
            });
        }
        let Some(section) = sections.last_mut() else {
            continue;
        };
        for function in module.functions {
            let parts = own.iter().filter(|part| part.name == module.name);
            let here = parts
                .flat_map(|part| part.functions)
                .any(|known| known.name == function.name);
            let note = if here { "" } else { kind.elsewhere };
            let text = || described(kind, module.name, function, note);
            section.functions.entry(function.name).or_insert_with(text);
        }
    }
}

/// Adds the wheel functions that only a master has.
fn add_wheel_of_master(names: &mut Names) {
    for (module, name, args, required) in master::wheel() {
        let sections = names.entry(module).or_default();
        if sections
            .last()
            .is_none_or(|last| last.kind.title != WHEEL.title)
        {
            sections.push(Section {
                kind: WHEEL,
                doc: MINIONS_OF_MASTER,
                functions: BTreeMap::new(),
            });
        }
        let text = || {
            let full = format!("{module}.{name}");
            let known = WHEEL_OF_MASTER.iter().find(|(known, ..)| *known == full);
            let (_, given, doc) = known.copied().unwrap_or_default();
            let call = format!("salt-run state.orchestrate_single salt.wheel {full}{given}");
            let doc = fenced(&format!("{doc}\n\n    {call}"), WHEEL.language);
            let rows = args.iter().enumerate().map(|(at, arg)| {
                let default = if at < required { "required" } else { "" };
                format!("| `{arg}` | {default} | |\n")
            });
            let heading = heading(module, name, &doc, "It needs a master.");
            heading + &table(rows.collect())
        };
        if let Some(section) = sections.last_mut() {
            section.functions.entry(name).or_insert_with(text);
        }
    }
}

fn index(names: &Names) -> String {
    let functions = names.values().flatten().map(|part| part.functions.len());
    let about = format!(
        "The {} modules of Pinch with their {} functions. `sys.doc`, `sys.state_doc` and `sys.runner_doc` show the \
         same texts on a machine. A module is available only on machines that have its program; \
         `sys.list_functions` and `sys.list_state_functions` list those of a machine.\n\n\
         | module | kinds | task |\n|---|---|---|",
        names.len(),
        functions.sum::<usize>(),
    );
    let mut page = head("Modules", &about);
    for (name, sections) in names {
        let kinds: Vec<&str> = sections.iter().map(|section| section.kind.name).collect();
        let doc = sections.first().map(|section| first(section.doc));
        page += &format!(
            "| [{name}]({name}.md) | {} | {} |\n",
            kinds.join(", "),
            cell(&escaped(&doc.unwrap_or_default()))
        );
    }
    page
}

fn page(name: &str, sections: &[Section]) -> String {
    let mut page = head(&code(name), "[All modules](README.md)");
    for section in sections {
        let doc = prose(&unindented(section.doc));
        page += &format!("\n## {}\n\n{doc}\n", section.kind.title);
        section.functions.values().for_each(|text| page += text);
    }
    page
}

/// Returns the part of a page about one function.
fn described<R>(kind: Kind, module: &str, function: &Function<R>, note: &str) -> String {
    let mut rows: Vec<String> = function.args.iter().map(row).collect();
    if function.varargs {
        rows.push("| `*args` | | More positional arguments. |\n".to_owned());
    }
    if function.extra == Extra::Accept {
        rows.push("| `**kwargs` | | More keyword arguments. |\n".to_owned());
    }
    let doc = fenced(&unindented(function.doc), kind.language);
    heading(module, function.name, &doc, note) + &table(rows)
}

fn heading(module: &str, function: &str, doc: &str, note: &str) -> String {
    let full = code(&format!("{module}.{function}"));
    let mut text = format!("\n### {full}\n\n{doc}\n");
    if !note.is_empty() {
        text += &format!("\n{note}\n");
    }
    text
}

fn table(rows: Vec<String>) -> String {
    match rows.is_empty() {
        true => String::new(),
        false => format!(
            "\n| argument | default | meaning |\n|---|---|---|\n{}",
            rows.concat()
        ),
    }
}

fn row(arg: &Arg) -> String {
    let default = match arg.default {
        Some(default) => code(&value::python::repr(&default())),
        None => "required".to_owned(),
    };
    let doc = escaped(&cell(arg.doc));
    format!("| `{}` | {} | {doc} |\n", arg.name, cell(&default))
}

/// Returns a documentation without the space at the beginning of its lines, and without the line
/// that marks code in Salt's own texts.
fn unindented(doc: &str) -> String {
    let lines = doc.lines();
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let lines = lines.filter(|line| !line.starts_with(".. code-block::"));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Returns a documentation as Markdown, with its examples in fences of this language.
fn fenced(doc: &str, language: &str) -> String {
    let mut page = String::new();
    let mut is_code = false;
    for line in prose(doc).lines() {
        let code = line.strip_prefix("    ");
        match (is_code, code) {
            (false, Some(_)) => page += &format!("```{language}\n"),
            (true, None) => page += "```\n",
            _ => {}
        }
        is_code = code.is_some();
        page += code.unwrap_or(line);
        page.push('\n');
    }
    page += if is_code { "```" } else { "" };
    page.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_wheel_function_of_the_master_has_a_text() {
        let declared = ::modules::REGISTRY.wheel.iter();
        let declared: Vec<String> = declared
            .flat_map(|module| {
                let functions = module.functions.iter();
                functions.map(|function| format!("{}.{}", module.name, function.name))
            })
            .collect();
        let own = super::WHEEL_OF_MASTER.map(|(name, ..)| name);
        for (module, name, ..) in master::wheel() {
            let full = format!("{module}.{name}");
            let has_text = own.contains(&full.as_str());
            assert!(declared.contains(&full) != has_text, "{full}");
            let is_known = ::modules::loader::absent::WHEEL.contains(&full.as_str());
            assert_eq!(is_known, has_text, "{full}");
        }
    }
}
