//! The `acl` state module.

use std::path::Path;

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::acl::lists;

state::state_module! {
    /// Access lists of files (`getfacl`, `setfacl`).
    #[needs(
        "getfacl",
        "The linux_acl state cannot be loaded: the getfacl or setfacl binary is not in the path.",
        "acl"
    )]
    #[needs(
        "setfacl",
        "The linux_acl state cannot be loaded: the getfacl or setfacl binary is not in the path.",
        "acl"
    )]
    mod acl;

    /// Make sure that an access list has an entry.
    ///
    ///     /srv/reports:
    ///       acl.present:
    ///         - acl_type: user
    ///         - acl_name: alice
    ///         - perms: rwx
    fn present(Present {
        /// The file or folder.
        name: String,
        /// The type of the entry: `user`, `group` or `mask`; with the prefix `default:` it is an
        /// entry of the default list, which new files inherit.
        acl_type: String,
        /// The user or group.
        acl_name: String = String::new(),
        /// The permissions, such as `rwx`.
        perms: String = String::new(),
        /// True to set the entry also on everything below the folder.
        recurse: bool = false,
        /// True to remove all other entries.
        force: bool = false,
    });

    /// Make sure that an access list has no such entry.
    ///
    ///     /srv/reports:
    ///       acl.absent:
    ///         - acl_type: user
    ///         - acl_name: alice
    fn absent(Absent {
        /// The file or folder.
        name: String,
        /// The type of the entry: `user`, `group` or `mask`; with the prefix `default:` it is an
        /// entry of the default list, which new files inherit.
        acl_type: String,
        /// The user or group.
        acl_name: String = String::new(),
        /// Ignored.
        perms: String = String::new(),
        /// True to remove the entry also from everything below the folder.
        recurse: bool = false,
    });

    /// Make sure that an access list has an entry for each of several users or groups.
    ///
    ///     /srv/reports:
    ///       acl.list_present:
    ///         - acl_type: group
    ///         - acl_names: [audit, sales]
    ///         - perms: rx
    fn list_present(ListPresent {
        /// The file or folder.
        name: String,
        /// The type of the entries: `user` or `group`; with the prefix `default:` they are entries
        /// of the default list, which new files inherit.
        acl_type: String,
        /// The users or groups.
        acl_names: Option<Vec<String>> = None,
        /// The permissions, such as `rwx`.
        perms: String = String::new(),
        /// True to set the entries also on everything below the folder.
        recurse: bool = false,
        /// True to remove all other entries.
        force: bool = false,
    });

    /// Make sure that an access list has no entry for any of several users or groups.
    ///
    ///     /srv/reports:
    ///       acl.list_absent:
    ///         - acl_type: group
    ///         - acl_names: [audit, sales]
    fn list_absent(ListAbsent {
        /// The file or folder.
        name: String,
        /// The type of the entries: `user` or `group`; with the prefix `default:` they are entries
        /// of the default list, which new files inherit.
        acl_type: String,
        /// The users or groups.
        acl_names: Option<Vec<String>> = None,
        /// True to remove the entries also from everything below the folder.
        recurse: bool = false,
    });
}

/// The access lists of a file (and of the paths below it), and the kind of entry to look up in
/// them.
struct Lists<'a> {
    all: Map,
    name: &'a str,
    /// The type of the entry without the prefix `default:`: `user`, `group` or another.
    kind: &'a str,
    is_default: bool,
}

impl<'a> Lists<'a> {
    fn read(cx: &Exec, name: &'a str, acl_type: &'a str, recurse: bool) -> Result<Self, Error> {
        let all = lists(cx, &[name.into()], recurse)?;
        let default = acl_type
            .strip_prefix("d:")
            .or_else(|| acl_type.strip_prefix("default:"));
        Ok(Self {
            all,
            name,
            kind: default.unwrap_or(acl_type),
            is_default: default.is_some(),
        })
    }

    fn entries(&self, path: &str) -> &[Value] {
        let lists = self.all.get(path);
        let lists = match self.is_default {
            true => lists.and_then(|lists| lists.get("defaults")),
            false => lists,
        };
        lists
            .and_then(|lists| lists.get(self.kind)?.as_list())
            .unwrap_or_default()
    }

    /// Returns whether the file's access list can have entries of this kind.
    fn is_known(&self) -> bool {
        self.is_default || !self.entries(self.name).is_empty()
    }

