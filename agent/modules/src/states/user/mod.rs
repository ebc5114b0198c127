//! The `user` state module.

mod difference;

use machine::accounts;
use machine::accounts::crypt;
use machine::fs;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, log, python};

use self::difference::{Wanted, difference};
use crate::exec::file::makedirs;
use crate::exec::shadow::{self, Number};
use crate::exec::user::change::{self, Add, GECOS};
use crate::exec::{group, user};

state::state_module! {
    /// Management of user accounts.
    mod user;

    /// Ensure that a user exists with the given properties.
    ///
    ///     alice:
    ///       user.present:
    ///         - groups: [developers]
    ///         - shell: /bin/bash
    fn present(Present {
        /// The user.
        name: String,
        /// The number of the user.
        uid: Option<i64> = None,
        /// The name or number of the primary group.
        gid: Value = Value::Null,
        /// True to create a primary group of the same name. Default: as in login.defs.
        usergroup: Option<bool> = None,
        /// The groups of the user. A missing group is an error.
        groups: Option<Vec<String>> = None,
        /// The groups of the user, if they exist.
        optional_groups: Option<Vec<String>> = None,
        /// True to remove the user from all other groups.
        remove_groups: bool = true,
        /// The home folder.
        home: Option<String> = None,
        /// True to create a missing home folder.
        createhome: bool = true,
        /// True to move the old home folder if `home` changes.
        persist_home: bool = false,
        /// The hash of the password.
        password: Option<String> = None,
        /// True if `password` is in plain text and must be hashed.
        hash_password: bool = false,
        /// False to keep a password that was set.
        enforce_password: bool = true,
        /// True to let the user log in without a password.
        empty_password: bool = false,
        /// The login shell.
        shell: Option<String> = None,
        /// False to allow a number that another user has.
        unique: bool = true,
        /// True to create a system account.
        system: bool = false,
        /// The full name.
        fullname: Option<String> = None,
        /// The room number.
        roomnumber: Option<String> = None,
        /// The telephone number at work.
        workphone: Option<String> = None,
        /// The telephone number at home.
        homephone: Option<String> = None,
        /// Other information in the GECOS field.
        other: Option<String> = None,
        /// Accepted but ignored; only BSD needs it.
        loginclass: Option<String> = None,
        /// The day of the last change of the password: a date such as 2030-01-31, or the number of
        /// days since 1970.
        date: Value = Value::Null,
        /// The minimum number of days between changes of the password.
        mindays: Option<i64> = None,
        /// The maximum number of days until the password must be changed.
        maxdays: Option<i64> = None,
        /// The number of days after the end of the password until the account is locked.
        inactdays: Option<i64> = None,
        /// The number of days before the end of the password from which the user is warned.
        warndays: Option<i64> = None,
        /// The day on which the account expires: a date such as 2030-01-31, or the number of days
        /// since 1970; -1 for never.
        expire: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_homedrive: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_profile: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_logonscript: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_description: Value = Value::Null,
        /// True to not add the user to lastlog and faillog.
        nologinit: bool = false,
        /// True to allow a change of the user's number.
        allow_uid_change: bool = false,
        /// True to allow a change of the primary group.
        allow_gid_change: bool = false,
        /// True to lock the password, False to unlock it.
        password_lock: Option<bool> = None,
        /// True to create it with luseradd in the files of this machine.
        local: bool = false,
    });

    /// Ensure that a user does not exist.
    ///
    ///     bob:
    ///       user.absent:
    ///         - purge: True
    fn absent(Absent {
        /// The user.
        name: String,
        /// True to remove the user's files too.
        purge: bool = false,
        /// True to remove the user even if it is logged in.
        force: bool = false,
        /// True to remove it with luserdel.
        local: bool = false,
    });
}

const REDACTED: &str = "XXX-REDACTED-XXX";

/// The numbers in the shadow file: the argument, the field, and its name in error messages.
const NUMBERS: [(&str, Number, &str); 6] = [
    ("date", shadow::LAST_CHANGE, "last change date to"),
    ("mindays", shadow::MIN, "minimum days to"),
    ("maxdays", shadow::MAX, "maximum days to"),
    ("inactdays", shadow::INACTIVE, "inactive days to"),
    ("warndays", shadow::WARN, "warn days to"),
    ("expire", shadow::EXPIRE, "expire days to"),
];

