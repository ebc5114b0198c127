//! The `keyboard` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Map;

state::state_module! {
    /// Set the layout of the keyboard.
    mod keyboard;

    /// Make sure that the console has a layout.
    ///
    ///     us:
    ///       keyboard.system
    fn system(System {
        /// The layout.
        name: String,
    });

    /// Make sure that X has a layout.
    ///
    ///     us:
    ///       keyboard.xorg
    fn xorg(Xorg {
        /// The layout.
        name: String,
    });
}

/// Sets a layout for the console or for X: reads it with `keyboard.get_…` and sets it with
/// `keyboard.set_…`.
fn set(cx: &Exec, name: &str, suffix: &str, (title, long): (&str, &str)) -> Result<Ret, Error> {
    let now = cx.call_internal(&format!("keyboard.get_{suffix}"), Vec::new(), Map::new())?;
    if now == name.into() {
        return Ok(Ret::ok(format!("{title} layout {name} already set")));
    }
    let would = Ret::would(format!("{title} layout {name} needs to be set"));
    cx.apply(would, || {
        let done = cx.call_internal(
            &format!("keyboard.set_{suffix}"),
            vec![name.into()],
            Map::new(),
        )?;
        Ok(match done.is_true() {
            true => Ret::ok(format!("Set {long} keyboard layout {name}")).change("layout", name),
            false => Ret::failed(format!("Failed to set {long} keyboard layout")),
        })
    })
}

fn system(cx: &Exec, args: System) -> Result<Ret, Error> {
    set(cx, &args.name, "sys", ("System", "system"))
}

fn xorg(cx: &Exec, args: Xorg) -> Result<Ret, Error> {
    set(cx, &args.name, "x", ("XOrg", "XOrg"))
}
