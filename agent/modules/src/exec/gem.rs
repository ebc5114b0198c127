//! The `gem` execution module.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

state::exec_module! {
    /// Manage Ruby gems with the program `gem`.
    mod gem;

    /// Install gems.
    ///
    ///     salt-call gem.install rake version=13.2.1
    fn install(Install {
        /// The gems: a list, or a text with spaces between the names.
        gems: Value,
        /// The Ruby version for rvm or rbenv. It is ignored: neither of them is used.
        ruby: Option<String> = None,
        /// The path of the program `gem`. The default is `gem` in the search path.
        gem_bin: Option<String> = None,
        /// The user who runs `gem`.
        runas: Option<String> = None,
        /// The version to install.
        version: Option<String> = None,
        /// Whether to build the RDoc documentation.
        rdoc: bool = false,
        /// Whether to build the documentation for `ri`.
        ri: bool = false,
        /// Whether to allow prereleases.
        pre_releases: bool = false,
        /// The address of an HTTP proxy.
        proxy: Option<String> = None,
        /// The address of the gem source to install from.
        source: Option<String> = None,
    });

    /// Remove all versions of gems, and their programs.
    ///
    ///     salt-call gem.uninstall rake
    fn uninstall(Uninstall {
        /// The gems: a list, or a text with spaces between the names.
        gems: Value,
        #[group] program: Program,
    });

    /// Update gems.
    ///
    ///     salt-call gem.update rake
    fn update(Update {
        /// The gems: a list, or a text with spaces between the names.
        gems: Value,
        #[group] program: Program,
    });

    /// Update RubyGems itself.
    ///
    ///     salt-call gem.update_system
    fn update_system(UpdateSystem {
        /// The version to update to.
        version: String = String::new(),
        #[group] program: Program,
    });

    /// Return the version of RubyGems.
    ///
    ///     salt-call gem.version
    fn version(Version {
        #[group] program: Program,
    });

    /// Return the installed gems with their versions.
    ///
    ///     salt-call gem.list
    fn list(List {
        /// A prefix of the names to return. The default is all gems.
        prefix: String = String::new(),
        #[group] program: Program,
    });

    /// Return the gems that have a newer version, with that version.
    ///
    ///     salt-call gem.list_upgrades
    fn list_upgrades(ListUpgrades {
        #[group] program: Program,
    });

    /// Add a gem source.
    ///
    ///     salt-call gem.sources_add https://gems.example.com/
    fn sources_add(SourcesAdd {
        /// The address of the source.
        source_uri: String,
        #[group] program: Program,
    });

    /// Remove a gem source.
    ///
    ///     salt-call gem.sources_remove https://rubygems.org/
    fn sources_remove(SourcesRemove {
        /// The address of the source.
        source_uri: String,
        #[group] program: Program,
    });

    /// Return the gem sources.
    ///
    ///     salt-call gem.sources_list
    fn sources_list(SourcesList {
        #[group] program: Program,
    });
}

/// The program `gem` and the user who runs it.
pub(crate) struct Gem<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) runas: Option<String>,
    pub(crate) gem_bin: Option<String>,
}

/// The options of `install`, in addition to the names.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) version: Option<String>,
    pub(crate) rdoc: bool,
    pub(crate) ri: bool,
    pub(crate) pre_releases: bool,
    pub(crate) proxy: Option<String>,
    pub(crate) source: Option<String>,
}

impl Gem<'_> {
    /// Runs a command with names and options, and returns the output of the program.
    fn run(&self, command: &[&str], names: &[String], options: &[&str]) -> Result<String, Error> {
        if let Some(name) = names.iter().find(|name| name.starts_with('-')) {
            return Err(Error::refused(format!(
                "invalid gem name {name}: it starts with `-`"
            )));
        }
        let program = self.gem_bin.as_deref().filter(|bin| !bin.is_empty());
        let words = [program.unwrap_or("gem")].into_iter();
        let words = words.chain(command.iter().copied());
        let words = words.chain(names.iter().map(String::as_str));
        let process = Process {
            runas: self.runas.clone().filter(|user| !user.is_empty()),
            ..Process::words(words.chain(options.iter().copied()))
        };
        super::tool::stdout(process.run(self.cx)?)
    }

    /// Returns the installed gems with their versions.
    ///
    /// # Errors
    /// When the program is missing or fails.
    pub(crate) fn list(&self, prefix: &str) -> Result<Map, Error> {
        let prefix: Vec<String> = Some(prefix.to_owned())
            .filter(|prefix| !prefix.is_empty())
            .into_iter()
            .collect();
        let said = self.run(&["list"], &prefix, &[])?;
        Ok(said.lines().filter_map(listed).collect())
    }

    /// Installs gems and returns the output of the program.
    ///
    /// # Errors
    /// When the program is missing or fails.
    pub(crate) fn install(&self, names: &[String], wanted: &Wanted) -> Result<String, Error> {
        let mut options = Vec::new();
        let mut with = |option: &'static str, value: &Option<String>| {
            if let Some(value) = value.clone().filter(|value| !value.is_empty()) {
                options.extend([option.to_owned(), value]);
            }
        };
        with("--version", &wanted.version);
        with("-p", &wanted.proxy);
        with("--source", &wanted.source);
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        let is_third = self.version()?.starts_with("3.");
        let [rdoc, ri, pre] = match is_third {
            true => ["--no-document", "--no-document", "--prerelease"],
            false => ["--no-rdoc", "--no-ri", "--pre"],
        };
        options.extend((!wanted.rdoc).then_some(rdoc));
        options.extend((!wanted.ri).then_some(ri));
        options.extend(wanted.pre_releases.then_some(pre));
        options.dedup();
        self.run(&["install"], names, &options)
    }

    /// Removes gems and returns the output of the program.
    ///
    /// # Errors
    /// When the program is missing or fails.
    pub(crate) fn uninstall(&self, names: &[String]) -> Result<String, Error> {
        self.run(&["uninstall"], names, &["-a", "-x"])
    }

    fn version(&self) -> Result<String, Error> {
        let said = self.run(&["--version"], &[], &[])?;
        let is_version = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let line = said.lines().find(is_version);
        Ok(line.unwrap_or_default().to_owned())
    }

    /// Returns the gem sources.
    ///
    /// # Errors
    /// When the program is missing or fails.
    pub(crate) fn sources(&self) -> Result<Vec<String>, Error> {
        let said = self.run(&["sources"], &[], &[])?;
        Ok(said.lines().skip(2).map(str::to_owned).collect())
    }

    /// Adds or removes (`verb`) a gem source.
    ///
    /// # Errors
    /// When the program is missing or fails.
    pub(crate) fn source(&self, verb: &str, uri: &str) -> Result<String, Error> {
        self.run(&["sources", verb], &[uri.to_owned()], &[])
    }
}