impl Present {
    fn root(&self) -> Option<&'static str> {
        self.local.then_some("/")
    }

    fn numbers(&self) -> [Option<i64>; 6] {
        [
            self.date.as_int(),
            self.mindays,
            self.maxdays,
            self.inactdays,
            self.warndays,
            self.expire.as_int(),
        ]
    }

    fn gecos(&self) -> [Option<&str>; 5] {
        [
            &self.fullname,
            &self.roomnumber,
            &self.workphone,
            &self.homephone,
            &self.other,
        ]
        .map(Option::as_deref)
    }
}

fn present(cx: &Exec, mut args: Present) -> Result<Ret, Error> {
    accounts::check()?;
    for (key, day) in [("date", &mut args.date), ("expire", &mut args.expire)] {
        *day = shadow::day(key, day)?;
    }
    if args.hash_password {
        args.password = hashed(&args)?;
    }
    if let Some(number) = args.gid.as_str().and_then(|gid| gid.parse::<u32>().ok()) {
        args.gid = number.into();
    }
    // A comma separates the parts of the GECOS field, so no part may contain one.
    let odd = args.gecos().into_iter().take(3).flatten();
    if let Some(text) = odd.into_iter().find(|text| text.contains(',')) {
        return Ok(Ret::failed(format!("Unsupported char ',' in {text}")));
    }
    let missing = missing_groups(&args);
    if !missing.is_empty() && !cx.test {
        let names = missing.join(",");
        return Ok(Ret::failed(format!(
            "The following group(s) are not present: {names}"
        )));
    }
    // In test mode a missing group is no failure: an earlier state of the run may create it.
    if let Some(groups) = &mut args.groups {
        groups.retain(|group| !missing.contains(group));
    }
    if let Some(groups) = &mut args.optional_groups {
        groups.retain(|name| group::find(name, None).is_some());
    }
    let own_group = args.usergroup == Some(true) && group::find(&args.name, None).is_some();
    let gid = if own_group {
        args.name.as_str().into()
    } else {
        args.gid.clone()
    };
    let wanted = Wanted { args: &args, gid };
    match difference(&wanted)? {
        None => add(cx, &args, &missing),
        Some(changes) => {
            if let Some(why) = wanted.rejection(&changes) {
                return Ok(Ret::failed(why));
            }
            if changes.is_empty() {
                let name = &args.name;
                return Ok(Ret::ok(format!("User {name} is present and up to date")));
            }
            let would = Ret::would(announced(&changes, &missing));
            cx.apply(would, || update(cx, &args, changes))
        }
    }
}

/// Returns the hash of the password. It uses the method and salt of the current hash, so that the
/// same password gives the same hash.
fn hashed(args: &Present) -> Result<Option<String>, Error> {
    let Some(password) = args.password.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(args.password.clone());
    };
    let now = shadow::lookup(&args.name, None)?;
    let now = now
        .get("passwd")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if now.starts_with("$1$") {
        log::warning("Using MD5 for hashing passwords is considered insecure!");
    }
    if let Some(hash) = crypt::hash_like(password, now) {
        return Ok(Some(hash));
    }
    crypt::hash(password, None, "sha512").map(Some)
}

fn missing_groups(args: &Present) -> Vec<String> {
    let groups = args.groups.iter().flatten();
    groups
        .filter(|name| group::find(name, None).is_none())
        .cloned()
        .collect()
}

fn announced(changes: &Map, missing: &[String]) -> String {
    let mut text = "The following user attributes are set to be changed:\n".to_owned();
    for (key, value) in &redacted_changes(changes) {
        text.push_str(&format!("{}: {}\n", key.to_text(), python::str(value)));
    }
    if !missing.is_empty() {
        text.push_str(&format!(
            "groups (pending creation): {}\n",
            missing.join(",")
        ));
    }
    text
}

