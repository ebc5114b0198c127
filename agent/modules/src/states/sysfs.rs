//! The `sysfs` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

state::state_module! {
    /// Manage the attributes of kernel devices below `/sys`.
    mod sysfs;

    /// Make sure that an attribute has a value.
    ///
    ///     block/vda/queue/scheduler:
    ///       sysfs.present:
    ///         - value: none
    fn present(Present {
        /// The path of the attribute below `/sys`.
        name: String,
        /// The value of the attribute.
        value: Value,
        /// Ignored.
        config: Value = Value::Null,
    });
}

/// Returns the chosen word of a text such as `always [madvise] never`.
fn chosen(current: Value) -> Value {
    let inner = current.as_str().and_then(|text| {
        let (_, rest) = text.rsplit_once('[')?;
        rest.split_once(']').map(|(inner, _)| inner.to_owned())
    });
    inner.map_or(current, Value::from)
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let current = cx.call_internal("sysfs.read", vec![name.into()], Map::new())?;
    if current == Value::Bool(false) && matches!(current, Value::Bool(_)) {
        return Ok(Ret::failed(format!(
            "SysFS attribute {name} doesn't exist."
        )));
    }
    if current.as_map().is_some() {
        return Ok(Ret::failed(format!("{name} is not a SysFS attribute.")));
    }
    if chosen(current) == args.value {
        return Ok(Ret::ok(format!("SysFS attribute {name} is already set.")));
    }
    let would = Ret::would(format!("SysFS attribute {name} set to be changed."));
    cx.apply(would, || {
        let value = python::str(&args.value);
        let given = vec![name.into(), args.value.clone()];
        Ok(
            match cx
                .call_internal("sysfs.write", given, Map::new())?
                .is_true()
            {
                true => Ret::ok(format!("Updated SysFS attribute {name} to {value}"))
                    .change(name, args.value),
                false => Ret::failed(format!("Failed to set {name} to {value}")),
            },
        )
    })
}
