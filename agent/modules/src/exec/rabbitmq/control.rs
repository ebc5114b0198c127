//! Runs `rabbitmqctl` and `rabbitmq-plugins`, and parses their listings.

use machine::fs::Temporary;
use machine::process::{Output, Process, which};
use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, python, random};

/// The server of this machine, and the account that runs the programs.
pub(crate) struct Rabbit<'a> {
    cx: &'a Exec,
    runas: Option<String>,
}

/// The requested settings of a policy.
pub(crate) struct Policy {
    pub vhost: String,
    pub name: String,
    pub pattern: String,
    /// The definition: JSON, or a dictionary.
    pub definition: Value,
    pub priority: i64,
    pub apply_to: Option<String>,
}

/// The requested settings of an upstream.
pub(crate) struct Upstream {
    pub name: String,
    /// The settings with the names that the server uses. Values that are not true are left out.
    pub settings: Vec<(&'static str, Value)>,
}

impl Policy {
    /// Returns the definition as JSON.
    pub(crate) fn json(&self) -> Result<String, Error> {
        match &self.definition {
            Value::Str(text) => Ok(text.to_string()),
            map @ Value::Map(_) => Ok(json::write(map, Layout::default())),
            _ => Err("The 'definition' argument must be a dictionary or JSON string".into()),
        }
    }
}

impl Upstream {
    /// Returns the settings that are set.
    pub(crate) fn map(&self) -> Map {
        let set = self.settings.iter().filter(|(_, value)| value.is_true());
        set.map(|(key, value)| (*key, value.clone())).collect()
    }
}

/// Returns the rows of a listing, without its header and the messages that older releases print
/// around it.
fn rows<'a>(text: &'a str, header: &'a str) -> impl Iterator<Item = &'a str> {
    let is_row = |line: &&str| {
        let is_title =
            line.starts_with("Listing") && (line.ends_with("...") || !line.contains('\t'));
        !is_title && !line.contains("...done") && !line.starts_with("WARNING:") && !line.is_empty()
    };
    let rows = text.lines().filter(is_row).enumerate();
    rows.filter(move |(number, line)| *number > 0 || *line != header)
        .map(|(_, line)| line)
}

fn tags_of(text: &str) -> Vec<String> {
    let inside = text.trim_start_matches('[').trim_end_matches(']');
    let at = if inside.contains(',') { ',' } else { ' ' };
    inside.split(at).map(|tag| tag.trim().to_owned()).collect()
}

fn policy_of(line: &str) -> Option<(String, Map)> {
    let parts: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [_, name, rest @ ..] = parts.as_slice() else {
        return None;
    };
    // Releases before 3.7 print the kind of object first, or not at all.
    let (apply_to, pattern, definition, priority) = match rest {
        [
            kind @ ("all" | "queues" | "exchanges"),
            pattern,
            definition,
            priority,
        ] => (Some(*kind), *pattern, *definition, *priority),
        [pattern, kind, definition, priority] => (Some(*kind), *pattern, *definition, *priority),
        [pattern, definition, priority] => (None, *pattern, *definition, *priority),
        _ => return None,
    };
    let mut policy = Map::new().with("pattern", pattern);
    if let Some(kind) = apply_to {
        policy.insert("apply_to", kind);
    }
    let policy = policy
        .with("definition", definition)
        .with("priority", priority);
    Some(((*name).to_owned(), policy))
}

impl<'a> Rabbit<'a> {
    /// Returns the server of this machine. `runas` is the account that runs the programs.
    pub(crate) fn new(cx: &'a Exec, runas: Option<String>) -> Self {
        Self { cx, runas }
    }

    fn run(&self, program: &str, words: &[&str], stdin: Option<String>) -> Result<Output, Error> {
        let path = which(program)
            .ok_or_else(|| Error::refused(format!("Command not found: {program}")))?;
        let has_secret = stdin.is_some();
        let process = Process {
            stdin: stdin.or_else(|| Some(String::new())),
            runas: self.runas.clone(),
            reset_system_locale: false,
            ..Process::words([path.as_str()].iter().chain(words).copied())
        };
        match has_secret {
            true => process.quiet().run(self.cx),
            false => process.run(self.cx),
        }
    }

    /// Returns the output of a command that has succeeded. Its standard error says nothing about that:
    /// the log lines of a node that starts or joins a cluster are printed there.
    fn checked_stdout(output: Output) -> Result<String, Error> {
        if !output.success() {
            return Err(Error::refused(format!(
                "RabbitMQ command failed: {}",
                output.stderr
            )));
        }
        Ok(output.into_stdout_regardless())
    }

    /// Runs `rabbitmqctl` and returns its output.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, Error> {
        Self::checked_stdout(self.run("rabbitmqctl", words, None)?)
    }

