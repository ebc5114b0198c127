//! The `shadow` execution module.

use std::path::PathBuf;

use machine::accounts;
use machine::accounts::crypt;
use machine::accounts::tools::{self as tools, is_of, path};
use machine::process::{Line, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

state::exec_module! {
    /// Manage passwords and their expiry.
    mod shadow;

    /// Return the text that the shadow file contains if no password was ever set.
    ///
    ///     salt-call shadow.default_hash
    fn default_hash(DefaultHash {});

    /// Return the entry of a user in the shadow file, with empty texts if there is none.
    ///
    ///     salt-call shadow.info alice
    fn info(Info {
        /// The name of the user.
        name: String,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Return the names of all users in the shadow file, sorted.
    ///
    ///     salt-call shadow.list_users
    fn list_users(ListUsers {
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Return the hash of a password.
    ///
    ///     salt-call shadow.gen_password S3cret
    fn gen_password(GenPassword {
        /// The password.
        password: String,
        /// The salt; random if not given.
        crypt_salt: Option<String> = None,
        /// The algorithm: sha512, sha256 or md5.
        algorithm: String = "sha512".into(),
    });

    /// Set the hash of a user's password.
    ///
    ///     salt-call shadow.set_password alice '$6$salt$hash'
    fn set_password(SetPassword {
        /// The name of the user.
        name: String,
        /// The hash.
        password: String,
        /// True to let the program `chpasswd` set the hash.
        use_usermod: bool = false,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Remove a user's password, so that the user can log in without one.
    ///
    ///     salt-call shadow.del_password alice
    fn del_password(DelPassword {
        /// The name of the user.
        name: String,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Lock a user's password.
    ///
    ///     salt-call shadow.lock_password alice
    fn lock_password(LockPassword {
        /// The name of the user.
        name: String,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Unlock a user's password.
    ///
    ///     salt-call shadow.unlock_password alice
    fn unlock_password(UnlockPassword {
        /// The name of the user.
        name: String,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Set the day of the last change of a password, in days since 1970.
    ///
    ///     salt-call shadow.set_date alice 0
    fn set_date(SetDate {
        /// The name of the user.
        name: String,
        /// The day: a number, or a date such as `2030-01-31`.
        date: Value,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Set the day on which an account expires, in days since 1970; -1 for never.
    ///
    ///     salt-call shadow.set_expire alice 20819
    fn set_expire(SetExpire {
        /// The name of the user.
        name: String,
        /// The day: a number, or a date such as `2030-01-31`.
        expire: Value,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Set the number of days after which an account with an expired password is locked.
    ///
    ///     salt-call shadow.set_inactdays alice 14
    fn set_inactdays(SetInactdays {
        /// The name of the user.
        name: String,
        /// The number of days.
        inactdays: Value,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Set the maximum age of a password, in days.
    ///
    ///     salt-call shadow.set_maxdays alice 90
    fn set_maxdays(SetMaxdays {
        /// The name of the user.
        name: String,
        /// The number of days.
        maxdays: Value,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Set the minimum age of a password before it may be changed, in days.
    ///
    ///     salt-call shadow.set_mindays alice 1
    fn set_mindays(SetMindays {
        /// The name of the user.
        name: String,
        /// The number of days.
        mindays: Value,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Set the number of days for which a user is warned before a password expires.
    ///
    ///     salt-call shadow.set_warndays alice 7
    fn set_warndays(SetWarndays {
        /// The name of the user.
        name: String,
        /// The number of days.
        warndays: Value,
        /// The root folder of another system.
        root: Option<String> = None,
    });
}

/// The text that the shadow file contains if no password was ever set.
pub(crate) const UNSET: &str = "!";

/// A number of the shadow file: its key in `shadow.info`, the option of chage for it, and its field
/// in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    /// The key in `shadow.info`.
    pub(crate) key: &'static str,
    option: &'static str,
    field: usize,
    /// True if the value is read again after it was set, to verify it.
    checked: bool,
}

const fn number(key: &'static str, option: &'static str, field: usize, checked: bool) -> Number {
    Number {
        key,
        option,
        field,
        checked,
    }
}

/// The day of the last change.
pub(crate) const LAST_CHANGE: Number = number("lstchg", "-d", 2, false);
/// The minimum age of the password in days.
pub(crate) const MIN: Number = number("min", "-m", 3, true);
/// The maximum age of the password in days.
pub(crate) const MAX: Number = number("max", "-M", 4, true);
/// The number of days for which the user is warned before the password expires.
pub(crate) const WARN: Number = number("warn", "-W", 5, true);
/// The number of days after the expiry of the password before the account is locked.
pub(crate) const INACTIVE: Number = number("inact", "-I", 6, true);
/// The day on which the account expires.
pub(crate) const EXPIRE: Number = number("expire", "-E", 7, false);

const NUMBERS: [Number; 6] = [LAST_CHANGE, MIN, MAX, WARN, INACTIVE, EXPIRE];

fn lines(root: Option<&str>) -> Result<Vec<Vec<String>>, Error> {
    let bytes = machine::fs::read_or_none(path(root, "shadow"))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let split = |line: &str| line.trim().split(':').map(str::to_owned).collect();
    Ok(text.lines().map(split).collect())
}

/// Returns the entry of a user in the shadow file, in the form of `shadow.info`.
///
/// # Errors
/// When the shadow file exists and cannot be read.
pub(crate) fn lookup(name: &str, root: Option<&str>) -> Result<Map, Error> {
    let line = lines(root)?.into_iter().find(|line| is_of(line, name));
    let field = |at: usize| line.as_ref()?.get(at).map(String::as_str);
    let info = Map::new()
        .with("name", field(0).unwrap_or_default())
        .with("passwd", field(1).unwrap_or_default());
    Ok(NUMBERS.iter().fold(info, |info, number| {
        let value: Value = match field(number.field) {
            _ if line.is_none() => "".into(),
            Some(text) => text.parse::<i64>().unwrap_or(-1).into(),
            None => (-1).into(),
        };
        info.with(number.key, value)
    }))
}

fn password_of(name: &str, root: Option<&str>) -> Result<String, Error> {
    let info = lookup(name, root)?;
    Ok(info.get("passwd").map_or_else(String::new, Value::to_text))
}

fn exists(name: &str, root: Option<&str>) -> Result<bool, Error> {
    Ok(lines(root)?.iter().any(|line| is_of(line, name)))
}

/// Returns a day in days since 1970, from that number or from a date such as `2030-01-31`. Null
/// stays null.
///
/// # Errors
/// When the value is neither.
pub(crate) fn day(key: &str, given: &Value) -> Result<Value, Error> {
    if given.is_null() || given.as_int().is_some() {
        return Ok(given.clone());
    }
    let text = given.to_text();
    if let Ok(days) = text.parse::<i64>() {
        return Ok(days.into());
    }
    let date: jiff::civil::Date = text.parse().map_err(|_| {
        Error::refused(format!(
            "{key}: '{text}' is neither a date such as 2030-01-31 nor a number of days since 1970"
        ))
    })?;
    let days = date.since(jiff::civil::date(1970, 1, 1));
    Ok(days.map_or(Value::Null, |span| i64::from(span.get_days()).into()))
}

/// Sets a number of the shadow file and returns whether it has the value now.
pub(crate) fn set_number(
    cx: &Exec,
    name: &str,
    number: Number,
    value: &Value,
    root: Option<&str>,
) -> Result<bool, Error> {
    if !exists(name, root)? {
        return Ok(false);
    }
    let value = &match number.key {
        "lstchg" | "expire" => day(number.key, value)?,
        _ => value.clone(),
    };
    let is_so = || Ok::<bool, Error>(lookup(name, root)?.get(number.key) == Some(value));
    if is_so()? {
        return Ok(true);
    }
    let text = value.to_text();
    let mut done = true;
    if tools::is_small("chage") {
        let days: i64 = text.parse().map_err(|_| {
            Error::refused(format!(
                "{}: expected a number of days, got {text}",
                number.key
            ))
        })?;
        let text = if days < 0 { String::new() } else { text };
        tools::set_field(cx, &path(root, "shadow"), name, number.field, &text)?;
    } else {
        let options = [number.option, &text];
        done = tools::run(cx, "chage", root, &options, &[name])?.success();
    }
    Ok(if number.checked { is_so()? } else { done })
}

/// Returns the path of the file with the hash of a user's password. ALT Linux has one file for each
/// user.
fn file_of(name: &str, root: Option<&str>) -> PathBuf {
    let own = path(root, "tcb").join(name).join("shadow");
    if own.is_file() {
        own
    } else {
        path(root, "shadow")
    }
}

/// Sets the hash of a user's password by changing the file, so that the hash does not appear in the
/// process list.
pub(crate) fn set_hash(
    cx: &Exec,
    name: &str,
    hash: &str,
    root: Option<&str>,
) -> Result<bool, Error> {
    if accounts::user(name).is_none() {
        log::warning(format_args!(
            "user {name} does not exist, cannot set password"
        ));
        return Ok(false);
    }
    check_hash(hash)?;
    let today = tools::today();
    tools::edit(cx, &file_of(name, root), &mut |lines| {
        let fresh = || vec![name.to_owned(), hash.to_owned(), today.clone()];
        if !lines.iter().any(|line| is_of(line, name)) {
            log::warning(format_args!(
                "shadow entry not present for user {name}, adding"
            ));
            lines.push(fresh());
        }
        for line in lines.iter_mut().filter(|line| is_of(line, name)) {
            let rest = line.split_off(line.len().min(3));
            *line = fresh().into_iter().chain(rest).collect();
            line.resize(9, String::new());
        }
    })?;
    Ok(password_of(name, root)? == hash)
}

fn check_hash(hash: &str) -> Result<(), Error> {
    if hash.contains([':', '\n']) {
        return Err("A password hash must not contain a colon or a line break".into());
    }
    Ok(())
}

/// Removes a user's password and returns whether it is empty now.
pub(crate) fn delete_password(cx: &Exec, name: &str, root: Option<&str>) -> Result<bool, Error> {
    passwd(cx, name, "-d", root)?;
    Ok(exists(name, root)? && password_of(name, root)?.is_empty())
}

/// Locks or unlocks a user's password and returns whether it is so now.
pub(crate) fn set_locked(
    cx: &Exec,
    name: &str,
    locked: bool,
    root: Option<&str>,
) -> Result<bool, Error> {
    let is_so = || Ok::<bool, Error>(password_of(name, root)?.starts_with('!') == locked);
    if !exists(name, root)? {
        return Ok(false);
    }
    if !is_so()? {
        passwd(cx, name, if locked { "-l" } else { "-u" }, root)?;
    }
    is_so()
}

/// Runs `passwd`, which busybox has too. Its output is logged, and callers verify its result by
/// reading the file.
fn passwd(cx: &Exec, name: &str, option: &str, root: Option<&str>) -> Result<(), Error> {
    tools::run(cx, "passwd", root, &[option], &[name]).map(drop)
}

fn default_hash(_cx: &Exec, _args: DefaultHash) -> Result<Value, Error> {
    Ok(UNSET.into())
}

fn info(_cx: &Exec, args: Info) -> Result<Value, Error> {
    Ok(lookup(&args.name, args.root.as_deref())?.into())
}

fn list_users(_cx: &Exec, args: ListUsers) -> Result<Value, Error> {
    let names = lines(args.root.as_deref())?.into_iter();
    let mut names: Vec<String> = names.filter_map(|line| line.into_iter().next()).collect();
    names.sort();
    Ok(names.into())
}

fn gen_password(_cx: &Exec, args: GenPassword) -> Result<Value, Error> {
    let salt = args.crypt_salt.as_deref();
    Ok(crypt::hash(&args.password, salt, &args.algorithm)?.into())
}

fn set_password(cx: &Exec, args: SetPassword) -> Result<Value, Error> {
    let root = args.root.as_deref();
    if !args.use_usermod {
        return Ok(set_hash(cx, &args.name, &args.password, root)?.into());
    }
    tools::check_name(&args.name)?;
    check_hash(&args.password)?;
    // Salt passes the hash to usermod as an argument, which every user can read.
    let mut words = vec![tools::find("chpasswd")?, "-e".to_owned()];
    words.extend(
        root.into_iter()
            .flat_map(|root| ["-R".to_owned(), root.to_owned()]),
    );
    let process = Process {
        line: Line::Words(words),
        stdin: Some(format!("{}:{}\n", args.name, args.password)),
        ..Process::words(["chpasswd"]).quiet()
    };
    process.run(cx)?;
    Ok((password_of(&args.name, root)? == args.password).into())
}

fn del_password(cx: &Exec, args: DelPassword) -> Result<Value, Error> {
    Ok(delete_password(cx, &args.name, args.root.as_deref())?.into())
}

fn lock_password(cx: &Exec, args: LockPassword) -> Result<Value, Error> {
    Ok(set_locked(cx, &args.name, true, args.root.as_deref())?.into())
}

fn unlock_password(cx: &Exec, args: UnlockPassword) -> Result<Value, Error> {
    Ok(set_locked(cx, &args.name, false, args.root.as_deref())?.into())
}

fn set_date(cx: &Exec, args: SetDate) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set_number(cx, &args.name, LAST_CHANGE, &args.date, root)?.into())
}

fn set_expire(cx: &Exec, args: SetExpire) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set_number(cx, &args.name, EXPIRE, &args.expire, root)?.into())
}

fn set_inactdays(cx: &Exec, args: SetInactdays) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set_number(cx, &args.name, INACTIVE, &args.inactdays, root)?.into())
}

fn set_maxdays(cx: &Exec, args: SetMaxdays) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set_number(cx, &args.name, MAX, &args.maxdays, root)?.into())
}

fn set_mindays(cx: &Exec, args: SetMindays) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set_number(cx, &args.name, MIN, &args.mindays, root)?.into())
}

fn set_warndays(cx: &Exec, args: SetWarndays) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set_number(cx, &args.name, WARN, &args.warndays, root)?.into())
}
