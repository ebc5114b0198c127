//! The `alias` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Value, python};

use crate::exec::aliases;

state::state_module! {
    /// Manage mail aliases.
    #[facts(effects = Effects::Files(&[]))]
    mod alias;

    /// Ensure that an alias has a target.
    ///
    ///     root:
    ///       alias.present:
    ///         - target: admin@example.com
    fn present(Present {
        /// The alias.
        name: String,
        /// The target, or a list of targets.
        target: Value,
    });

    /// Ensure that an alias does not exist.
    ///
    ///     webmaster:
    ///       alias.absent
    fn absent(Absent {
        /// The alias.
        name: String,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = &args.name;
    let target = aliases::joined(&args.target)?;
    if aliases::target_of(cx, name)? == target {
        return Ok(Ret::ok(format!("Alias {name} already present")));
    }
    let shown = python::str(&args.target);
    let would = format!("Alias {name} -> {shown} is set to be added");
    cx.apply(Ret::would(would), || {
        aliases::set(cx, name, &target)?;
        Ok(Ret::ok(format!("Set email alias {name} -> {shown}")).change("alias", name.as_str()))
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let name = &args.name;
    if aliases::target_of(cx, name)?.is_empty() {
        return Ok(Ret::ok(format!("Alias {name} already absent")));
    }
    let would = format!("Alias {name} is set to be removed");
    cx.apply(Ret::would(would), || {
        aliases::remove(cx, name)?;
        Ok(Ret::ok(format!("Removed alias {name}")).change("alias", name.as_str()))
    })
}
