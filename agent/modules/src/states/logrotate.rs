//! The `logrotate` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Value, python};

use crate::exec::logrotate::{change, found, number, parsed};

state::state_module! {
    /// Configure the rotation of log files (`logrotate`).
    mod logrotate;

    /// Make sure that a directive has a value. With `setting`, it is a directive within a block.
    ///
    ///     /var/log/app.log:
    ///       logrotate.set:
    ///         - key: rotate
    ///         - value: '7'
    ///         - conf_file: /etc/logrotate.d/app
    fn set(Set {
        /// Any name.
        name: String,
        /// The directive, or the log files of the block.
        key: String,
        /// The value of the directive, or the directive within the block.
        value: Value,
        /// The value of the directive within the block.
        setting: Value = Value::Null,
        /// The file.
        conf_file: String = "/etc/logrotate.conf".into(),
    });
}

fn set(cx: &Exec, args: Set) -> Result<Ret, Error> {
    let (key, file) = (args.key.as_str(), args.conf_file.as_str());
    let setting = Some(number(&args.setting)).filter(|setting| !setting.is_null());
    let inner = setting.as_ref().map(|_| python::str(&args.value));
    let value = match &setting {
        Some(_) => args.value.clone(),
        None => number(&args.value),
    };
    let current = found(&parsed(file)?, key, inner.as_deref());
    let wanted = setting.as_ref().unwrap_or(&value);
    let (what, shown) = match &inner {
        Some(inner) => (
            format!("lock '{key}' command '{inner}'"),
            python::str(wanted),
        ),
        None => (format!("ommand '{key}'"), python::str(wanted)),
    };
    let (upper, lower) = if inner.is_some() {
        ('B', 'b')
    } else {
        ('C', 'c')
    };
    if current == *wanted {
        return Ok(Ret::ok(format!("{upper}{what} already has value: {shown}")));
    }
    let changed = |ret: Ret| {
        ret.change("old", current.clone())
            .change("new", wanted.clone())
    };
    let would = changed(Ret::would(format!(
        "{upper}{what} will be set to value: {shown}"
    )));
    cx.apply(would, || {
        let done = change(cx, file, key, &value, setting.as_ref())?;
        let comment = match done.is_true() {
            true => format!("Set {lower}{what} value: {shown}"),
            false => format!("Unable to set {lower}{what} value: {shown}"),
        };
        let ret = changed(Ret::ok(comment));
        Ok(Ret {
            result: Some(done.is_true()),
            ..ret
        })
    })
}
