//! The `apache` execution module: runs the web server's own program, writes its configuration, and
//! runs Debian's `a2enmod` and similar programs.

use std::path::{Path, PathBuf};

use machine::fs::{self, Owner};
use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, PushFmt, Value};

/// The folder in which Debian stores the configuration and the links of what is enabled.
const FOLDER: &str = "/etc/apache2";

state::exec_module! {
    /// Manage the web server Apache.
    // Debian and SUSE have the first, others the second.
    #[needs(
        "apache2ctl|apachectl",
        "The apache execution module cannot be loaded: apache is not installed.",
        "apache2"
    )]
    mod apache;

    /// Return the version of the server.
    ///
    ///     salt-call apache.version
    fn version(Version {});

    /// Return the version of the server and its compile-time settings.
    ///
    ///     salt-call apache.fullversion
    fn fullversion(Fullversion {});

    /// Return the loaded modules, grouped into `static` and `shared`.
    ///
    ///     salt-call apache.modules
    fn modules(Modules {});

    /// Return the modules that are compiled into the server.
    ///
    ///     salt-call apache.servermods
    fn servermods(Servermods {});

    /// Return the directives that the modules provide, with their descriptions.
    ///
    ///     salt-call apache.directives
    fn directives(Directives {});

    /// Send the server a signal (`start`, `stop`, `restart`, `graceful` or `graceful-stop`), or run
    /// `configtest`, `status` or `fullstatus`.
    ///
    ///     salt-call apache.signal graceful
    fn signal(Signal {
        /// The name of the signal or command.
        signal: Option<String> = None,
    });

    /// Build a configuration from data, and write it.
    ///
    ///     salt-call apache.config /etc/apache2/conf-available/status.conf '[{Location: {this: /status, SetHandler: server-status}}]'
    fn config(Config {
        /// The path of the file.
        name: String,
        /// The directives and sections, in order.
        config: Vec<Map>,
        /// True to write the file. False only returns the text.
        edit: bool = true,
    });

    /// Return whether a site is enabled.
    ///
    ///     salt-call apache.check_site_enabled shop.example.com
    fn check_site_enabled(CheckSiteEnabled {
        /// The name of the site.
        site: String,
    });

    /// Enable a site.
    ///
    ///     salt-call apache.a2ensite shop.example.com
    fn a2ensite(A2ensite {
        /// The name of the site.
        site: String,
    });

    /// Disable a site.
    ///
    ///     salt-call apache.a2dissite 000-default
    fn a2dissite(A2dissite {
        /// The name of the site.
        site: String,
    });

    /// Return whether a module is enabled.
    ///
    ///     salt-call apache.check_mod_enabled rewrite
    fn check_mod_enabled(CheckModEnabled {
        /// The name of the module.
        r#mod: String,
    });

    /// Enable a module.
    ///
    ///     salt-call apache.a2enmod rewrite
    fn a2enmod(A2enmod {
        /// The name of the module.
        r#mod: String,
    });

    /// Disable a module.
    ///
    ///     salt-call apache.a2dismod autoindex
    fn a2dismod(A2dismod {
        /// The name of the module.
        r#mod: String,
    });

    /// Return whether a configuration fragment is enabled.
    ///
    ///     salt-call apache.check_conf_enabled security
    fn check_conf_enabled(CheckConfEnabled {
        /// The name of the configuration fragment.
        conf: String,
    });

    /// Enable a configuration fragment.
    ///
    ///     salt-call apache.a2enconf security
    fn a2enconf(A2enconf {
        /// The name of the configuration fragment.
        conf: String,
    });

    /// Disable a configuration fragment.
    ///
    ///     salt-call apache.a2disconf serve-cgi-bin
    fn a2disconf(A2disconf {
        /// The name of the configuration fragment.
        conf: String,
    });
}

/// A kind of item that Debian's programs enable and disable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Conf,
    Mod,
    Site,
}

