//! The `alternatives` state module. Salt 3008 no longer has it; the returns are those of Salt's
//! last version of it.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::alternatives::{change, current_of, display_text, exists, is_listed};

state::state_module! {
    /// The alternatives of commands (`update-alternatives`).
    mod alternatives;

    /// Make sure that an alternative is registered.
    ///
    ///     editor:
    ///       alternatives.install:
    ///         - link: /usr/bin/editor
    ///         - path: /usr/bin/vim.basic
    ///         - priority: 60
    fn install(Install {
        /// The name of the alternative, such as `pager`.
        name: String,
        /// The generic link, such as `/usr/bin/pager`.
        link: String,
        /// The path to register for the link, such as `/usr/bin/less`.
        path: String,
        /// The priority. In automatic mode the link points to the registered path with the highest
        /// one.
        priority: i64,
    });

    /// Make sure that an alternative is not registered.
    ///
    ///     editor:
    ///       alternatives.remove:
    ///         - path: /usr/bin/vim.tiny
    fn remove(Remove {
        /// The name of the alternative.
        name: String,
        /// The path to unregister.
        path: String,
    });

    /// Make sure that an alternative is in automatic mode: it points to the path with the highest
    /// priority.
    ///
    ///     editor:
    ///       alternatives.auto
    fn auto(Auto {
        /// The name of the alternative.
        name: String,
    });

    /// Make sure that an alternative points to a path.
    ///
    ///     editor:
    ///       alternatives.set:
    ///         - path: /usr/bin/vim.basic
    fn set(Set {
        /// The name of the alternative.
        name: String,
        /// The path. It must be registered already.
        path: String,
    });
}

fn install(cx: &Exec, args: Install) -> Result<Ret, Error> {
    let (link, path) = (args.link.clone(), args.path.clone());
    let priority = args.priority;
    let ret = installed(cx, args)?;
    let ret = ret.with("link", link).with("path", path);
    Ok(ret.with("priority", priority))
}

fn installed(cx: &Exec, args: Install) -> Result<Ret, Error> {
    let (name, link, path, priority) = (&args.name, &args.link, &args.path, args.priority);
    if exists(cx, name, path)? {
        return Ok(Ret::ok(format!(
            "Alternative {path} for {name} is already registered"
        )));
    }
    let changed = |ret: Ret| {
        ret.change("name", name.as_str())
            .change("link", link.as_str())
            .change("path", path.as_str())
            .change("priority", priority)
    };
    let would = format!("Alternative will be set for {name} to {path} with priority {priority}");
    cx.apply(Ret::would(would), || {
        let number = priority.to_string();
        let said = change(cx, &["--install", link, name, path, &number])?;
        if !exists(cx, name, path)? {
            let why = format!("Alternative for {name} not installed: {said}");
            return Ok(Ret::failed(why));
        }
        let comment = match current_of(name)?.as_deref() == Some(path.as_str()) {
            true => format!("Alternative for {name} set to path {path} with priority {priority}"),
            false => format!(
                "Alternative {path} for {name} registered with priority {priority} and not set to default"
            ),
        };
        Ok(changed(Ret::ok(comment)))
    })
}

fn remove(cx: &Exec, args: Remove) -> Result<Ret, Error> {
    let ret = removed(cx, &args.name, &args.path)?;
    Ok(ret.with("path", args.path))
}

fn removed(cx: &Exec, name: &str, path: &str) -> Result<Ret, Error> {
    if !exists(cx, name, path)? {
        return Ok(match current_of(name)? {
            Some(current) => Ret::ok(format!(
                "Alternative for {name} is set to it's default path {current}"
            )),
            None => Ret::failed(format!("Alternative for {name} doesn't exist")),
        });
    }
    let would = Ret::would(format!("Alternative for {name} will be removed"));
    cx.apply(would, || {
        let said = change(cx, &["--remove", name, path])?;
        if exists(cx, name, path)? {
            let why = format!("Alternative for {name} not removed: {said}");
            return Ok(Ret::failed(why));
        }
        Ok(match current_of(name)? {
            Some(current) => Ret::ok(format!(
                "Alternative for {name} removed. Falling back to path {current}"
            ))
            .change("path", current),
            None => Ret::ok(format!("Alternative for {name} removed")),
        })
    })
}

fn auto(cx: &Exec, args: Auto) -> Result<Ret, Error> {
    let name = &args.name;
    let before = display_text(cx, name)?;
    let first = before.lines().next().unwrap_or_default();
    if first.ends_with(" auto mode") {
        return Ok(Ret::ok(format!("{name} already in auto mode")));
    }
    if !first.ends_with(" manual mode") && !first.contains("status is manual") {
        return Ok(Ret::failed(before));
    }
    let would = Ret::would(format!("{name} will be put in auto mode"));
    cx.apply(would, || {
        let said = change(cx, &["--auto", name])?;
        Ok(Ret::ok("").change("result", said))
    })
}

fn set(cx: &Exec, args: Set) -> Result<Ret, Error> {
    let ret = chosen(cx, &args.name, &args.path)?;
    Ok(ret.with("path", args.path))
}

fn chosen(cx: &Exec, name: &str, path: &str) -> Result<Ret, Error> {
    if current_of(name)?.as_deref() == Some(path) {
        return Ok(Ret::ok(format!(
            "Alternative for {name} already set to {path}"
        )));
    }
    if !is_listed(&display_text(cx, name)?, path) {
        return Ok(Ret::failed(format!(
            "Alternative {path} for {name} doesn't exist"
        )));
    }
    let would = format!("Alternative for {name} will be set to path {path}");
    cx.apply(Ret::would(would), || {
        let said = change(cx, &["--set", name, path])?;
        match current_of(name)?.as_deref() == Some(path) {
            true => Ok(
                Ret::ok(format!("Alternative for {name} set to path {path}")).change("path", path),
            ),
            false => Ok(Ret::failed(format!(
                "Alternative for {name} not updated: {said}"
            ))),
        }
    })
}
