//! The `supervisord` execution module.

use std::path::Path;

use machine::process::{Output, Process, which};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

/// The exit code of `supervisorctl status` when it succeeds but some program is not running.
const NOT_RUNNING: i64 = 3;

/// The default paths of the configuration.
const CONFIGS: [&str; 2] = ["/etc/supervisor/supervisord.conf", "/etc/supervisord.conf"];

/// The maximum size of the configuration in bytes.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

state::exec_module! {
    /// Manage the programs of `supervisord` with `supervisorctl`.
    mod supervisord;

    /// Start a program, or a group that is given as `name:`.
    ///
    ///     salt-call supervisord.start app
    fn start(Start {
        /// The name of the program or group.
        name: String = "all".into(),
        #[group] daemon: Access,
    });

    /// Restart a program, or a group that is given as `name:`.
    ///
    ///     salt-call supervisord.restart app
    fn restart(Restart {
        /// The name of the program or group.
        name: String = "all".into(),
        #[group] daemon: Access,
    });

    /// Stop a program, or a group that is given as `name:`.
    ///
    ///     salt-call supervisord.stop app
    fn stop(Stop {
        /// The name of the program or group.
        name: String = "all".into(),
        #[group] daemon: Access,
    });

    /// Activate the configuration of a program or a group.
    ///
    ///     salt-call supervisord.add app
    fn add(Add {
        /// The name of the program or group.
        name: String,
        #[group] daemon: Access,
    });

    /// Remove a program or a group from the active configuration.
    ///
    ///     salt-call supervisord.remove app
    fn remove(Remove {
        /// The name of the program or group.
        name: String,
        #[group] daemon: Access,
    });

    /// Make the daemon read its configuration again.
    ///
    ///     salt-call supervisord.reread
    fn reread(Reread {
        #[group] daemon: Access,
    });

    /// Make the daemon read its configuration again, and add, remove and restart the programs that
    /// changed.
    ///
    ///     salt-call supervisord.update
    fn update(Update {
        #[group] daemon: Access,
        /// The name of a group; all groups with changes if not given.
        name: Option<String> = None,
    });

    /// Return the status of the programs: a dictionary with `state` and `reason` for each program.
    ///
    ///     salt-call supervisord.status
    fn status(Status {
        /// The name of a program; all programs if not given.
        name: Option<String> = None,
        #[group] daemon: Access,
    });

    /// Return the status of the programs as the output of `supervisorctl`.
    ///
    ///     salt-call supervisord.status_raw
    fn status_raw(StatusRaw {
        /// The name of a program; all programs if not given.
        name: Option<String> = None,
        #[group] daemon: Access,
    });

    /// Run any command of `supervisorctl`.
    ///
    ///     salt-call supervisord.custom 'mstop app'
    fn custom(Custom {
        /// The command with its arguments, as one text.
        command: String,
        #[group] daemon: Access,
    });

    /// Return the settings of a program in the configuration file.
    ///
    ///     salt-call supervisord.options app
    fn options(Options {
        /// The name of the program.
        name: String,
        /// The path of the configuration file.
        conf_file: Option<String> = None,
    });

    /// Return True when a program exists and, if a state is given, is in that state.
    ///
    ///     salt-call supervisord.status_bool app
    fn status_bool(StatusBool {
        /// The name of the program.
        name: String,
        /// The state, such as `RUNNING`; any state if not given.
        expected_state: Option<String> = None,
        #[group] daemon: Access,
    });
}

state::argument_group! {
    /// The settings with which a command reaches the daemon.
    pub(crate) struct Access {
        /// The user who runs `supervisorctl`.
        user: Option<String> = None,
        /// The path of the configuration file that describes the daemon.
        conf_file: Option<String> = None,
        /// The path of `supervisorctl`, or of the virtual environment that contains it.
        bin_env: Option<String> = None,
    }
}

impl Access {
    fn open(self, cx: &Exec) -> Daemon<'_> {
        Daemon {
            cx,
            user: self.user,
            conf_file: self.conf_file,
            bin_env: self.bin_env,
        }
    }
}

/// The settings with which a command reaches a daemon.
pub(crate) struct Daemon<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) user: Option<String>,
    pub(crate) conf_file: Option<String>,
    pub(crate) bin_env: Option<String>,
}

/// A program in the output of `status`.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) state: String,
    reason: String,
}

