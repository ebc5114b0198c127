//! The part of the `postgres` execution module that manages privileges on objects.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{Conn, Login, cell, ident, quoted};

state::exec_module! {
    /// Manage PostgreSQL with `psql`.
    mod postgres;

    /// Return the privileges of all roles on an object.
    ///
    ///     salt-call postgres.privileges_list orders table maintenance_db=shop
    fn privileges_list(PrivilegesList {
        /// The name of the object.
        name: String,
        /// The kind of the object: `table`, `sequence`, `schema`, `tablespace`, `language`,
        /// `database`, `group` or `function`.
        object_type: String,
        /// The schema of the object.
        prepend: String = "public".into(),
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        #[group] login: Login,
    });

    /// Return whether a role has privileges on an object.
    ///
    ///     salt-call postgres.has_privileges shop orders table SELECT maintenance_db=shop
    fn has_privileges(HasPrivileges {
        #[group] privilege: Privileges,
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        #[group] login: Login,
    });

    /// Grant privileges.
    ///
    ///     salt-call postgres.privileges_grant shop orders table SELECT,INSERT maintenance_db=shop
    fn privileges_grant(PrivilegesGrant {
        #[group] privilege: Privileges,
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        #[group] login: Login,
    });

    /// Revoke privileges.
    ///
    ///     salt-call postgres.privileges_revoke shop orders table INSERT maintenance_db=shop
    fn privileges_revoke(PrivilegesRevoke {
        /// The role.
        name: String,
        /// The name of the object; `ALL` for all objects in the schema.
        object_name: String,
        /// The kind of the object: `table`, `sequence`, `schema`, `tablespace`, `language`,
        /// `database`, `group` or `function`.
        object_type: String,
        /// The privileges, separated by commas.
        privileges: Option<String> = None,
        /// The schema of the object.
        prepend: String = "public".into(),
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        #[group] login: Login,
    });
}

/// The privileges that the letters of access lists denote.
const WORDS: [(char, &str); 14] = [
    ('a', "INSERT"),
    ('C', "CREATE"),
    ('D', "TRUNCATE"),
    ('c', "CONNECT"),
    ('t', "TRIGGER"),
    ('r', "SELECT"),
    ('U', "USAGE"),
    ('T', "TEMPORARY"),
    ('w', "UPDATE"),
    ('X', "EXECUTE"),
    ('x', "REFERENCES"),
    ('d', "DELETE"),
    ('m', "MAINTAIN"),
    ('*', "GRANT"),
];

/// A kind of object: its name, the letters of its privileges, and the queries for its access list
/// and its owner. In the queries `{n}` is the name of the object and `{s}` its schema.
struct Kind {
    name: &'static str,
    letters: &'static str,
    list: &'static str,
    owner: &'static str,
}

