//! The part of the `user` execution module that reads information about users.

pub(crate) mod change;

use std::path::Path;

use machine::accounts::{self, User};
use state::exec::Exec;
use state::facts::Inverse;
use state::module::Error;
use value::{Map, Value};

use crate::loader::call::succeed;

state::exec_module! {
    /// Manage the users of this machine.
    #[module(inverses = [&USER])]
    mod user;

    /// Return information about a user, or an empty dictionary if the user does not exist.
    ///
    ///     salt-call user.info alice
    fn info(Info {
        /// The name of the user.
        name: String,
        /// The root folder of another system. Only its user file is read.
        root: Option<String> = None,
    });

    /// Return the sorted names of all users.
    ///
    ///     salt-call user.list_users
    fn list_users(ListUsers {
        /// The root folder of another system. Only its user file is read.
        root: Option<String> = None,
    });

    /// Return the sorted names of a user's groups.
    ///
    ///     salt-call user.list_groups alice
    fn list_groups(ListGroups {
        /// The name of the user.
        name: String,
    });

    /// Return the name of a user's primary group.
    ///
    ///     salt-call user.primary_group alice
    fn primary_group(PrimaryGroup {
        /// The name of the user.
        name: String,
    });

    /// Return the login class of a user, which exists only on OpenBSD.
    ///
    ///     salt-call user.get_loginclass alice
    fn get_loginclass(GetLoginclass {
        /// The name of the user.
        name: String,
    });

    /// Return information about all users.
    ///
    ///     salt-call user.getent
    fn getent(Getent {
        /// Accepted and ignored: no data is cached between calls.
        refresh: bool = false,
        /// The root folder of another system. Only its user file is read.
        root: Option<String> = None,
    });
}

/// A user: its properties, or false.
pub(crate) static USER: Inverse = Inverse {
    word: "user",
    owns_files: true,
    now: |_, name| Ok(present(name)),
    can: Inverse::always,
    make: restore,
};

/// Returns the properties of a user that are compared and restored; false if it does not exist.
pub(crate) fn present(name: &str) -> Value {
    let keys = ["uid", "gid", "home", "shell", "fullname"];
    compared(find(name, None), &keys)
}

/// Returns the properties of an account that are compared and restored; false without an account.
pub(crate) fn compared(known: Option<Map>, keys: &[&str]) -> Value {
    known.map_or(Value::Bool(false), |known| {
        let all = keys.iter();
        let all = all.filter_map(|key| Some((*key, known.get(key)?.clone())));
        all.collect::<Map>().into()
    })
}

/// Removes a user but not the home directory, or creates the user again.
fn restore(cx: &Exec, name: &str, was: &Value) -> Result<(), Error> {
    let Some(was) = was.as_map() else {
        return succeed(cx, "user.delete", name, Map::new());
    };
    let mut kwargs = was.clone();
    let gid = kwargs.remove("gid").and_then(|gid| gid.as_int());
    let gid = gid.and_then(|gid| u32::try_from(gid).ok());
    match gid.and_then(accounts::group_of) {
        Some(group) => kwargs.insert("gid", group.gid),
        None => kwargs.insert("usergroup", true),
    };
    succeed(cx, "user.add", name, kwargs)
}

/// Returns information about a user in the form of `user.info`, or `None` if the user does not
/// exist.
pub(crate) fn find(name: &str, root: Option<&str>) -> Option<Map> {
    let user = match root {
        None => accounts::user(name),
        Some(root) => accounts::users_below(Path::new(root))
            .into_iter()
            .find(|user| user.name == name),
    };
    user.as_ref().map(info_map)
}

fn all(root: Option<&str>) -> Vec<User> {
    root.map_or_else(accounts::users, |root| {
        accounts::users_below(Path::new(root))
    })
}

fn info_map(user: &User) -> Map {
    let mut gecos = user.gecos.splitn(5, ',');
    let mut part = || gecos.next().unwrap_or_default();
    Map::new()
        .with("gid", user.gid)
        .with("groups", groups(user))
        .with("home", user.home.as_str())
        .with("name", user.name.as_str())
        .with("passwd", user.passwd.as_str())
        .with("shell", user.shell.as_str())
        .with("uid", user.uid)
        .with("fullname", part())
        .with("roomnumber", part())
        .with("workphone", part())
        .with("homephone", part())
        .with("other", part())
}

/// Returns the sorted names of a user's groups. If groups share a number, all of them are included.
fn groups(user: &User) -> Vec<String> {
    let numbers: Vec<u32> = accounts::groups_of(user)
        .iter()
        .map(|group| group.gid)
        .collect();
    let mut names: Vec<String> = accounts::groups()
        .into_iter()
        .filter(|group| numbers.contains(&group.gid))
        .map(|group| group.name)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the sorted names of a user's groups.
pub(crate) fn groups_of(name: &str) -> Vec<String> {
    match accounts::user(name) {
        Some(user) => groups(&user),
        None => {
            let mut names: Vec<String> = accounts::groups()
                .into_iter()
                .filter(|group| group.members.iter().any(|member| member == name))
                .map(|group| group.name)
                .collect();
            names.sort();
            names
        }
    }
}

fn info(_cx: &Exec, args: Info) -> Result<Value, Error> {
    let known = find(&args.name, args.root.as_deref());
    Ok(known.unwrap_or_default().into())
}

fn list_users(_cx: &Exec, args: ListUsers) -> Result<Value, Error> {
    let mut names: Vec<String> = all(args.root.as_deref())
        .into_iter()
        .map(|user| user.name)
        .collect();
    names.sort();
    Ok(names.into())
}

fn list_groups(_cx: &Exec, args: ListGroups) -> Result<Value, Error> {
    Ok(groups_of(&args.name).into())
}

fn primary_group(_cx: &Exec, args: PrimaryGroup) -> Result<Value, Error> {
    let name = &args.name;
    let user = accounts::user(name)
        .ok_or_else(|| Error::refused(format!("id: '{name}': no such user")))?;
    let group = accounts::group_of(user.gid);
    Ok(group
        .map_or_else(|| user.gid.to_string(), |group| group.name)
        .into())
}

fn getent(_cx: &Exec, args: Getent) -> Result<Value, Error> {
    let users = all(args.root.as_deref());
    Ok(Value::list(users.iter().map(|user| info_map(user).into())))
}

/// Returns False, as Salt does on all systems except OpenBSD.
fn get_loginclass(_cx: &Exec, _args: GetLoginclass) -> Result<Value, Error> {
    Ok(false.into())
}

#[cfg(test)]
mod tests {
    use value::{Map, Value};

    use crate::testing::exec;

    #[test]
    fn root_is_known_and_a_stranger_is_not() {
        let info = |name: &str| {
            exec()
                .call("user.info", vec![name.into()], Map::new())
                .unwrap()
        };
        let root = info("root");
        assert_eq!(root.get("uid"), Some(&Value::Int(0)));
        assert_eq!(root.as_map().unwrap().len(), 12);
        assert_eq!(info("no-such-user"), Map::new().into());
        let group = exec().call("user.primary_group", vec!["root".into()], Map::new());
        assert_eq!(group.unwrap(), "root".into());
    }
}