    /// Returns the name to look up for an entry. For an empty `acl_name` it is the owner or group
    /// of the file.
    fn searched(&self, acl_name: &str) -> String {
        let comment = self
            .all
            .get(self.name)
            .and_then(|lists| lists.get("comment"));
        match acl_name {
            "" => comment
                .and_then(|all| all.get(self.kind))
                .map(Value::to_text)
                .unwrap_or_default(),
            named => named.to_owned(),
        }
    }

    /// Returns the permissions that a user or group has on a path, as an octal digit.
    fn octal(&self, path: &str, who: &str) -> Option<i64> {
        let mut entries = self.entries(path).iter().rev();
        entries.find_map(|entry| entry.get(who)?.get("octal")?.as_int())
    }

    /// Returns whether every path has the permissions. If `perms` ends with `X`, a path that is not
    /// executable may lack the execute permission.
    fn all_have(&self, who: &str, perms: &str, wanted: i64) -> bool {
        let fits =
            |now: i64| now == wanted || perms.ends_with('X') && now % 2 == 0 && now == wanted - 1;
        let paths = self.all.keys().map(Value::to_text);
        let mut paths = paths.filter(|path| !self.is_default || Path::new(path).is_dir());
        paths.all(|path| self.octal(&path, who).is_some_and(fits))
    }
}

fn digit(perms: &str) -> Result<i64, Error> {
    let of = |letter: char| match letter {
        'r' => Some(4),
        'w' => Some(2),
        'x' | 'X' => Some(1),
        '-' => Some(0),
        _ => None,
    };
    let digits: Option<Vec<i64>> = perms.chars().map(of).collect();
    let digits = digits.ok_or_else(|| {
        Error::argument("perms", format!("expected letters of rwxX-, got {perms}"))
    })?;
    Ok(digits.iter().sum())
}

fn letters(octal: i64) -> String {
    let letter = |bit: i64, letter: char| if octal & bit == 0 { '-' } else { letter };
    [letter(4, 'r'), letter(2, 'w'), letter(1, 'x')]
        .iter()
        .collect()
}

/// Returns the failure for a file that does not exist.
fn no_file(name: &str) -> Option<Ret> {
    (!Path::new(name).exists()).then(|| Ret::failed(format!("{name} does not exist")))
}

fn no_kind() -> Ret {
    Ret::failed("ACL Type does not exist")
}

const RIGHT: &str = "Permissions are in the desired state";

/// An entry to set for one or more names.
struct Entry<'a> {
    name: &'a str,
    acl_type: &'a str,
    names: &'a [String],
    perms: &'a str,
    recurse: bool,
    force: bool,
}

impl Entry<'_> {
    fn to_map(&self, perms: impl Into<Value>) -> Map {
        let about = Map::new().with("acl_name", self.names.join(", "));
        about.with("acl_type", self.acl_type).with("perms", perms)
    }

    fn set(&self, cx: &Exec) -> Result<(), Error> {
        let kwargs = Map::new()
            .with("recursive", self.recurse)
            .with("raise_err", true);
        if self.force {
            cx.call_internal("acl.wipefacls", vec![self.name.into()], kwargs.clone())?;
        }
        for one in self.names {
            let given = [self.acl_type, one, self.perms, self.name].map(Value::from);
            cx.call_internal("acl.modfacl", given.to_vec(), kwargs.clone())?;
        }
        Ok(())
    }

    /// Sets the entry, or in test mode returns the `would` text. `who` lists the names for the
    /// error message.
    fn apply(
        &self,
        cx: &Exec,
        would: String,
        done: String,
        who: &str,
        changes: Map,
    ) -> Result<Ret, Error> {
        let would = Ret::would(would).changes(changes.clone());
        cx.apply(would, || match self.set(cx) {
            Ok(()) => Ok(Ret::ok(done).changes(changes)),
            Err(error) if error.is_of_command() => Ok(Ret::failed(format!(
                "Error updating permissions for {who}: {error}"
            ))),
            Err(error) => Err(error),
        })
    }
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    if let Some(ret) = no_file(&args.name) {
        return Ok(ret);
    }
    let lists = Lists::read(cx, &args.name, &args.acl_type, args.recurse)?;
    if !lists.is_known() {
        return Ok(no_kind());
    }
    let (who, perms) = (args.acl_name.as_str(), args.perms.as_str());
    let names = [args.acl_name.clone()];
    let entry = Entry {
        name: &args.name,
        acl_type: &args.acl_type,
        names: &names,
        perms,
        recurse: args.recurse,
        force: args.force,
    };
    let searched = lists.searched(who);
    let new = Map::new().with("new", entry.to_map(perms));
    let Some(now) = lists.octal(&args.name, &searched) else {
        let would = format!("New permissions will be applied for {who}: {perms}");
        return entry.apply(
            cx,
            would,
            format!("Applied new permissions for {who}"),
            who,
            new,
        );
    };
    let wanted = digit(perms)?;
    let is_right = match args.recurse {
        true => lists.all_have(&searched, perms, wanted),
        false => now == wanted,
    };
    if is_right {
        return Ok(Ret::ok(RIGHT));
    }
    let old = letters(now);
    let would = format!("Updated permissions will be applied for {who}: {old} -> {perms}");
    let changes = new.with("old", entry.to_map(old));
    entry.apply(
        cx,
        would,
        format!("Updated permissions for {who}"),
        who,
        changes,
    )
}