    /// Like [`Self::ask`], for commands with names from the user: a name that would be read as an
    /// option is an error.
    pub(crate) fn change(&self, words: &[&str]) -> Result<String, Error> {
        checked(words)?;
        self.ask(words)
    }

    /// Like [`Self::change`], for a command that reads a password from standard input.
    pub(crate) fn with_password(&self, words: &[&str], password: &str) -> Result<String, Error> {
        Self::checked_stdout(self.ask_password(words, password)?)
    }

    fn ask_password(&self, words: &[&str], password: &str) -> Result<Output, Error> {
        checked(words)?;
        if password.contains('\n') {
            return Err("the password has a line break, which rabbitmqctl does not support".into());
        }
        self.run("rabbitmqctl", words, Some(format!("{password}\n")))
    }

    /// Returns the users with their tags.
    pub(crate) fn users(&self) -> Result<Map, Error> {
        let text = self.ask(&["list_users", "-q"])?;
        let user = |line: &str| {
            let (name, tags) = line.split_once('\t').unwrap_or((line, ""));
            (name.to_owned(), Value::from(tags_of(tags)))
        };
        Ok(rows(&text, "user\ttags").map(user).collect())
    }

    pub(crate) fn vhosts(&self) -> Result<Vec<String>, Error> {
        let text = self.ask(&["list_vhosts", "-q"])?;
        Ok(rows(&text, "name")
            .map(|line| line.trim().to_owned())
            .collect())
    }

    /// Returns the upstreams with their definitions, which are JSON.
    pub(crate) fn upstreams(&self) -> Result<Map, Error> {
        let text = self.ask(&["list_parameters", "-q"])?;
        let parameter = |line: &str| {
            let mut parts = line.splitn(3, '\t');
            let component = parts.next()?;
            let found = (parts.next()?.to_owned(), parts.next()?.to_owned());
            (component == "federation-upstream").then_some(found)
        };
        Ok(rows(&text, "component\tname\tvalue")
            .filter_map(parameter)
            .collect())
    }

    /// Returns the permissions of a user for each virtual host.
    pub(crate) fn permissions(&self, user: &str) -> Result<Map, Error> {
        self.by(
            &["list_user_permissions", user, "--formatter=json"],
            "vhost",
        )
    }

    /// Returns the rows of a JSON listing by the value of one of their columns.
    pub(crate) fn by(&self, words: &[&str], key: &str) -> Result<Map, Error> {
        let text = self.ask(words)?;
        let found = json::read(&text).map_err(|problem| {
            Error::refused(format!(
                "cannot parse the output of rabbitmqctl as JSON: {problem}"
            ))
        })?;
        let mut all = Map::new();
        for row in found.as_list().unwrap_or_default() {
            let mut row = row.as_map().cloned().unwrap_or_default();
            if let Some(name) = row.remove(key) {
                all.insert(name, row);
            }
        }
        Ok(all)
    }

    /// Creates a user. A user without a password is created with a random password, which is then
    /// cleared.
    pub(crate) fn add_user(&self, name: &str, password: Option<&str>) -> Result<String, Error> {
        let words = ["add_user", name];
        if let Some(password) = password {
            return self.with_password(&words, password);
        }
        let unknown = python::hex(&random::array::<16>()?);
        let said = self.with_password(&words, &unknown)?;
        if let Err(why) = self.change(&["clear_password", name]) {
            self.change(&["delete_user", name])?;
            return Err(why);
        }
        Ok(said)
    }

    /// Returns whether the password is valid for the user.
    pub(crate) fn has_password(&self, name: &str, password: &str) -> Result<bool, Error> {
        let output = self.ask_password(&["authenticate_user", name], password)?;
        Ok(output.success())
    }

    /// Sets what a user may configure, write and read in a virtual host.
    pub(crate) fn permit(&self, vhost: &str, user: &str, what: [&str; 3]) -> Result<String, Error> {
        let [conf, write, read] = what;
        self.change(&["set_permissions", "-p", vhost, user, conf, write, read])
    }

    /// Sets the tags of a user.
    pub(crate) fn tag(&self, name: &str, tags: &[String]) -> Result<String, Error> {
        let mut words = vec!["set_user_tags", name];
        words.extend(tags.iter().map(String::as_str));
        self.change(&words)
    }

    /// Joins the cluster of a node.
    pub(crate) fn join(&self, node: &str, is_ram: bool) -> Result<String, Error> {
        self.change(&["stop_app"])?;
        let joined = match is_ram {
            true => self.ask(&["join_cluster", "--ram", node]),
            false => self.change(&["join_cluster", node]),
        };
        self.change(&["start_app"])?;
        joined
    }