const KINDS: [Kind; 8] = [
    Kind {
        name: "table",
        letters: "arwdDxtm",
        list: "SELECT relacl AS name FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
            WHERE nspname = {s} AND relname = {n} AND relkind in ('r', 'v') ORDER BY relname",
        owner: "SELECT tableowner AS name FROM pg_tables WHERE schemaname = {s} AND tablename = {n}",
    },
    Kind {
        name: "tablespace",
        letters: "C",
        list: "SELECT spcacl AS name FROM pg_catalog.pg_tablespace WHERE spcname = {n} ORDER BY spcname",
        owner: "SELECT rolname AS name FROM pg_tablespace t JOIN pg_roles r ON t.spcowner = r.oid WHERE spcname = {n}",
    },
    Kind {
        name: "language",
        letters: "U",
        list: "SELECT lanacl AS name FROM pg_catalog.pg_language WHERE lanname = {n} ORDER BY lanname",
        owner: "SELECT rolname AS name FROM pg_language l JOIN pg_roles r ON l.lanowner = r.oid WHERE lanname = {n}",
    },
    Kind {
        name: "sequence",
        letters: "rwU",
        list: "SELECT relacl AS name FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
            WHERE nspname = {s} AND relname = {n} AND relkind = 'S' ORDER BY relname",
        owner: "SELECT rolname AS name FROM pg_catalog.pg_class c JOIN pg_roles r ON c.relowner = r.oid \
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE relkind='S' AND nspname={s} AND relname = {n}",
    },
    Kind {
        name: "schema",
        letters: "UC",
        list: "SELECT nspacl AS name FROM pg_catalog.pg_namespace WHERE nspname = {n} ORDER BY nspname",
        owner: "SELECT rolname AS name FROM pg_namespace n JOIN pg_roles r ON n.nspowner = r.oid WHERE nspname = {n}",
    },
    Kind {
        name: "database",
        letters: "CTc",
        list: "SELECT datacl AS name FROM pg_catalog.pg_database WHERE datname = {n} ORDER BY datname",
        owner: "SELECT rolname AS name FROM pg_database d JOIN pg_roles r ON d.datdba = r.oid WHERE datname = {n}",
    },
    Kind {
        name: "function",
        letters: "X",
        list: "SELECT proacl AS name FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
            WHERE nspname = {s} AND p.oid::regprocedure::text = {n} ORDER BY proname, proargtypes",
        owner: "SELECT rolname AS name FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
            JOIN pg_catalog.pg_roles r ON p.proowner = r.oid WHERE nspname = {s} AND p.oid::regprocedure::text = {n} \
            ORDER BY proname, proargtypes",
    },
    Kind {
        name: "group",
        letters: "",
        list: "SELECT rolname, admin_option FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles r ON m.member=r.oid \
            WHERE m.roleid IN (SELECT oid FROM pg_catalog.pg_roles WHERE rolname={n}) ORDER BY rolname",
        owner: "",
    },
];

state::argument_group! {
    /// The privileges of a role on an object.
    pub(crate) struct Privileges {
        /// The name of the role.
        name: String,
        /// The name of the object.
        object_name: String,
        /// The type of the object, such as `table`.
        object_type: String,
        /// The privileges, separated by commas.
        privileges: Option<String> = None,
        /// True if the role may grant the privileges to others.
        grant_option: Option<bool> = None,
        /// The schema of the object.
        prepend: String = "public".into(),
    }
}

fn kind_of(object_type: &str) -> Result<&'static Kind, Error> {
    let name = object_type.to_lowercase();
    let found = KINDS.iter().find(|kind| kind.name == name);
    found.ok_or_else(|| Error::refused(format!("Invalid object_type: {name} provided")))
}

fn word(letter: char) -> Option<&'static str> {
    let mut words = WORDS.iter();
    words
        .find(|(known, _)| *known == letter)
        .map(|(_, word)| *word)
}

impl Kind {
    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.letters.chars().filter_map(word)
    }

    fn is_group(&self) -> bool {
        self.letters.is_empty()
    }

    /// Returns whether objects of this kind belong to a schema.
    fn is_inside(&self) -> bool {
        matches!(self.name, "table" | "sequence" | "function")
    }

    /// Returns the privileges of each role: a dictionary of privileges whose values say whether the
    /// role may grant them further. For a group, the value of each role says this for the
    /// membership.
    fn list(&self, cx: &Exec, conn: &Conn, (name, schema): (&str, &str)) -> Result<Map, Error> {
        let mut all = Map::new();
        for row in conn.query(cx, &filled(self.list, name, schema))? {
            if self.is_group() {
                all.insert(cell(&row, "rolname"), cell(&row, "admin_option") == "t");
            } else {
                all.update(entries(&cell(&row, "name")));
            }
        }
        Ok(all)
    }

    fn owner(
        &self,
        cx: &Exec,
        conn: &Conn,
        requested: &Privileges,
    ) -> Result<Option<String>, Error> {
        let query = filled(self.owner, &requested.object_name, &requested.prepend);
        let rows = conn.query(cx, &query)?;
        Ok(rows.first().map(|row| cell(row, "name")))
    }
}

fn filled(query: &str, name: &str, schema: &str) -> String {
    let parts: Vec<String> = query
        .split("{n}")
        .map(|part| part.replace("{s}", &quoted(schema)))
        .collect();
    parts.join(&quoted(name))
}

