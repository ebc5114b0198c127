//! The `user` state module.

mod difference;

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, log, python};

use self::difference::{Wanted, difference};
use crate::accounts;
use crate::crypt;
use crate::exec::file::makedirs;
use crate::exec::shadow::{self, Number};
use crate::exec::user::change::{self, Add, GECOS};
use crate::exec::{group, user};
use crate::inverses;

state::state_module! {
    /// Management of user accounts.
    mod user;

    /// Ensure that a user is there with these properties.
    fn present(Present {
        /// The user.
        name: String,
        /// Its number.
        uid: Option<i64> = None,
        /// The name or number of its primary group.
        gid: Value = Value::Null,
        /// Make a primary group of the same name; without it as login.defs says.
        usergroup: Option<bool> = None,
        /// The groups that it is in; a missing one is an error.
        groups: Option<Vec<String>> = None,
        /// Groups that it is in where they are there.
        optional_groups: Option<Vec<String>> = None,
        /// Take it out of other groups.
        remove_groups: bool = true,
        /// Its home.
        home: Option<String> = None,
        /// Make the home if it is not there.
        createhome: bool = true,
        /// Move the old home where `home` says another.
        persist_home: bool = false,
        /// The hash of its password.
        password: Option<String> = None,
        /// `password` is in clear and is to be hashed.
        hash_password: bool = false,
        /// False leaves a password that was set.
        enforce_password: bool = true,
        /// Have it log in without a password.
        empty_password: bool = false,
        /// Its login shell.
        shell: Option<String> = None,
        /// False allows a number that another user has.
        unique: bool = true,
        /// Make a system account.
        system: bool = false,
        /// Its full name.
        fullname: Option<String> = None,
        /// Its room.
        roomnumber: Option<String> = None,
        /// Its telephone at work.
        workphone: Option<String> = None,
        /// Its telephone at home.
        homephone: Option<String> = None,
        /// What else the field holds.
        other: Option<String> = None,
        /// Of BSD only.
        loginclass: Option<String> = None,
        /// The day of the last change of the password: a date such as 2030-01-31, or days since 1970.
        date: Value = Value::Null,
        /// After how many days the password may be changed.
        mindays: Option<i64> = None,
        /// How many days the password holds.
        maxdays: Option<i64> = None,
        /// After how many days without a new password the account is locked.
        inactdays: Option<i64> = None,
        /// How many days before the password's end it is warned of.
        warndays: Option<i64> = None,
        /// The day on which the account expires, as of `date`; -1 for never.
        expire: Value = Value::Null,
        /// Of Windows only.
        win_homedrive: Value = Value::Null,
        /// Of Windows only.
        win_profile: Value = Value::Null,
        /// Of Windows only.
        win_logonscript: Value = Value::Null,
        /// Of Windows only.
        win_description: Value = Value::Null,
        /// Keep it out of lastlog and faillog.
        nologinit: bool = false,
        /// Allow to change its number.
        allow_uid_change: bool = false,
        /// Allow to change its primary group.
        allow_gid_change: bool = false,
        /// True locks the password, False unlocks it.
        password_lock: Option<bool> = None,
        /// Add it with luseradd, to the files of this machine.
        local: bool = false,
    });

    /// Ensure that a user is not there.
    fn absent(Absent {
        /// The user.
        name: String,
        /// Remove its files as well.
        purge: bool = false,
        /// Remove it even where it is logged in.
        force: bool = false,
        /// Remove it with luserdel.
        local: bool = false,
    });
}

const REDACTED: &str = "XXX-REDACTED-XXX";

/// The numbers of the shadow file: the argument, the number, and what a failure calls it.
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
    // A comma in one of them would begin the next.
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
    // What is missing in test mode may be made by a state before this one in a real run.
    if let Some(groups) = &mut args.groups {
        groups.retain(|group| !missing.contains(group));
    }
    if let Some(groups) = &mut args.optional_groups {
        groups.retain(|name| group::known(name, None).is_some());
    }
    let own_group = args.usergroup == Some(true) && group::known(&args.name, None).is_some();
    let gid = if own_group {
        args.name.as_str().into()
    } else {
        args.gid.clone()
    };
    let wanted = Wanted { args: &args, gid };
    match difference(&wanted)? {
        None => add(cx, &args, &missing),
        Some(changes) => {
            if let Some(why) = wanted.refusal(&changes) {
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

/// The hash of the password: made like the one that is there, so that the same password gives the same hash.
fn hashed(args: &Present) -> Result<Option<String>, Error> {
    let Some(password) = args.password.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(args.password.clone());
    };
    let now = shadow::known(&args.name, None)?;
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
        .filter(|name| group::known(name, None).is_none())
        .cloned()
        .collect()
}

fn announced(changes: &Map, missing: &[String]) -> String {
    let mut text = "The following user attributes are set to be changed:\n".to_owned();
    for (key, value) in &shown(changes) {
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

/// The changes as a user may see them.
fn shown(changes: &Map) -> Map {
    let mut changes = changes.clone();
    if let Some(password) = changes.get_mut("passwd") {
        *password = REDACTED.into();
    }
    changes
}

fn update(cx: &Exec, args: &Present, mut changes: Map) -> Result<Ret, Error> {
    let (name, root) = (args.name.as_str(), args.root());
    let before_shadow = shadow::known(name, None)?;
    let before = user::known(name, root).unwrap_or_default();
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
    // The primary group is set before, or usermod would judge the others by the old one.
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
        let left = python::repr(&shown(&left).into());
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

/// What is another than before.
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
        &user::known(&args.name, args.root()).unwrap_or_default(),
    );
    let hash = before_shadow.get("passwd").and_then(Value::as_str);
    if args.password.is_none() || hash != args.password.as_deref() {
        compare(before_shadow, &shadow::known(&args.name, None)?);
        // `passwd` of `user.info` is the mark that sends to the shadow file.
        return Ok(shown(&changes));
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
        inverses::note(cx, inverses::USER, name, false, true);
        if !change::create(cx, &creation(args))? {
            return Ok(Ret::failed(format!("Failed to create new user {name}")));
        }
        let mut ret = Ret::ok(format!("New user {name} created"));
        let mut info = user::known(name, args.root()).unwrap_or_default();
        if !args.createhome {
            info.insert("home", "");
        }
        ret.changes = info.into();
        inverses::note_made(cx, inverses::USER, name);
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

/// Sets what the shadow file says of a user that is new.
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
        if shadow::known(name, None)?.get(number.key) != Some(&value.into()) {
            fail(&mut ret, &format!("set {what} {value}"));
        }
        ret = ret.change(key, value);
    }
    Ok(ret)
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    accounts::check()?;
    let name = &args.name;
    if user::known(name, args.local.then_some("/")).is_none() {
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
            .filter(|name| group::known(name, None).is_none());
        let ret = gone.fold(Ret::ok(format!("Removed user {name}")), |ret, group| {
            ret.change(&format!("{group} group"), "removed")
        });
        Ok(ret.change(name, "removed"))
    })
}