impl Daemon<'_> {
    /// Returns the output of a command of `supervisorctl`. The output contains `ERROR` if the
    /// command fails.
    ///
    /// # Errors
    /// When there is no `supervisorctl`, or it would read the name as an option.
    pub(crate) fn tell(&self, command: &str, name: Option<&str>) -> Result<String, Error> {
        let output = self.run(command, name)?;
        let told = output.success()
            || output.stdout_regardless().contains("ERROR")
            || command.starts_with("status") && output.retcode == Some(NOT_RUNNING);
        Ok(match told {
            true => output.into_stdout_regardless(),
            false => format!("ERROR: {}", output.stdout_regardless()),
        })
    }

    fn run(&self, command: &str, name: Option<&str>) -> Result<Output, Error> {
        let name = name.filter(|name| !name.is_empty());
        if let Some(word) = name
            .into_iter()
            .chain([command])
            .find(|word| word.starts_with('-'))
        {
            return Err(Error::refused(format!(
                "invalid program name {word}: it starts with `-`"
            )));
        }
        let mut words = vec![self.program()?];
        if let Some(conf_file) = &self.conf_file {
            words.extend(["-c".to_owned(), conf_file.clone()]);
        }
        words.push(command.to_owned());
        words.extend(name.map(str::to_owned));
        let process = Process {
            runas: self.user.clone().filter(|user| !user.is_empty()),
            ignore_retcode: command.starts_with("status"),
            ..Process::words(words)
        };
        process.run(self.cx)
    }

    fn program(&self) -> Result<String, Error> {
        let found = match self.bin_env.as_deref().filter(|env| !env.is_empty()) {
            None => which("supervisorctl"),
            Some(env) if Path::new(env).is_dir() => {
                let program = Path::new(env).join("bin/supervisorctl");
                let found = program.is_file();
                found.then(|| program.display().to_string())
            }
            Some(program) => Some(program.to_owned()),
        };
        found.ok_or_else(|| "Could not find a `supervisorctl` binary".into())
    }

    /// Returns the programs that the daemon knows, in the order of the daemon.
    ///
    /// # Errors
    /// When there is no `supervisorctl`, or its answer cannot be understood.
    pub(crate) fn programs(&self, name: Option<&str>) -> Result<Vec<Program>, Error> {
        let told = self.tell("status", name)?;
        told.lines().map(Program::read).collect()
    }
}

impl Program {
    fn read(line: &str) -> Result<Self, Error> {
        let mut rest = line;
        let mut word = || {
            let text = rest.trim_start();
            let (word, after) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            rest = after;
            word.to_owned()
        };
        let (name, state) = (word(), word());
        if state.is_empty() {
            return Err(Error::refused(format!(
                "cannot parse the supervisorctl status line '{line}': expected a name and a state; is supervisord running?"
            )));
        }
        let reason = rest.trim_start().to_owned();
        Ok(Self {
            name,
            state,
            reason,
        })
    }
}

/// Returns the name of a group without the suffix that denotes the whole group.
fn group(name: &str) -> &str {
    let bare = name.strip_suffix(":*");
    bare.or_else(|| name.strip_suffix(':')).unwrap_or(name)
}

/// Returns a name in the form that `supervisorctl` accepts: `group:` for `group:*`.
pub(crate) fn plain(name: &str) -> &str {
    match name.ends_with(":*") {
        true => name.strip_suffix('*').unwrap_or(name),
        false => name,
    }
}

fn start(cx: &Exec, args: Start) -> Result<Value, Error> {
    let told = args
        .daemon
        .open(cx)
        .tell("start", Some(plain(&args.name)))?;
    Ok(told.into())
}

fn restart(cx: &Exec, args: Restart) -> Result<Value, Error> {
    let told = args
        .daemon
        .open(cx)
        .tell("restart", Some(plain(&args.name)))?;
    Ok(told.into())
}

fn stop(cx: &Exec, args: Stop) -> Result<Value, Error> {
    let told = args.daemon.open(cx).tell("stop", Some(plain(&args.name)))?;
    Ok(told.into())
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let told = args.daemon.open(cx).tell("add", Some(group(&args.name)))?;
    Ok(told.into())
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    let told = args
        .daemon
        .open(cx)
        .tell("remove", Some(group(&args.name)))?;
    Ok(told.into())
}

fn reread(cx: &Exec, args: Reread) -> Result<Value, Error> {
    Ok(args.daemon.open(cx).tell("reread", None)?.into())
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let told = args
        .daemon
        .open(cx)
        .tell("update", args.name.as_deref().map(group))?;
    Ok(told.into())
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let programs = args.daemon.open(cx).programs(args.name.as_deref())?;
    let told = |one: Program| {
        let told = Map::new().with("state", one.state);
        (one.name, told.with("reason", one.reason))
    };
    Ok(programs.into_iter().map(told).collect())
}

