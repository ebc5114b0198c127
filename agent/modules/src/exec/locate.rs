//! The `locate` execution module.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::disk::run;

state::exec_module! {
    /// Search the database of file names.
    mod locate;

    /// Return the output of `locate --version`.
    ///
    ///     salt-call locate.version
    fn version(Version {});

    /// Return statistics about the database.
    ///
    ///     salt-call locate.stats
    fn stats(Stats {});

    /// Update the database.
    ///
    ///     salt-call locate.updatedb
    fn updatedb(Updatedb {});

    /// Return the files whose names match a pattern. `basename`, `count`, `existing`, `follow`,
    /// `ignore`, `nofollow`, `wholename` and `regex` are switches.
    ///
    ///     salt-call locate.locate nginx.conf
    fn locate(Locate {
        /// The pattern.
        pattern: String,
        /// The path of another database, or several.
        database: String = String::new(),
        /// The maximum number of results. 0 means no limit.
        limit: i64 = 0,
        ..kwargs
    });
}

/// Runs a program and returns the lines of its output.
fn lines(cx: &Exec, words: &[&str]) -> Result<Vec<String>, Error> {
    let done = run(cx, words)?;
    if !done.success() && !done.stderr.is_empty() {
        return Err(done.stderr.into());
    }
    Ok(done
        .stdout_regardless()
        .lines()
        .map(str::to_owned)
        .collect())
}

fn version(cx: &Exec, _args: Version) -> Result<Value, Error> {
    Ok(lines(cx, &["locate", "-V"])?.into())
}

fn stats(cx: &Exec, _args: Stats) -> Result<Value, Error> {
    let entry = |line: &String| {
        let (first, rest) = line.trim().split_once(char::is_whitespace)?;
        Some(if line.starts_with("Database") {
            (
                "database".to_owned(),
                rest.split(' ').next()?.replace(':', ""),
            )
        } else {
            (
                rest.split_whitespace().collect::<Vec<_>>().join(" "),
                first.to_owned(),
            )
        })
    };
    let said = lines(cx, &["locate", "-S"])?;
    Ok(said.iter().filter_map(entry).collect::<Map>().into())
}

fn updatedb(cx: &Exec, _args: Updatedb) -> Result<Value, Error> {
    Ok(lines(cx, &["updatedb"])?.into())
}

fn locate(cx: &Exec, args: Locate) -> Result<Value, Error> {
    const SWITCHES: [(&str, &str); 8] = [
        ("basename", "-b"),
        ("count", "-c"),
        ("existing", "-e"),
        ("follow", "-L"),
        ("ignore", "-i"),
        ("nofollow", "-P"),
        ("wholename", "-w"),
        ("regex", "--regex"),
    ];
    let limit = args.limit.to_string();
    let is_on = |name: &str| args.kwargs.get(name).is_some_and(Value::is_true);
    let mut words = vec!["locate"];
    let on = SWITCHES.into_iter().filter(|(name, _)| is_on(name));
    words.extend(on.map(|(_, letter)| letter));
    if !args.database.is_empty() {
        words.extend(["-d", &args.database]);
    }
    if args.limit > 0 {
        words.extend(["-l", &limit]);
    }
    words.extend(["--", &args.pattern]);
    Ok(lines(cx, &words)?.into())
}