/// Returns the changes with the password redacted.
fn redacted_changes(changes: &Map) -> Map {
    let mut changes = changes.clone();
    if let Some(password) = changes.get_mut("passwd") {
        *password = REDACTED.into();
    }
    changes
}

fn update(cx: &Exec, args: &Present, mut changes: Map) -> Result<Ret, Error> {
    let (name, root) = (args.name.as_str(), args.root());
    let before_shadow = shadow::lookup(name, None)?;
    let before = user::find(name, root).unwrap_or_default();
    change_password(cx, args, &mut changes)?;
    change_home(cx, args, &mut changes, &before)?;
    for ((key, number, _), value) in NUMBERS.iter().zip(args.numbers()) {
        if changes.remove(key).is_some() {
            shadow::set_number(cx, name, *number, &value.into(), None)?;
        }
    }
    for (key, option) in [("uid", "-u"), ("gid", "-g"), ("shell", "-s")] {
        if let Some(value) = changes.remove(key) {
            change::set(cx, name, (key, option), &value, false, None)?;
        }
    }
    for key in GECOS {
        if let Some(value) = changes.remove(key) {
            change::set_gecos(cx, name, key, &value.to_text(), None)?;
        }
    }
    // The primary group is set first, since usermod compares the other groups with it.
    if let Some(groups) = changes.remove("groups") {
        let groups: Vec<String> = groups.texts();
        change::set_groups(cx, name, &groups, !args.remove_groups, None)?;
    }
    let mut ret = Ret::ok(format!("User {name} is present and up to date"));
    ret.changes = changed(args, &before, &before_shadow)?.into();
    if ret.changes.is_true() {
        ret.comment = format!("Updated user {name}");
    }
    let gid = args.gid.clone();
    let left = difference(&Wanted { args, gid })?.unwrap_or_default();
    if !left.is_empty() {
        let left = python::repr(&redacted_changes(&left).into());
        ret.comment = format!("These values could not be changed: {left}");
        ret.result = Some(false);
    }
    Ok(ret)
}

fn change_password(cx: &Exec, args: &Present, changes: &mut Map) -> Result<(), Error> {
    let name = &args.name;
    if changes.remove("passwd").is_some() {
        shadow::set_hash(cx, name, args.password.as_deref().unwrap_or_default(), None)?;
    }
    if changes.remove("empty_password").is_some() {
        shadow::delete_password(cx, name, None)?;
    }
    if changes.remove("password_lock").is_some() {
        shadow::set_locked(cx, name, args.password_lock == Some(true), None)?;
    }
    if let Some(date) = changes.remove("date") {
        shadow::set_number(cx, name, shadow::LAST_CHANGE, &date, None)?;
    }
    Ok(())
}

fn change_home(cx: &Exec, args: &Present, changes: &mut Map, user: &Map) -> Result<(), Error> {
    let missing = changes.remove("homeDoesNotExist");
    if let Some(home) = changes.remove("home").or_else(|| missing.clone()) {
        let home_of = ("home", "-d");
        change::set(cx, &args.name, home_of, &home, args.persist_home, None)?;
    }
    let Some(home) = missing.map(|home| home.to_text()) else {
        return Ok(());
    };
    if std::path::Path::new(&home).is_dir() {
        return Ok(());
    }
    let of = |key| user.get(key).cloned().unwrap_or_default();
    makedirs::all(cx, &home, &of("uid"), &of("gid"), Some("0755".into()))
}

/// Returns the attributes that differ from those before the change.
fn changed(args: &Present, before: &Map, before_shadow: &Map) -> Result<Map, Error> {
    let mut changes = Map::new();
    let mut compare = |before: &Map, after: &Map| {
        for (key, value) in after {
            if before.get_value(key) != Some(value) {
                changes.insert(key.clone(), value.clone());
            }
        }
    };
    compare(
        before,
        &user::find(&args.name, args.root()).unwrap_or_default(),
    );
    let hash = before_shadow.get("passwd").and_then(Value::as_str);
    if args.password.is_none() || hash != args.password.as_deref() {
        compare(before_shadow, &shadow::lookup(&args.name, None)?);
        // The `passwd` of `user.info` is only the placeholder that refers to the shadow file.
        return Ok(redacted_changes(&changes));
    }
    Ok(changes)
}