/// Parses the entries of an access list.
fn entries(list: &str) -> Map {
    let mut all = Map::new();
    for part in list
        .trim_matches(['{', '}'])
        .split(',')
        .filter(|part| !part.is_empty())
    {
        let given = part.split_once('/').map_or(part, |(given, _)| given);
        let Some((role, letters)) = given.split_once('=') else {
            log::debug(format_args!("Skipping malformed ACL entry: {part}"));
            continue;
        };
        let role = if role.is_empty() { "public" } else { role };
        all.insert(role, privileges_of(letters));
    }
    all
}

fn privileges_of(letters: &str) -> Map {
    let mut all = Map::new();
    let mut last = None;
    for letter in letters.chars() {
        if let ('*', Some(last)) = (letter, last) {
            all.insert(last, true);
        } else if let Some(word) = word(letter) {
            all.insert(word, false);
            last = Some(word);
        }
    }
    all
}

impl Privileges {
    /// Returns the kind of the object and the list of privileges, after checking that they fit each
    /// other.
    fn checked(&self) -> Result<(&'static Kind, Vec<String>), Error> {
        let kind = kind_of(&self.object_type)?;
        let given = self.privileges.as_deref().unwrap_or_default();
        let words: Vec<String> = given
            .to_uppercase()
            .split(',')
            .map(|word| word.trim().to_owned())
            .collect();
        if kind.is_group() {
            return match given.is_empty() {
                true => Ok((kind, words)),
                false => {
                    Err("The privileges option should not be set for object_type group".into())
                }
            };
        }
        let is_known = |word: &String| word == "ALL" || kind.words().any(|known| known == word);
        if !words.iter().all(is_known) {
            return Err(Error::refused(format!(
                "Invalid privilege(s): {given} provided for object {}",
                kind.name
            )));
        }
        Ok((kind, words))
    }

    /// Returns the part of the statement between the privileges and the role.
    fn object(&self, kind: &Kind) -> String {
        let (schema, name) = (&self.prepend, &self.object_name);
        let what = kind.name.to_uppercase();
        if !kind.is_inside() {
            return format!("{what} {}", ident(name));
        }
        if name.eq_ignore_ascii_case("all") {
            return format!("ALL {what}S IN SCHEMA {schema}");
        }
        // The arguments of a function are not part of its name.
        let (name, arguments) = match name.find('(').filter(|_| kind.name == "function") {
            Some(at) => name.split_at(at),
            None => (name.as_str(), ""),
        };
        format!("{what} {schema}.{}{arguments}", ident(name))
    }
}

/// Returns whether a role has the privileges.
pub(crate) fn has(cx: &Exec, conn: &Conn, requested: &Privileges) -> Result<bool, Error> {
    let (kind, words) = requested.checked()?;
    if !kind.is_group() && kind.owner(cx, conn, requested)?.as_ref() == Some(&requested.name) {
        return Ok(true);
    }
    let all = kind.list(cx, conn, (&requested.object_name, &requested.prepend))?;
    let Some(found) = all.get(&requested.name) else {
        return Ok(false);
    };
    let may_grant = requested.grant_option.unwrap_or(false);
    let Some(found) = found.as_map() else {
        return Ok(!may_grant || found.is_true());
    };
    let has = |word: &str| {
        found
            .get(word)
            .is_some_and(|may| !may_grant || may.is_true())
    };
    Ok(if words.iter().any(|word| word == "ALL") {
        // Only servers since version 17 know MAINTAIN.
        kind.words().all(|word| word == "MAINTAIN" || has(word))
    } else {
        words.iter().all(|word| has(word))
    })
}

/// Grants the privileges.
pub(crate) fn grant(cx: &Exec, conn: &Conn, requested: &Privileges) -> Result<bool, Error> {
    let (kind, words) = requested.checked()?;
    let name = ident(&requested.name);
    let (mut sql, option) = if kind.is_group() {
        let sql = format!("GRANT {} TO {name}", requested.object_name);
        (sql, " WITH ADMIN OPTION")
    } else {
        let object = requested.object(kind);
        let sql = format!("GRANT {} ON {object} TO {name}", words.join(","));
        (sql, " WITH GRANT OPTION")
    };
    if requested.grant_option == Some(true) {
        sql.push_str(option);
    }
    conn.change(cx, &sql)
}

