//! Writes what is made from the tables of the program. It is an example of the package `pinch`, so
//! that the program does not contain it.
//!
//! - `docs` writes the reference pages, `packaging/docs/reference`. They are committed, and a test
//!   below fails if they differ from the tables.
//! - `docs DIR` writes the man pages and the completions of the program and of its applets into
//!   DIR/pinch and, for builds with a master, DIR/pinch-master. `packaging/build` runs it.
#![allow(
    clippy::disallowed_methods,
    reason = "pages are written into a folder of their own, not on a machine that is managed"
)]

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use cli::binary::{AGENT, Binary, WITH_MASTER};

mod man;
mod reference;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => write_reference(),
        [folder] if !folder.starts_with('-') => write_for_packages(Path::new(folder)),
        _ => Err(Error::new(
            ErrorKind::InvalidInput,
            "expected at most one argument: the output folder of man pages and completions",
        )),
    }
}

/// Returns the folder `packaging/docs`.
fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/docs")
}

/// Replaces the folder of the reference pages.
fn write_reference() -> std::io::Result<()> {
    let (folder, pages) = (docs().join("reference"), reference::pages()?);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(folder.join("modules"))?;
    pages
        .iter()
        .try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
}

fn write_for_packages(folder: &Path) -> std::io::Result<()> {
    write(&AGENT, &folder.join("pinch"))?;
    write(&WITH_MASTER, &folder.join("pinch-master"))
}

fn write(binary: &Binary, folder: &Path) -> std::io::Result<()> {
    let name = binary.name;
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(format!("{name}.1")), man::binary(binary))?;
    for applet in binary.applets {
        let page = folder.join(format!("{name}-{}.1", applet.name));
        std::fs::write(page, man::applet(binary, applet))?;
    }
    std::fs::write(folder.join("pinch-minion.5"), man::configuration("minion")?)?;
    if *binary == WITH_MASTER {
        std::fs::write(folder.join("pinch-master.5"), man::configuration("master")?)?;
    }
    std::fs::write(folder.join("pinch-sls.7"), man::language()?)?;
    let files = [
        ("bash", format!("{name}.bash")),
        ("fish", format!("{name}.fish")),
        ("zsh", format!("_{name}")),
    ];
    for (shell, file) in files {
        let script = cli::completion::script(shell, binary)
            .ok_or_else(|| Error::other(format!("no completion for {shell}")))?;
        std::fs::write(folder.join(file), script)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    const REWRITE: &str =
        "`cargo run -p pinch --example docs` writes packaging/docs/reference again";

    /// The committed pages by name.
    fn committed() -> BTreeMap<String, String> {
        let folder = super::docs().join("reference");
        let list = |path: &Path, prefix: &str| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let files = entries.filter(|entry| entry.path().is_file());
            let page = |entry: fs::DirEntry| {
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                (name, fs::read_to_string(entry.path()).unwrap_or_default())
            };
            files.map(page).collect::<Vec<_>>()
        };
        let mut pages = list(&folder, "");
        pages.extend(list(&folder.join("modules"), "modules/"));
        pages.into_iter().collect()
    }

    #[test]
    fn the_committed_reference_is_what_the_tables_say() -> std::io::Result<()> {
        let (made, committed) = (super::reference::pages()?, committed());
        let names = made.keys().chain(committed.keys());
        let mut differ: Vec<&str> = names
            .filter(|name| made.get(*name) != committed.get(*name))
            .map(String::as_str)
            .collect();
        differ.sort_unstable();
        differ.dedup();
        assert!(differ.is_empty(), "{differ:#?} are not current: {REWRITE}");
        Ok(())
    }
}