    /// Returns the policies of a virtual host by name.
    pub(crate) fn policies(&self, vhost: &str) -> Result<Map, Error> {
        let text = self.change(&["list_policies", "-q", "-p", vhost])?;
        let header = "vhost\tname\tpattern\tapply-to\tdefinition\tpriority";
        Ok(rows(&text, header).filter_map(policy_of).collect())
    }

    pub(crate) fn set_policy(&self, policy: &Policy) -> Result<String, Error> {
        let (priority, definition) = (policy.priority.to_string(), policy.json()?);
        checked(&[&policy.vhost, &policy.name, &policy.pattern])?;
        let mut words = vec!["set_policy", "-p", &policy.vhost];
        if policy.priority != 0 {
            words.extend(["--priority", &priority]);
        }
        if let Some(kind) = &policy.apply_to {
            words.extend(["--apply-to", kind]);
        }
        words.extend([policy.name.as_str(), &policy.pattern, &definition]);
        self.ask(&words)
    }

    /// Returns the available plugins or, with `-e`, the enabled ones.
    pub(crate) fn plugins(&self, more: &[&str]) -> Result<Vec<String>, Error> {
        let words = [&["list", "-m"], more].concat();
        let text = Self::checked_stdout(self.run("rabbitmq-plugins", &words, None)?)?;
        let words = rows(&text, "").flat_map(str::split_whitespace);
        Ok(words.map(str::to_owned).collect())
    }

    /// Enables or disables a plugin.
    pub(crate) fn plugin(&self, how: &str, name: &str) -> Result<String, Error> {
        checked(&[name])?;
        Self::checked_stdout(self.run("rabbitmq-plugins", &[how, name], None)?)
    }

    /// Creates or changes an upstream. If the address contains a password it is not passed as an
    /// argument: the server evaluates a file instead.
    pub(crate) fn set_upstream(&self, upstream: &Upstream) -> Result<(), Error> {
        let json = json::write(&upstream.map().into(), Layout::default());
        let words = [
            "set_parameter",
            "federation-upstream",
            &upstream.name,
            &json,
        ];
        if !json.contains('@') {
            return self.change(&words).map(|_| ());
        }
        let [name, json] = [&upstream.name, &json].map(|text| binary(text));
        let call = format!(
            "rabbit_runtime_parameters:parse_set(<<\"/\">>, <<\"federation-upstream\">>, {name}, {json}, none)."
        );
        let owner = Value::from("rabbitmq");
        let file = Temporary::written(".erl", call.as_bytes(), Some(&owner))?;
        let path = file.path().display().to_string();
        let said = self.ask(&["eval_file", &path])?;
        match said.trim_end().ends_with("ok") {
            true => Ok(()),
            false => Err("RabbitMQ command failed: the server rejected the upstream".into()),
        }
    }

    pub(crate) fn delete_upstream(&self, name: &str) -> Result<(), Error> {
        let words = ["clear_parameter", "federation-upstream", name];
        self.change(&words).map(|_| ())
    }
}

/// Returns a text as an Erlang binary, byte by byte.
fn binary(text: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| byte.to_string()).collect();
    format!("<<{}>>", bytes.join(","))
}

/// Returns an error for a word that the program would read as an option. `-p` and `-q` are allowed,
/// because this module adds them.
fn checked(words: &[&str]) -> Result<(), Error> {
    let is_option = |word: &&&str| word.starts_with('-') && !matches!(**word, "-p" | "-q");
    match words.iter().find(is_option) {
        Some(word) => Err(Error::refused(format!(
            "{word} starts with `-`: rabbitmqctl would read it as an option"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_of_old_and_new_releases_are_read() {
        let new: Vec<&str> = rows("user\ttags\none\t[]\nuser\t[a]", "user\ttags").collect();
        assert_eq!(new, ["one\t[]", "user\t[a]"]);
        let old: Vec<&str> = rows("Listing users ...\none\t[]\n...done.", "user\ttags").collect();
        assert_eq!(old, ["one\t[]"]);
        assert_eq!(
            tags_of("[administrator, policymaker]"),
            ["administrator", "policymaker"]
        );
        assert_eq!(tags_of("[]"), [""]);
        let policy = |line: &str| python::repr(&policy_of(line).unwrap().1.into());
        let wanted = "{'pattern': '^a', 'apply_to': 'queues', 'definition': '{}', 'priority': '1'}";
        assert_eq!(policy("/\tp\t^a\tqueues\t{}\t1"), wanted);
        assert_eq!(policy("/\tp\tqueues\t^a\t{}\t1"), wanted);
    }

    #[test]
    fn a_name_is_no_option_and_an_address_no_code() {
        assert!(checked(&["delete_user", "-x"]).is_err() && checked(&["a", "-p", "/"]).is_ok());
        assert_eq!(binary("a\">"), "<<97,34,62>>");
    }
}