fn status_raw(cx: &Exec, args: StatusRaw) -> Result<Value, Error> {
    let told = args.daemon.open(cx).tell("status", args.name.as_deref())?;
    Ok(told.into())
}

fn custom(cx: &Exec, args: Custom) -> Result<Value, Error> {
    Ok(args.daemon.open(cx).tell(&args.command, None)?.into())
}

fn status_bool(cx: &Exec, args: StatusBool) -> Result<Value, Error> {
    let mut programs = args.daemon.open(cx).programs(Some(&args.name))?;
    let is_so = programs.pop().is_some_and(|last| {
        let mut expected = args.expected_state.iter();
        last.name == args.name && expected.all(|state| *state == last.state)
    });
    Ok(is_so.into())
}

fn options(_: &Exec, args: Options) -> Result<Value, Error> {
    let mut known = CONFIGS.into_iter().filter(|path| Path::new(path).exists());
    let path = args.conf_file.or_else(|| known.next().map(str::to_owned));
    let path = path.ok_or("No suitable config file found")?;
    let text = config(&path)
        .map_err(|why| Error::refused(format!("Unable to read from {path}: {why}")))?;
    let options = section(&text, &format!("program:{}", args.name));
    let options = options.ok_or_else(|| format!("Process '{}' not found", args.name))?;
    Ok(options.into())
}

fn config(path: &str) -> Result<String, Error> {
    let size = std::fs::metadata(path).map_err(Error::io(path))?.len();
    if size > CONFIG_BYTES_MAX {
        return Err("the file is too large for a configuration".into());
    }
    machine::fs::text(path)
}

/// Returns the options of a section as Python's configparser reads them.
fn section(text: &str, name: &str) -> Option<Map> {
    let mut found: Option<Map> = None;
    let (mut is_here, mut last) = (false, String::new());
    for line in text.lines() {
        let bare = line.trim();
        if bare.starts_with(['#', ';']) || bare.is_empty() {
            continue;
        }
        if let Some(title) = bare
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next())
        {
            is_here = title == name;
            if is_here {
                found.get_or_insert_default();
            }
            continue;
        }
        let Some(options) = found.as_mut().filter(|_| is_here) else {
            continue;
        };
        if line.starts_with(char::is_whitespace) && !last.is_empty() {
            let before = options.get(&last).map(Value::to_text).unwrap_or_default();
            options.insert(last.as_str(), format!("{before}\n{bare}"));
        } else if let Some((key, value)) = bare.split_once(['=', ':']) {
            last = key.trim().to_lowercase();
            options.insert(last.as_str(), value.trim());
        }
    }
    let mut options = found?;
    for (_, value) in options.iter_mut() {
        *value = typed(&value.to_text());
    }
    Some(options)
}

/// Converts a text to an integer, a float, a Boolean or a string, without the comment after it.
fn typed(text: &str) -> Value {
    let text = text.split(';').next().unwrap_or_default().trim();
    let number = text.parse::<i64>().map(Value::Int);
    let number = number.or_else(|_| text.parse::<f64>().map(Value::Float));
    match (number, text.to_lowercase().as_str()) {
        (Ok(number), _) => number,
        (_, "true") => Value::Bool(true),
        (_, "false") => Value::Bool(false),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "[program:one]\ncommand = /bin/sleep 1 ; for a while\nautostart=False\npriority: 7\n\
        environment=A=\"1\",\n  B=\"2\"\n# no\n[program:two]\ncommand=x\n";

    #[test]
    fn the_configuration_of_a_program_is_read() {
        let one = section(CONFIG, "program:one").unwrap();
        assert_eq!(one.get("command"), Some(&"/bin/sleep 1".into()));
        assert_eq!(one.get("autostart"), Some(&Value::Bool(false)));
        assert_eq!(one.get("priority"), Some(&Value::Int(7)));
        assert_eq!(one.get("environment"), Some(&"A=\"1\",\nB=\"2\"".into()));
        assert_eq!(section(CONFIG, "program:three"), None);
    }

    #[test]
    fn a_line_of_the_status_is_a_name_a_state_and_a_reason() {
        let one = Program::read("web:1     RUNNING   pid 5, uptime 0:01").unwrap();
        assert_eq!(
            (one.name.as_str(), one.state.as_str()),
            ("web:1", "RUNNING")
        );
        assert_eq!(one.reason, "pid 5, uptime 0:01");
        assert!(Program::read("ERROR: ").is_err());
    }
}