/// Parses a line of `gem list`, such as `rake (13.0.6, 12.0)`.
fn listed(line: &str) -> Option<(Value, Value)> {
    let (name, rest) = line.split_once(" (")?;
    let (versions, _) = rest.rsplit_once(')')?;
    let is_one = !name.is_empty() && !name.contains(' ') && !versions.is_empty();
    is_one.then(|| {
        (
            name.into(),
            Value::list(versions.split(", ").map(Value::from)),
        )
    })
}

/// Returns the names of gems from a list, or from a text with spaces between them.
pub(crate) fn names(gems: &Value) -> Vec<String> {
    match gems.as_list() {
        Some(_) => gems.texts(),
        None => gems
            .to_text()
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    }
}

state::argument_group! {
    /// The program `gem`, and the user who runs it.
    pub(crate) struct Program {
        /// The Ruby version for rvm or rbenv. It is ignored: neither of them is used.
        ruby: Option<String> = None,
        /// The user who runs `gem`.
        runas: Option<String> = None,
        /// The path of the program `gem`. The default is `gem` in the search path.
        gem_bin: Option<String> = None,
    }
}

impl Program {
    fn gem(self, cx: &Exec) -> Gem<'_> {
        Gem {
            cx,
            runas: self.runas,
            gem_bin: self.gem_bin,
        }
    }
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let gem = Gem {
        cx,
        runas: args.runas,
        gem_bin: args.gem_bin,
    };
    let wanted = Wanted {
        version: args.version,
        rdoc: args.rdoc,
        ri: args.ri,
        pre_releases: args.pre_releases,
        proxy: args.proxy,
        source: args.source,
    };
    let said = gem.install(&names(&args.gems), &wanted)?;
    Ok(said.into())
}

fn uninstall(cx: &Exec, args: Uninstall) -> Result<Value, Error> {
    Ok(args.program.gem(cx).uninstall(&names(&args.gems))?.into())
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let said = args
        .program
        .gem(cx)
        .run(&["update"], &names(&args.gems), &[])?;
    Ok(said.into())
}

fn update_system(cx: &Exec, args: UpdateSystem) -> Result<Value, Error> {
    let version = [args.version];
    let given: &[String] = if version.concat().is_empty() {
        &[]
    } else {
        &version
    };
    Ok(args
        .program
        .gem(cx)
        .run(&["update", "--system"], given, &[])?
        .into())
}

fn version(cx: &Exec, args: Version) -> Result<Value, Error> {
    Ok(args.program.gem(cx).version()?.into())
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    Ok(args.program.gem(cx).list(&args.prefix)?.into())
}

fn list_upgrades(cx: &Exec, args: ListUpgrades) -> Result<Value, Error> {
    let said = args.program.gem(cx).run(&["outdated"], &[], &[])?;
    let mut all = Map::new();
    for line in said.lines() {
        let newer = line.split_once(" (").and_then(|(name, rest)| {
            let (_, newer) = rest.strip_suffix(')')?.split_once(" < ")?;
            Some((name, newer))
        });
        match newer {
            Some((name, newer)) => drop(all.insert(name, newer)),
            None => log::error(format_args!("Can't parse line '{line}'")),
        }
    }
    Ok(all.into())
}

fn sources_add(cx: &Exec, args: SourcesAdd) -> Result<Value, Error> {
    Ok(args
        .program
        .gem(cx)
        .source("--add", &args.source_uri)?
        .into())
}

fn sources_remove(cx: &Exec, args: SourcesRemove) -> Result<Value, Error> {
    Ok(args
        .program
        .gem(cx)
        .source("--remove", &args.source_uri)?
        .into())
}

fn sources_list(cx: &Exec, args: SourcesList) -> Result<Value, Error> {
    Ok(args.program.gem(cx).sources()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_a_name_and_versions() {
        let expected = (
            "rake".into(),
            Value::list(["default: 13.0.6".into(), "12.0".into()]),
        );
        assert_eq!(listed("rake (default: 13.0.6, 12.0)"), Some(expected));
        assert_eq!(listed("*** LOCAL GEMS ***"), None);
    }
}
