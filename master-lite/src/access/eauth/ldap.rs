//! The source `ldap`: a directory, which the programs `ldapsearch` and `ldapwhoami` ask.

use machine::process::{Process, which};
use python::base64;
use state::module::Error;
use value::{Map, Value};

use super::Known;
use super::source::Source;

/// The maximum run time of a program in seconds, and the one to connect.
const TIMEOUT_S: i64 = 15;
const CONNECT_S: &str = "5";
/// The exit code of the programs for a wrong name or password.
const WRONG: i64 = 49;
/// The maximum number of entries of a search.
const ENTRIES_MAX: &str = "1000";

/// Checks a password, and returns the groups of its user.
pub(super) fn check(source: &Source, name: &str, password: &str) -> Result<Option<Known>, Error> {
    let directory = Directory::of(source)?;
    let Some(dn) = directory.dn_of(name)? else {
        return Ok(None);
    };
    let user = Bind {
        dn: dn.clone(),
        password: password.to_owned(),
    };
    if !directory.accepts(&user)? {
        return Ok(None);
    }
    let reader = directory.service.as_ref().unwrap_or(&user);
    let groups = directory.groups(reader, name, &dn)?;
    Ok(Some(Known { groups, acl: None }))
}

/// A name in the directory with its password.
struct Bind {
    dn: String,
    password: String,
}

/// The directory of the options `auth.ldap.…`.
struct Directory<'a> {
    source: &'a Source,
    uri: String,
    /// The name and password for searches, if they are configured.
    service: Option<Bind>,
}

