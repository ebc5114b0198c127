//! The `locale` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::Map;

state::state_module! {
    /// Manage the locale of this machine and the available locales.
    #[facts(effects = Effects::MoreThanFiles { files_suffice: true })]
    mod locale;

    /// Make sure that the system uses this locale.
    ///
    ///     en_US.UTF-8:
    ///       locale.system
    fn system(System {
        /// The name of the locale, such as en_US.UTF-8.
        name: String,
    });

    /// Make sure that a locale is available.
    ///
    ///     en_US.UTF-8:
    ///       locale.present
    fn present(Present {
        /// The name of the locale.
        name: String,
    });
}

fn system(cx: &Exec, args: System) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let set = || {
        let now = cx.call_internal("locale.get_locale", Vec::new(), Map::new())?;
        if now.to_text() == name {
            return Ok(Ret::ok(format!("System locale {name} already set")));
        }
        let would = format!("System locale {name} needs to be set");
        cx.apply(Ret::would(would), || {
            let done = cx.call_internal("locale.set_locale", vec![name.into()], Map::new())?;
            Ok(match done.is_true() {
                true => Ret::ok(format!("Set system locale {name}")).change("locale", name),
                false => Ret::failed(format!("Failed to set system locale to {name}")),
            })
        })
    };
    match set() {
        Err(error) if error.is_of_command() => {
            Ok(Ret::failed(format!("Failed to set system locale: {error}")))
        }
        ret => ret,
    }
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let call = |function: &str| {
        let answer = cx.call_internal(function, vec![name.into()], Map::new())?;
        Ok::<_, Error>(answer.is_true())
    };
    if call("locale.avail")? {
        return Ok(Ret::ok(format!("Locale {name} is already present")));
    }
    let would = format!("Locale {name} needs to be generated");
    cx.apply(Ret::would(would), || {
        Ok(match call("locale.gen_locale")? {
            true => Ret::ok(format!("Generated locale {name}")).change("locale", name),
            false => Ret::failed(format!("Failed to generate locale {name}")),
        })
    })
}
