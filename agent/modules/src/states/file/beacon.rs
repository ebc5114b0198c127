//! `file.mod_beacon`: adds a beacon for a file or folder of a state with the argument `beacon`.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::states::beacon::{Wanted, default};

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Files(&[]), free_arguments = true)]
    mod file;

    /// Add a beacon that watches the file or folder of a state `file.managed` or `file.directory`
    /// with the argument `beacon`. The argument `beacon_data` has settings of the beacon.
    ///
    ///     /etc/motd:
    ///       file.managed:
    ///         - contents: Welcome
    ///         - beacon: True
    ///         - beacon_data:
    ///             mask: [modify]
    fn mod_beacon(ModBeacon {
        /// The path.
        name: String,
        #[group] wanted: Wanted,
        ..kwargs
    });
}

fn mod_beacon(cx: &Exec, args: ModBeacon) -> Result<Ret, Error> {
    let subject = ("inotify", args.name.as_str());
    let refusal = |sfun: &str| format!("file.{sfun} does not work with the beacon state function");
    args.wanted
        .added(cx, subject, &["managed", "directory"], refusal, |data| {
            let mask = Value::list(["create", "delete", "modify"].map(Value::from));
            let mut file = Map::new().with("mask", default(data, "mask", mask));
            if args.wanted.sfun.as_str() == Some("directory") {
                for (name, value) in [("auto_add", true.into()), ("recurse", true.into())] {
                    file.insert(name, default(data, name, value));
                }
                file.insert("exclude", default(data, "exclude", Value::list([])));
            }
            Map::new()
                .with("files", Map::new().with(&args.name, file))
                .with("interval", default(data, "interval", 60.into()))
                .with("coalesce", default(data, "coalesce", false.into()))
        })
}
