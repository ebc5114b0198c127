//! The page of the differences from Salt, from `tests/corpus/differences.toml`.

use std::path::Path;

use toml::{Table, Value};

use super::{code, escaped, head};

/// Returns the page.
///
/// # Errors
/// If the list cannot be read.
pub(super) fn page() -> std::io::Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/differences.toml");
    let list = super::toml(&path)?;
    let about = "The deliberate differences from Salt 3008.5, each with its reason. In all other respects Pinch behaves as Salt: \
                 returns, texts, output and exit codes are tested against Salt's recorded answers. `pinch migrate report` \
                 shows the differences that concern a tree. The list is \
                 [tests/corpus/differences.toml](../../../tests/corpus/differences.toml).";
    let mut page = head("Differences from Salt", about);
    page += "\n## Behaviour\n\n";
    for row in rows(&list, "deliberate") {
        let (what, reason) = (escaped(text(row, "what")), escaped(text(row, "reason")));
        page += &format!("- {what}\n  *Reason:* {reason}\n");
    }
    page += "\n## Recorded cases\n\nThe test cases in `tests/corpus` whose answer differs from Salt's.\n\n";
    for (reason, cases) in by_reason(&list) {
        page += &item(reason, cases.into_iter().map(code));
    }
    page += "\n## Arguments\n\nThe functions whose arguments differ from Salt's: `-name` is an argument that only Salt has, `+name` one that \
             only Pinch has, `name` one with another default.\n\n";
    for row in rows(&list, "signature") {
        let functions = row.get("functions").and_then(Value::as_table);
        let functions = functions.into_iter().flatten().map(|(name, words)| {
            format!(
                "{} ({})",
                code(name),
                code(words.as_str().unwrap_or_default())
            )
        });
        page += &item(text(row, "reason"), functions);
    }
    page += "\n## Functions that Salt 3008.5 lacks\n\n";
    for row in rows(&list, "not_in_salt") {
        let functions = row.get("functions").and_then(Value::as_array);
        let functions = functions.into_iter().flatten().filter_map(Value::as_str);
        page += &item(text(row, "reason"), by_module(functions).into_iter());
    }
    Ok(page)
}

/// Returns functions (`exec docker.ps`), those of a module together (`exec docker.*`) if there are
/// more than three.
fn by_module<'a>(functions: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut modules: Vec<(&str, Vec<&str>)> = Vec::new();
    for function in functions {
        let module = function.split('.').next().unwrap_or(function);
        match modules.iter_mut().find(|(known, _)| *known == module) {
            Some((_, functions)) => functions.push(function),
            None => modules.push((module, vec![function])),
        }
    }
    let names = modules
        .into_iter()
        .flat_map(|(module, functions)| match functions.len() {
            0..=3 => functions.into_iter().map(code).collect(),
            count => vec![format!(
                "{} ({count} functions)",
                code(&format!("{module}.*"))
            )],
        });
    names.collect()
}

/// Returns an item of a list: a reason, and in the next line the names that it applies to.
fn item(reason: &str, names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    format!("- {}\n  {}\n", escaped(reason), names.join(", "))
}

/// Returns the cases of each reason, in the order of the list.
fn by_reason(list: &Table) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows(list, "difference") {
        let (case, reason) = (text(row, "case"), text(row, "reason"));
        match all.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, cases)) => cases.push(case),
            None => all.push((reason, vec![case])),
        }
    }
    all
}

fn rows<'a>(list: &'a Table, name: &str) -> impl Iterator<Item = &'a Table> {
    let rows = list.get(name).and_then(Value::as_array);
    rows.into_iter().flatten().filter_map(Value::as_table)
}

fn text<'a>(row: &'a Table, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}