fn list_present(cx: &Exec, args: ListPresent) -> Result<Ret, Error> {
    if let Some(ret) = no_file(&args.name) {
        return Ok(ret);
    }
    let lists = Lists::read(cx, &args.name, &args.acl_type, false)?;
    if !lists.is_known() {
        return Ok(no_kind());
    }
    let perms = args.perms.as_str();
    let names = args.acl_names.unwrap_or_default();
    let wanted = digit(perms)?;
    let entry = Entry {
        name: &args.name,
        acl_type: &args.acl_type,
        names: &names,
        perms,
        recurse: args.recurse,
        force: args.force,
    };
    let shown = python::repr(&Value::list(names.iter().map(Value::from)));
    let found: Vec<Option<i64>> = names
        .iter()
        .map(|name| lists.octal(&args.name, name))
        .collect();
    let wrong = found.iter().flatten().find(|now| **now != wanted);
    if found.iter().any(Option::is_none) {
        let would = format!("New permissions will be applied for {shown}: {perms}");
        let done = format!("Applied new permissions for {}", names.join(", "));
        let new = Map::new().with("new", entry.to_map(perms));
        return entry.apply(cx, would, done, &shown, new);
    }
    let Some(wrong) = wrong else {
        return Ok(Ret::ok(RIGHT));
    };
    let would = format!("Updated permissions will be applied for {shown}: {wrong} -> {perms}");
    let changes = Map::new().with("new", entry.to_map(wanted));
    let changes = changes.with("old", entry.to_map(wrong.to_string()));
    entry.apply(
        cx,
        would,
        format!("Updated permissions for {shown}"),
        &shown,
        changes,
    )
}

/// Removes the entries of the given names.
fn removed(
    cx: &Exec,
    name: &str,
    acl_type: &str,
    names: &[String],
    recurse: bool,
) -> Result<Ret, Error> {
    cx.apply(Ret::would("Removing permissions"), || {
        for one in names {
            let given = [acl_type, one, name].map(Value::from);
            let kwargs = Map::new().with("recursive", recurse);
            cx.call_internal("acl.delfacl", given.to_vec(), kwargs)?;
        }
        Ok(Ret::ok("Removing permissions"))
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    if let Some(ret) = no_file(&args.name) {
        return Ok(ret);
    }
    let lists = Lists::read(cx, &args.name, &args.acl_type, args.recurse)?;
    if !lists.is_known() {
        return Ok(no_kind());
    }
    let searched = lists.searched(&args.acl_name);
    let mut paths = lists.all.keys().map(Value::to_text);
    match paths.any(|path| lists.octal(&path, &searched).is_some()) {
        true => removed(
            cx,
            &args.name,
            &args.acl_type,
            &[args.acl_name],
            args.recurse,
        ),
        false => Ok(Ret::ok(RIGHT)),
    }
}

fn list_absent(cx: &Exec, args: ListAbsent) -> Result<Ret, Error> {
    if let Some(ret) = no_file(&args.name) {
        return Ok(ret);
    }
    let lists = Lists::read(cx, &args.name, &args.acl_type, false)?;
    if !lists.is_known() {
        return Ok(no_kind());
    }
    let names = args.acl_names.unwrap_or_default();
    match names
        .iter()
        .any(|name| lists.octal(&args.name, name).is_some())
    {
        true => removed(cx, &args.name, &args.acl_type, &names, args.recurse),
        false => Ok(Ret::ok(RIGHT)),
    }
}