impl<'a> Directory<'a> {
    fn of(source: &'a Source) -> Result<Self, Error> {
        let text = |name: &str| text(source, name);
        let is_set = |name: &str| source.opts().flag(&format!("auth.ldap.{name}"));
        if is_set("starttls") && is_set("tls") {
            return Err("auth.ldap.starttls and auth.ldap.tls exclude each other".into());
        }
        if is_set("anonymous") || is_set("auth_by_group_membership_only") {
            return Err("auth.ldap.anonymous would accept every password: remove it".into());
        }
        let scheme = if is_set("tls") { "ldaps" } else { "ldap" };
        let server = text("server").unwrap_or_else(|| "localhost".to_owned());
        let port = text("port").unwrap_or_else(|| "389".to_owned());
        let uri = text("uri").unwrap_or_else(|| format!("{scheme}://{server}:{port}"));
        let service = text("bindpw").map(|password| {
            let dn = text("binddn").ok_or("set auth.ldap.binddn")?;
            Ok::<_, Error>(Bind { dn, password })
        });
        Ok(Self {
            source,
            uri,
            service: service.transpose()?,
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        text(self.source, name)
    }

    fn needed(&self, name: &str) -> Result<String, Error> {
        self.text(name)
            .ok_or_else(|| Error::refused(format!("set auth.ldap.{name}")))
    }

    /// Returns the distinguished name of a user: the one entry that the filter finds, or `binddn` with
    /// the user's name in it.
    fn dn_of(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(service) = &self.service else {
            return Ok(Some(filled(&self.needed("binddn")?, &escaped_dn(name))?));
        };
        let filter = filled(&self.needed("filter")?, &escaped(name))?;
        let scope = match self.text("scope").as_deref() {
            None | Some("2") => "sub",
            Some("1") => "one",
            Some("0") => "base",
            Some(other) => {
                return Err(Error::refused(format!(
                    "auth.ldap.scope must be 0, 1 or 2, but got {other}"
                )));
            }
        };
        let found = self.search(service, &self.needed("basedn")?, scope, &filter, &["dn"])?;
        match found.as_slice() {
            [one] => Ok(one.first("dn")),
            [] => Ok(None),
            _ => Err(Error::refused(format!(
                "auth.ldap.filter finds several entries for {name}"
            ))),
        }
    }

    /// Returns whether the directory accepts a name and password.
    fn accepts(&self, bind: &Bind) -> Result<bool, Error> {
        match self.run("ldapwhoami", bind, &[])? {
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }

    /// Returns the names of a user's groups, by the settings for Active Directory, FreeIPA or other
    /// directories.
    fn groups(&self, reader: &Bind, name: &str, dn: &str) -> Result<Vec<String>, Error> {
        let opts = self.source.opts();
        let option = |name: &str, default: &str| self.text(name).unwrap_or_else(|| default.into());
        let account = option("accountattributename", "memberUid");
        let attribute = option("groupattribute", "memberOf");
        let base = self.needed("basedn")?;
        if opts.flag("auth.ldap.freeipa") {
            let filter = filled(&self.needed("group_filter")?, &escaped(name))?;
            let base = self.needed("group_basedn")?;
            let found = self.search(reader, &base, "sub", &filter, &[&account, &attribute])?;
            let is_member = |entry: &&Entry| {
                let members = entry.all(&account).chain(entry.all(&attribute));
                members
                    .into_iter()
                    .any(|member| first_value(member) == name)
            };
            let names = found.iter().filter(is_member);
            return Ok(names
                .filter_map(|entry| Some(first_value(&entry.first("dn")?).to_owned()))
                .collect());
        }
        let class = option("groupclass", "posixGroup");
        if opts.flag("auth.ldap.activedirectory") {
            let filter = format!("(&(member={})(objectClass={class}))", escaped(dn));
            let found = self.search(reader, &base, "sub", &filter, &["cn"])?;
            return Ok(found.iter().filter_map(|entry| entry.first("cn")).collect());
        }
        let base = match option("groupou", "Groups").as_str() {
            "" => base,
            unit => format!("ou={unit},{base}"),
        };
        let filter = format!("(&({account}={})(objectClass={class}))", escaped(name));
        let wanted = [account.as_str(), "cn", attribute.as_str()];
        let found = self.search(reader, &base, "sub", &filter, &wanted)?;
        let mut groups = Vec::new();
        for entry in &found {
            if entry.all(&account).any(|member| member == name) {
                groups.extend(entry.first("cn"));
            }
            if entry.first("dn").is_some_and(|dn| first_value(&dn) == name) {
                groups.extend(
                    entry
                        .all(&attribute)
                        .map(|group| first_value(group).to_owned()),
                );
            }
        }
        Ok(groups)
    }

    fn search(
        &self,
        bind: &Bind,
        base: &str,
        scope: &str,
        filter: &str,
        attributes: &[&str],
    ) -> Result<Vec<Entry>, Error> {
        let mut words = vec![
            "-LLL",
            "-o",
            "ldif-wrap=no",
            "-z",
            ENTRIES_MAX,
            "-b",
            base,
            "-s",
            scope,
        ];
        words.push(filter);
        words.extend(attributes);
        match self.run("ldapsearch", bind, &words)? {
            Some(text) => entries(&text),
            None => Err("the directory refuses the name or password for searches".into()),
        }
    }

    /// Runs a program, which reads the password from its standard input. Returns `None` if the
    /// directory refuses it.
    fn run(&self, program: &str, bind: &Bind, more: &[&str]) -> Result<Option<String>, Error> {
        let path = which(program)
            .ok_or_else(|| Error::refused(format!("{program} is missing: install ldap-utils")))?;
        let timeout = format!("nettimeout={CONNECT_S}");
        let mut words = vec![path.as_str(), "-x", "-H", &self.uri, "-D", &bind.dn];
        words.extend(["-y", "/dev/stdin", "-o", &timeout]);
        if self.source.opts().flag("auth.ldap.starttls") {
            words.push("-ZZ");
        }
        words.extend(more);
        let mut env = Map::new();
        if self.source.opts().flag("auth.ldap.no_verify") {
            env.insert("LDAPTLS_REQCERT", "never");
        }
        let process = Process {
            stdin: Some(bind.password.clone()),
            timeout: Some(Value::from(TIMEOUT_S)),
            cwd: Some("/".to_owned()),
            env,
            ..Process::words(words).quiet()
        };
        let done = process.run(&self.source.cx)?;
        match done.retcode {
            _ if done.timed_out => Err(format!("no answer within {TIMEOUT_S} s").into()),
            Some(WRONG) => Ok(None),
            _ => done.stdout_of_success(program).map(Some),
        }
    }
}

fn text(source: &Source, name: &str) -> Option<String> {
    let value = source.opts().get(&format!("auth.ldap.{name}"))?;
    Some(value.to_text()).filter(|text| !text.is_empty() && !value.is_null())
}

/// Replaces `{{ username }}` in a template. Other expressions of Jinja are refused.
fn filled(template: &str, name: &str) -> Result<String, Error> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (expression, after) = after.split_once("}}").unwrap_or(("", ""));
        if expression.trim() != "username" {
            return Err(Error::refused(format!(
                "{template}: only {{{{ username }}}} is supported"
            )));
        }
        text.push_str(before);
        text.push_str(name);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// Escapes a text for a filter (RFC 4515).
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '*' | '(' | ')' | '\\' | '\0' => out.push_str(&format!("\\{:02x}", u32::from(letter))),
            other => out.push(other),
        }
    }
    out
}

