//! The `alternatives` execution module: so far what reads the links.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Value, log};

/// Where the alternatives in use are linked.
const LINKS: &str = "/etc/alternatives";

state::exec_module! {
    /// The alternatives of commands (`update-alternatives`).
    mod alternatives;

    /// What an alternative points to now; False when there is none of that name.
    fn show_current(ShowCurrent {
        /// Its name, such as `editor`.
        name: String,
    });

    /// Whether an alternative points to a path now.
    fn check_installed(CheckInstalled {
        /// Its name.
        name: String,
        /// The path.
        path: String,
    });
}

fn show_current(_: &Exec, args: ShowCurrent) -> Result<Value, Error> {
    let current = current(Path::new(LINKS), &args.name);
    if current.is_none() {
        log::error(format_args!("alternative: {} does not exist", args.name));
    }
    Ok(current.map_or(Value::Bool(false), Value::from))
}

fn check_installed(_: &Exec, args: CheckInstalled) -> Result<Value, Error> {
    let current = current(Path::new(LINKS), &args.name);
    Ok((current.as_deref() == Some(&args.path)).into())
}

fn current(links: &Path, name: &str) -> Option<String> {
    let target = std::fs::read_link(links.join(name)).ok()?;
    Some(target.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alternative_is_what_its_link_says() {
        let links = std::env::temp_dir().join(format!("alternatives-{}", std::process::id()));
        std::fs::create_dir_all(&links).unwrap();
        std::os::unix::fs::symlink("/usr/bin/vim.tiny", links.join("editor")).unwrap();
        let found = (current(&links, "editor"), current(&links, "pager"));
        std::fs::remove_dir_all(&links).unwrap();
        assert_eq!(found, (Some("/usr/bin/vim.tiny".to_owned()), None));
    }
}