fn add(cx: &Exec, args: &Present, missing: &[String]) -> Result<Ret, Error> {
    let name = &args.name;
    let mut would = format!("User {name} set to be added");
    if !missing.is_empty() {
        would.push_str(&format!(" (pending groups: {})", missing.join(",")));
    }
    cx.apply(Ret::would(would), || {
        fs::inverse(cx, &user::USER, name, false, true);
        if !change::create(cx, &creation(args))? {
            return Ok(Ret::failed(format!("Failed to create new user {name}")));
        }
        let mut ret = Ret::ok(format!("New user {name} created"));
        let mut info = user::find(name, args.root()).unwrap_or_default();
        if !args.createhome {
            info.insert("home", "");
        }
        ret.changes = info.into();
        fs::inverse(cx, &user::USER, name, false, user::present(name));
        first_password(cx, args, ret)
    })
}

fn creation(args: &Present) -> Add {
    let mut groups = args.groups.clone().unwrap_or_default();
    groups.extend(args.optional_groups.iter().flatten().cloned());
    let is_given = args.groups.is_some() || !groups.is_empty();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Add {
        name: args.name.clone(),
        uid: args.uid.map(|uid| uid.to_string()),
        gid: Some(&args.gid)
            .filter(|gid| !gid.is_null())
            .map(Value::to_text),
        groups: is_given.then_some(groups),
        home: args.home.clone(),
        shell: args.shell.clone(),
        unique: args.unique,
        system: args.system,
        fullname: text(&args.fullname),
        roomnumber: text(&args.roomnumber),
        workphone: text(&args.workphone),
        homephone: text(&args.homephone),
        other: text(&args.other),
        createhome: args.createhome,
        loginclass: None,
        nologinit: args.nologinit,
        root: None,
        usergroup: args.usergroup,
        local: args.local,
    }
}

/// Sets the password and the numbers in the shadow file of a new user.
fn first_password(cx: &Exec, args: &Present, mut ret: Ret) -> Result<Ret, Error> {
    let name = &args.name;
    let fail = |ret: &mut Ret, what: &str| {
        ret.comment = format!("User {name} created but failed to {what}");
        ret.result = Some(false);
    };
    let password = args.password.as_deref().unwrap_or_default();
    if !password.is_empty() && !args.empty_password {
        if !shadow::set_hash(cx, name, password, None)? {
            fail(&mut ret, &format!("set password to {REDACTED}"));
        }
        ret = ret.change("password", REDACTED);
    }
    if args.empty_password && password.is_empty() {
        if !shadow::delete_password(cx, name, None)? {
            fail(&mut ret, "empty password");
        }
        ret = ret.change("password", "");
    }
    for ((key, number, what), value) in NUMBERS.iter().zip(args.numbers()) {
        let Some(value) = value.filter(|value| *value != 0 || *key == "date") else {
            continue;
        };
        shadow::set_number(cx, name, *number, &value.into(), None)?;
        if shadow::lookup(name, None)?.get(number.key) != Some(&value.into()) {
            fail(&mut ret, &format!("set {what} {value}"));
        }
        ret = ret.change(key, value);
    }
    Ok(ret)
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    accounts::check()?;
    let name = &args.name;
    if user::find(name, args.local.then_some("/")).is_none() {
        return Ok(Ret::ok(format!("User {name} is not present")));
    }
    let would = Ret::would(format!("User {name} set for removal"));
    cx.apply(would, || {
        let groups = user::groups_of(name);
        if !change::remove(cx, name, args.purge, args.force, None, args.local)? {
            return Ok(Ret::failed(format!("Failed to remove user {name}")));
        }
        let gone = groups
            .iter()
            .filter(|name| group::find(name, None).is_none());
        let ret = gone.fold(Ret::ok(format!("Removed user {name}")), |ret, group| {
            ret.change(&format!("{group} group"), "removed")
        });
        Ok(ret.change(name, "removed"))
    })
}