impl Kind {
    /// Returns the suffix of the programs, such as `mod` in `a2enmod`.
    fn word(self) -> &'static str {
        match self {
            Self::Conf => "conf",
            Self::Mod => "mod",
            Self::Site => "site",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Conf => "Conf",
            Self::Mod => "Mod",
            Self::Site => "Site",
        }
    }

    /// Reports whether the item is enabled, which means that its link exists.
    pub(crate) fn is_enabled(self, name: &str) -> bool {
        let (folder, end) = match self {
            Self::Conf => ("conf-enabled", ".conf"),
            Self::Mod => ("mods-enabled", ".load"),
            Self::Site => ("sites-enabled", ".conf"),
        };
        let is_file = name.ends_with(".conf") || self == Self::Mod && name.ends_with(".load");
        let file = match is_file {
            true => name.to_owned(),
            false => format!("{name}{end}"),
        };
        let folder = Path::new(FOLDER).join(folder);
        folder.join(&file).is_symlink()
            || self == Self::Site
                && name == "default"
                && folder.join(format!("000-{file}")).is_symlink()
    }

    /// Enables the item (`en`) or disables it (`dis`), and returns the same dictionary as Salt.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn switch(self, cx: &Exec, verb: &str, name: &str) -> Result<Map, Error> {
        if name.starts_with('-') {
            return Err(Error::refused(format!("{name} is an option, not a name")));
        }
        let (word, title) = (self.word(), self.title());
        let process = Process::words([format!("a2{verb}{word}"), name.to_owned()]);
        let code = process.run(cx)?.retcode;
        // When Salt disables an item, it compares the exit status with 256. No program can exit
        // with 256.
        let status = match code {
            Some(0) => format!("{title} {name} {verb}abled").into(),
            Some(1) if verb == "en" => format!("{title} {name} Not found").into(),
            code => Value::from(code),
        };
        let verb = if verb == "en" { "Enable" } else { "Disable" };
        let told = Map::new().with("Name", format!("Apache2 {verb} {title}"));
        Ok(told.with(title, name).with("Status", status))
    }
}

/// Runs the server's control program and returns its output.
fn control_output(cx: &Exec, option: &[&str]) -> Result<String, Error> {
    let program = program(cx);
    let output = Process::words([program].iter().chain(option).copied()).run(cx)?;
    Ok(output.into_stdout_regardless())
}

fn program(cx: &Exec) -> &'static str {
    match cx.grain("os_family").as_str() {
        "Debian" | "Suse" => "apache2ctl",
        _ => "apachectl",
    }
}

fn version(cx: &Exec, _: Version) -> Result<Value, Error> {
    let said = control_output(cx, &["-v"])?;
    let version = said.lines().next().and_then(|line| line.split(": ").nth(1));
    let version = version.ok_or_else(|| {
        Error::refused(format!(
            "cannot read the version in the output of {} -v: {said}",
            program(cx)
        ))
    })?;
    Ok(version.into())
}

fn fullversion(cx: &Exec, _: Fullversion) -> Result<Value, Error> {
    let said = control_output(cx, &["-V"])?;
    let (mut all, mut compiled) = (Map::new().with("compiled_with", Value::Null), Vec::new());
    for line in said.lines() {
        if let Some((name, rest)) = line.split_once(": ") {
            let value = rest.split(": ").next().unwrap_or_default();
            all.insert(name.trim().to_lowercase().replace(' ', "_"), value.trim());
        } else if let Some((_, define)) = line.split_once(" -D") {
            compiled.push(Value::from(define.trim_start()));
        }
    }
    all.insert("compiled_with", Value::list(compiled));
    Ok(all.into())
}

fn modules(cx: &Exec, _: Modules) -> Result<Value, Error> {
    let said = control_output(cx, &["-M"])?;
    let of = |kind: &str| {
        let lines = said.lines().filter(|line| line.contains(kind));
        Value::list(lines.filter_map(|line| line.split_whitespace().next().map(Value::from)))
    };
    let all = Map::new().with("static", of("(static)"));
    Ok(all.with("shared", of("(shared)")).into())
}

fn servermods(cx: &Exec, _: Servermods) -> Result<Value, Error> {
    let said = control_output(cx, &["-l"])?;
    let lines = said.lines().filter(|line| line.contains(".c"));
    Ok(Value::list(lines.map(|line| line.trim().into())))
}

fn directives(cx: &Exec, _: Directives) -> Result<Value, Error> {
    let said = control_output(cx, &["-L"])?.replace("\n\t", "\t");
    let lines = said.lines().filter(|line| !line.is_empty());
    let split = |line: &str| -> (Value, Value) {
        match line.split_once('\t') {
            Some((name, rest)) => (name.into(), rest.replace('\t', "\n").into()),
            None => (line.into(), "".into()),
        }
    };
    Ok(lines.map(split).collect::<Map>().into())
}

fn signal(cx: &Exec, args: Signal) -> Result<Value, Error> {
    let signal = args.signal.unwrap_or_default();
    let words = match signal.as_str() {
        "start" | "stop" | "restart" | "graceful" | "graceful-stop" => vec!["-k", &signal],
        "configtest" | "status" | "fullstatus" => vec![signal.as_str()],
        _ => return Ok(Value::Null),
    };
    let words: Vec<&str> = [program(cx)].into_iter().chain(words).collect();
    let output = Process::words(words.iter().copied()).run(cx)?;
    let said = [output.stderr.as_str(), output.stdout_regardless()].into_iter();
    let said = said
        .map(|text| text.trim().to_owned())
        .find(|text| !text.is_empty());
    let done = || format!("Command: \"{}\" completed successfully!", words.join(" "));
    Ok(said.unwrap_or_else(done).into())
}