/// Escapes a text for a value of a distinguished name (RFC 4514).
fn escaped_dn(text: &str) -> String {
    let mut out = String::new();
    for (at, letter) in text.chars().enumerate() {
        let is_edge = at == 0 || at + 1 == text.chars().count();
        let is_special = "\\,+\"<>;=".contains(letter)
            || (at == 0 && letter == '#')
            || (is_edge && letter == ' ');
        if is_special {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// Returns the value of the first part of a distinguished name, or the whole text.
fn first_value(dn: &str) -> &str {
    let part = dn.split(',').next().unwrap_or(dn);
    part.rsplit('=').next().unwrap_or(part)
}

/// An entry of the directory: the names of attributes in lower case, with their values.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry(Vec<(String, String)>);

impl Entry {
    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let name = name.to_ascii_lowercase();
        let own = self.0.iter().filter(move |(known, _)| *known == name);
        own.map(|(_, value)| value.as_str())
    }

    fn first(&self, name: &str) -> Option<String> {
        self.all(name).next().map(str::to_owned)
    }
}

/// Reads the output of `ldapsearch -LLL`. References to other servers are skipped.
fn entries(text: &str) -> Result<Vec<Entry>, Error> {
    let mut all = Vec::new();
    for block in text.split("\n\n") {
        let mut entry = Entry::default();
        for line in block
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (name, value) = line.split_once(':').ok_or("a line of LDIF has no colon")?;
            let value = match value.strip_prefix(':') {
                None => value.trim_start().to_owned(),
                Some(encoded) => {
                    let bytes =
                        base64::decode(encoded.trim()).map_err(|_| "a value is not base64")?;
                    String::from_utf8_lossy(&bytes).into_owned()
                }
            };
            entry.0.push((name.to_ascii_lowercase(), value));
        }
        if entry.first("dn").is_some() {
            all.push(entry);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_filters_and_distinguished_names() {
        assert_eq!(escaped("a*)(uid=*"), "a\\2a\\29\\28uid=\\2a");
        assert_eq!(escaped_dn("#a,ou=x "), "\\#a\\,ou\\=x\\ ");
        assert_eq!(escaped_dn("joe"), "joe");
        let template = "uid={{ username }},dc=x";
        assert_eq!(filled(template, "joe").unwrap(), "uid=joe,dc=x");
        assert_eq!(filled("{{username}}@x", "joe").unwrap(), "joe@x");
        assert!(filled("{{ username|upper }}", "joe").is_err());
        assert!(filled("{{ username", "joe").is_err());
    }

    #[test]
    fn entries_are_read_from_ldif() {
        let text = "dn: cn=ops,ou=Groups,dc=x\ncn: ops\nmemberUid: joe\nmemberUid:: YW5u\n\n# refldap://other\n\ndn: cn=b,dc=x\n";
        let all = entries(text).unwrap();
        assert_eq!(all.len(), 2);
        let first = all.first().unwrap();
        assert_eq!(first.all("memberuid").collect::<Vec<_>>(), ["joe", "ann"]);
        assert_eq!(first_value(&first.first("dn").unwrap()), "ops");
        assert!(entries("dn: x\nbroken\n").is_err());
    }
}
