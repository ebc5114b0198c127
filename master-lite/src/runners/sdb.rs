//! The `sdb` runner: reads and writes values by `sdb://PROFILE/KEY`. The profiles come from the
//! master's configuration.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Values outside of pillar and configuration.
    mod sdb;

    /// Return the value that a URI names. Any other value is returned unchanged.
    ///
    ///     salt-run sdb.get sdb://mysdb/password
    fn get(Get {
        /// The URI: `sdb://PROFILE/KEY`.
        uri: Value,
    });

    /// Set the value that a URI names.
    ///
    ///     salt-run sdb.set sdb://mysdb/password S3cret
    fn set(Set {
        /// The URI.
        uri: Value,
        /// The value.
        value: Value,
    });

    /// Remove the value that a URI names.
    ///
    ///     salt-run sdb.delete sdb://mysdb/password
    fn delete(Delete {
        /// The URI.
        uri: Value,
    });

    /// Return the value that a URI names. If there is none, store and return a random one.
    ///
    ///     salt-run sdb.get_or_set_hash sdb://mysdb/password length=20
    fn get_or_set_hash(GetOrSetHash {
        /// The URI.
        uri: Value,
        /// The length of a new value in characters.
        length: i64 = 8,
        /// The characters of a new value.
        chars: String = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)".into(),
    });
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    cx.call("sdb.get", vec![args.uri], Map::new())
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    cx.call("sdb.set", vec![args.uri, args.value], Map::new())
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    cx.call("sdb.delete", vec![args.uri], Map::new())
}

fn get_or_set_hash(cx: &Exec, args: GetOrSetHash) -> Result<Value, Error> {
    let args = vec![args.uri, args.length.into(), args.chars.into()];
    cx.call("sdb.get_or_set_hash", args, Map::new())
}