/// Returns the text of a configuration.
///
/// # Errors
/// When a section has no argument (key `this`).
pub(crate) fn text_of(config: &[Map]) -> Result<String, Error> {
    let entries = config.iter().filter_map(Map::first);
    let texts: Result<Vec<String>, Error> = entries
        .map(|(key, value)| text(value, &key.to_text()))
        .collect();
    Ok(texts?.join("\n"))
}

/// Returns the text of a directive or section as Salt writes it, including the empty lines that
/// Salt leaves.
fn text(value: &Value, slot: &str) -> Result<String, Error> {
    let mut text_ = String::new();
    let lines = &mut text_;
    match value {
        Value::Str(one) => line(lines, format_args!("{slot} {one}"), ""),
        Value::List(items) => {
            let this = items.iter().rev().find_map(|item| item.get("this"));
            match this {
                Some(this) => {
                    line(lines, format_args!("<{slot} {}>", this.to_text()), "\n");
                    for (key, value) in items.iter().filter_map(Value::as_map).flat_map(Map::iter) {
                        if key.to_text() != "this" {
                            line(
                                lines,
                                format_args!("{}", text(value, &key.to_text())?),
                                "\n",
                            );
                        }
                    }
                    line(lines, format_args!("</{slot}>"), "\n");
                }
                None => {
                    for item in items.iter() {
                        line(lines, format_args!("{}", text(item, slot)?), "\n");
                    }
                }
            }
        }
        Value::Map(section) => {
            let this = section.get("this").ok_or_else(|| {
                Error::refused(format!(
                    "Apache section container \"<{slot}>\" expects attribute. Specify it using key \"this\"."
                ))
            })?;
            line(lines, format_args!("<{slot} {}>", this.to_text()), "\n");
            for (key, value) in section.iter().filter(|(key, _)| key.to_text() != "this") {
                let key = key.to_text();
                match value {
                    Value::Str(one) => line(lines, format_args!("{key} {one}"), "\n"),
                    Value::List(_) | Value::Map(_) => {
                        line(lines, format_args!("{}", text(value, &key)?), "\n");
                    }
                    _ => {}
                }
            }
            line(lines, format_args!("</{slot}>"), "\n");
        }
        _ => {}
    }
    Ok(text_)
}

fn line(out: &mut String, line: std::fmt::Arguments<'_>, end: &str) {
    out.push_fmt(format_args!("{line}{end}"));
}

fn config(cx: &Exec, args: Config) -> Result<Value, Error> {
    let text = text_of(&args.config)?;
    if args.edit {
        let file = format!("# This file is managed by Salt.\n{text}");
        fs::write(
            cx,
            &PathBuf::from(&args.name),
            file.as_bytes(),
            Owner::default(),
        )?;
    }
    Ok(text.into())
}

fn check_site_enabled(_: &Exec, args: CheckSiteEnabled) -> Result<Value, Error> {
    Ok(Kind::Site.is_enabled(&args.site).into())
}

fn a2ensite(cx: &Exec, args: A2ensite) -> Result<Value, Error> {
    Ok(Kind::Site.switch(cx, "en", &args.site)?.into())
}

fn a2dissite(cx: &Exec, args: A2dissite) -> Result<Value, Error> {
    Ok(Kind::Site.switch(cx, "dis", &args.site)?.into())
}

fn check_mod_enabled(_: &Exec, args: CheckModEnabled) -> Result<Value, Error> {
    Ok(Kind::Mod.is_enabled(&args.r#mod).into())
}

fn a2enmod(cx: &Exec, args: A2enmod) -> Result<Value, Error> {
    Ok(Kind::Mod.switch(cx, "en", &args.r#mod)?.into())
}

fn a2dismod(cx: &Exec, args: A2dismod) -> Result<Value, Error> {
    Ok(Kind::Mod.switch(cx, "dis", &args.r#mod)?.into())
}

fn check_conf_enabled(_: &Exec, args: CheckConfEnabled) -> Result<Value, Error> {
    Ok(Kind::Conf.is_enabled(&args.conf).into())
}

fn a2enconf(cx: &Exec, args: A2enconf) -> Result<Value, Error> {
    Ok(Kind::Conf.switch(cx, "en", &args.conf)?.into())
}

fn a2disconf(cx: &Exec, args: A2disconf) -> Result<Value, Error> {
    Ok(Kind::Conf.switch(cx, "dis", &args.conf)?.into())
}