/// Revokes the privileges.
pub(crate) fn revoke(cx: &Exec, conn: &Conn, requested: &Privileges) -> Result<bool, Error> {
    let (kind, words) = requested.checked()?;
    let name = ident(&requested.name);
    let sql = match kind.is_group() {
        true => format!("REVOKE {} FROM {name}", requested.object_name),
        false => format!(
            "REVOKE {} ON {} FROM {name}",
            words.join(","),
            requested.object(kind)
        ),
    };
    conn.change(cx, &sql)
}

fn privileges_list(cx: &Exec, args: PrivilegesList) -> Result<Value, Error> {
    let kind = kind_of(&args.object_type)?;
    let conn = args.login.conn(args.maintenance_db);
    Ok(kind.list(cx, &conn, (&args.name, &args.prepend))?.into())
}

fn has_privileges(cx: &Exec, args: HasPrivileges) -> Result<Value, Error> {
    let conn = args.login.conn(args.maintenance_db);
    Ok(has(cx, &conn, &args.privilege)?.into())
}

fn privileges_grant(cx: &Exec, args: PrivilegesGrant) -> Result<Value, Error> {
    let grant_option = args.privilege.grant_option;
    let mut requested = Privileges {
        grant_option: None,
        ..args.privilege
    };
    let conn = args.login.conn(args.maintenance_db);
    if has(cx, &conn, &requested)? {
        log::info("The privileges are set already");
        return Ok(false.into());
    }
    requested.grant_option = grant_option;
    Ok(grant(cx, &conn, &requested)?.into())
}

fn privileges_revoke(cx: &Exec, args: PrivilegesRevoke) -> Result<Value, Error> {
    let requested = Privileges {
        name: args.name,
        object_name: args.object_name,
        object_type: args.object_type,
        privileges: args.privileges,
        grant_option: None,
        prepend: args.prepend,
    };
    let conn = args.login.conn(args.maintenance_db);
    Ok((has(cx, &conn, &requested)? && revoke(cx, &conn, &requested)?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(object_type: &str, object_name: &str, privileges: &str) -> Privileges {
        Privileges {
            name: "me".to_owned(),
            object_name: object_name.to_owned(),
            object_type: object_type.to_owned(),
            privileges: (!privileges.is_empty()).then(|| privileges.to_owned()),
            grant_option: None,
            prepend: "public".to_owned(),
        }
    }

    #[test]
    fn access_lists_say_who_has_what() {
        let all = value::python::repr(&entries("{postgres=arw*/postgres,=r/postgres}").into());
        assert_eq!(
            all,
            "{'postgres': {'INSERT': False, 'SELECT': False, 'UPDATE': True}, 'public': {'SELECT': False}}"
        );
        assert!(entries("").is_empty());
    }

    #[test]
    fn an_object_is_named_as_its_kind_wants() {
        let object = |kind: &str, name: &str| {
            let requested = options(kind, name, "ALL");
            requested.object(requested.checked().unwrap().0)
        };
        assert_eq!(object("Table", "t\""), "TABLE public.\"t\"\"\"");
        assert_eq!(object("sequence", "all"), "ALL SEQUENCES IN SCHEMA public");
        assert_eq!(
            object("function", "f(integer)"),
            "FUNCTION public.\"f\"(integer)"
        );
        assert_eq!(object("database", "db"), "DATABASE \"db\"");
    }

    #[test]
    fn privileges_that_an_object_has_not_are_refused() {
        let refused = |kind: &str, words: &str| options(kind, "x", words).checked().is_err();
        assert!(refused("table", "CONNECT") && refused("table", "") && refused("group", "ALL"));
        assert!(refused("view", "SELECT") && !refused("group", ""));
        assert!(!refused("table", "select, insert"));
    }
}
