//! The `user` execution module: here the functions that read.

pub(crate) mod change;

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::accounts::{self, User};

state::exec_module! {
    /// Users of this machine.
    mod user;

    /// Return what is known of a user; nothing when there is none of that name.
    fn info(Info {
        /// Its name.
        name: String,
        /// Another root, whose file alone is read.
        root: Option<String> = None,
    });

    /// Return the names of all users, sorted.
    fn list_users(ListUsers {
        /// As of `user.info`.
        root: Option<String> = None,
    });

    /// Return the names of the groups that a user is in, sorted.
    fn list_groups(ListGroups {
        /// The user.
        name: String,
    });

    /// Return the name of a user's primary group.
    fn primary_group(PrimaryGroup {
        /// The user.
        name: String,
    });

    /// Return the login class of a user, which only OpenBSD has.
    fn get_loginclass(GetLoginclass {
        /// The user.
        name: String,
    });

    /// Return what is known of all users.
    fn getent(Getent {
        /// Accepted: nothing is kept between calls.
        refresh: bool = false,
        /// As of `user.info`.
        root: Option<String> = None,
    });
}

/// What is known of a user, as `user.info` returns it; nothing when there is none of that name.
pub(crate) fn known(name: &str, root: Option<&str>) -> Option<Map> {
    let user = match root {
        None => accounts::user(name),
        Some(root) => accounts::users_below(Path::new(root))
            .into_iter()
            .find(|user| user.name == name),
    };
    user.as_ref().map(of)
}

fn all(root: Option<&str>) -> Vec<User> {
    root.map_or_else(accounts::users, |root| {
        accounts::users_below(Path::new(root))
    })
}

fn of(user: &User) -> Map {
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

/// The names of the groups that a user is in, sorted; of groups that share a number all.
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

/// The names of the groups that a user is in, sorted.
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
    let known = known(&args.name, args.root.as_deref());
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
    Ok(Value::list(users.iter().map(|user| of(user).into())))
}

/// This is of OpenBSD: Salt says False elsewhere.
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
