//! The `docker_volume` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::docker::{Client, Kind, drop_volume, make_volume};

state::state_module! {
    /// Manage volumes of containers with the program docker or podman.
    #[module(virtual_ = super::missing)]
    mod docker_volume;

    /// Make sure that a volume exists.
    ///
    ///     shop-data:
    ///       docker_volume.present
    fn present(Present {
        /// The name of the volume.
        name: String,
        /// The driver of the volume.
        driver: Option<String> = None,
        /// The options of the driver.
        driver_opts: Map = Map::new(),
        /// True to replace a volume with another driver.
        force: bool = false,
    });

    /// Make sure that a volume does not exist.
    ///
    ///     shop-data:
    ///       docker_volume.absent
    fn absent(Absent {
        /// The name of the volume.
        name: String,
        /// The driver of the volume.
        driver: Option<String> = None,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (client, name) = (Client::detect(cx)?, args.name);
    let made = |ret: Ret| {
        Ok(
            match make_volume(&client, &name, args.driver.as_deref(), &args.driver_opts) {
                Ok(made) => ret.change("created", made),
                Err(why) => Ret {
                    result: Some(false),
                    comment: format!("Failed to create volume '{name}': {why}"),
                    ..ret
                },
            },
        )
    };
    let Some(volume) = client.found(Kind::Volume, &name)? else {
        let would = Ret::would(format!("The volume '{name}' will be created"));
        return cx.apply(would, || made(Ret::ok("")));
    };
    let own = volume.get("Driver").map(Value::to_text).unwrap_or_default();
    let Some(driver) = args.driver.as_ref().filter(|driver| **driver != own) else {
        return Ok(Ret::ok(format!("Volume '{name}' already exists.")));
    };
    if !args.force {
        let result = if cx.test { None } else { Some(false) };
        return Ok(Ret {
            result,
            ..Ret::ok(format!(
                "Driver for existing volume '{name}' ('{own}') does not match specified driver ('{driver}') and force is False"
            ))
        });
    }
    let shown = value::python::repr(&volume.into());
    let would =
        format!("The volume '{name}' will be replaced with a new one using the driver '{shown}'");
    cx.apply(Ret::would(would), || match drop_volume(&client, &name) {
        Ok(()) => made(Ret::ok("").change("removed", true)),
        Err(why) => Ok(Ret::failed(format!(
            "Failed to remove volume '{name}': {why}"
        ))),
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (client, name) = (Client::detect(cx)?, args.name);
    if client.found(Kind::Volume, &name)?.is_none() {
        return Ok(Ret::ok(format!("Volume '{name}' already absent")));
    }
    // Unlike here, Salt's function has no test mode.
    cx.apply(
        Ret::would(format!("Volume '{name}' will be removed")),
        || {
            Ok(match drop_volume(&client, &name) {
                Ok(()) => Ret::ok("").change("removed", true),
                Err(why) => Ret::failed(format!("Failed to remove volume '{name}': {why}")),
            })
        },
    )
}
