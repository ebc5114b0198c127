//! The `debconf` execution module: the questions that Debian packages ask, and the answers.

use machine::process::{self, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::fileserver::fetch;
use crate::fileserver::template;

state::exec_module! {
    /// Manage the answers to the questions of Debian packages.
    #[needs(
        "debconf-get-selections",
        "The debconfmod module could not be loaded: debconf-utils is not installed.",
        "debconf-utils"
    )]
    mod debconf;

    /// Return all answers. Each package has a list of question, type and value.
    ///
    ///     salt-call debconf.get_selections
    fn get_selections(GetSelections {
        /// True to include questions without an answer.
        fetchempty: bool = true,
    });

    /// Return the answers of a package, or None if it has none.
    ///
    ///     salt-call debconf.show postfix
    fn show(Show {
        /// The name of the package.
        name: String,
    });

    /// Set the answer to a question of a package.
    ///
    ///     salt-call debconf.set postfix postfix/mailname string example.com
    fn set(Set {
        /// The name of the package.
        package: String,
        /// The name of the question.
        question: String,
        /// The type of the answer, such as `string` or `boolean`.
        r#type: String,
        /// The answer. Further arguments are further words of the answer.
        value: Value,
        *rest,
    });

    /// Set the answers in a file. Its lines contain package, question, type and value.
    ///
    ///     salt-call debconf.set_file salt://postfix.seed
    fn set_file(SetFile {
        /// The path or URL of the file.
        path: String,
        /// The Salt environment of the file.
        saltenv: String = "base".to_owned(),
        ..kwargs
    });

    /// Set the answers in a file that is a template.
    ///
    ///     salt-call debconf.set_template salt://postfix.seed.j2 jinja '{name: web1}' '{}'
    fn set_template(SetTemplate {
        /// The path or URL of the file.
        path: String,
        /// The template engine.
        template: String,
        /// The variables of the template.
        context: Option<Map>,
        /// The default values of variables that are not in `context`.
        defaults: Option<Map>,
        /// The Salt environment of the file.
        saltenv: String = "base".to_owned(),
        ..kwargs
    });
}

/// The answers of a package: question, type and value of each.
pub(crate) type Answers = Vec<[String; 3]>;

fn program(name: &'static str) -> Result<&'static str, Error> {
    match process::which(name) {
        Some(_) => Ok(name),
        None => Err(Error::refused(format!(
            "{name} is not installed: debconf needs the packages debconf and debconf-utils"
        ))),
    }
}

/// Returns all answers, each with its package.
fn all(cx: &Exec) -> Result<Vec<(String, [String; 3])>, Error> {
    let words = [program("debconf-get-selections")?];
    let output = Process::words(words).run(cx)?;
    let output = output.stdout_of_success("debconf-get-selections")?;
    Ok(output.lines().filter_map(read).collect())
}

/// Parses `package question type value`, separated by blanks. Returns `None` for a comment.
fn read(line: &str) -> Option<(String, [String; 3])> {
    let blank = |c: char| c == ' ' || c == '\t';
    let (package, rest) = line.split_once(blank)?;
    let (question, rest) = rest.trim_start_matches(blank).split_once(blank)?;
    let rest = rest.trim_start_matches(blank);
    let (kind, value) = rest.split_once(blank).unwrap_or((rest, ""));
    let value = value.trim_start_matches(blank);
    let known = !package.starts_with('#') && !package.is_empty() && !kind.is_empty();
    let answer = [question, kind, value].map(str::to_owned);
    known.then(|| (package.to_owned(), answer))
}

/// Returns the answers of a package.
///
/// # Errors
/// When the program is missing.
pub(crate) fn of_package(cx: &Exec, name: &str) -> Result<Answers, Error> {
    let own = all(cx)?.into_iter().filter(|(package, _)| package == name);
    Ok(own.map(|(_, answer)| answer).collect())
}

/// Passes answers to debconf, as lines of package, question, type and value. The inner error is the
/// reason why debconf has rejected them.
///
/// # Errors
/// When the program is missing.
pub(crate) fn give(cx: &Exec, lines: &str) -> Result<Result<(), String>, Error> {
    let process = Process {
        stdin: Some(lines.to_owned()),
        ..Process::words([program("debconf-set-selections")?])
    };
    let output = process.run(cx)?;
    Ok(match output.success() {
        true => Ok(()),
        false => Err(output.stderr),
    })
}

/// Returns the text of a file of answers, or `None` if the file does not exist.
///
/// # Errors
/// When the file cannot be fetched or rendered.
pub(crate) fn file(
    cx: &Exec,
    path: &str,
    saltenv: &str,
    engine: Option<(&str, Map)>,
) -> Result<Option<String>, Error> {
    let Some(file) = fetch::cached(cx, path, saltenv, fetch::How::default())? else {
        return Ok(None);
    };
    let text = machine::fs::text(&file)?;
    match engine {
        None => Ok(Some(text)),
        Some((engine, _)) if !template::is_supported(engine) => {
            Err(template::unsupported(engine).into())
        }
        Some((_, variables)) => template::render(cx, &file, &text, saltenv, variables).map(Some),
    }
}

fn get_selections(cx: &Exec, args: GetSelections) -> Result<Value, Error> {
    let mut packages = Map::new();
    for (package, answer) in all(cx)? {
        let [_, _, value] = &answer;
        if args.fetchempty || !value.is_empty() {
            let known = packages.entry(package, || Vec::<Value>::new().into());
            if let Some(known) = known.as_list_mut() {
                known.push(listed(answer));
            }
        }
    }
    Ok(packages.into())
}

fn listed(answer: [String; 3]) -> Value {
    Value::list(answer.into_iter().map(Value::from))
}

fn show(cx: &Exec, args: Show) -> Result<Value, Error> {
    let answers = of_package(cx, &args.name)?;
    match answers.is_empty() {
        true => Ok(Value::Null),
        false => Ok(Value::list(answers.into_iter().map(listed))),
    }
}

fn taken(given: Result<(), String>) -> Result<Value, Error> {
    given.map(|()| true.into()).map_err(Error::refused)
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    let words = [args.value].into_iter().chain(args.rest);
    let value: Vec<String> = words.map(|word| word.to_text()).collect();
    let (package, question, kind) = (args.package, args.question, args.r#type);
    let line = format!("{package} {question} {kind} {}", value.join(" "));
    taken(give(cx, &line)?)
}

fn set_file(cx: &Exec, args: SetFile) -> Result<Value, Error> {
    match file(cx, &args.path, &args.saltenv, None)? {
        Some(text) => taken(give(cx, &text)?),
        None => Ok(false.into()),
    }
}

fn set_template(cx: &Exec, args: SetTemplate) -> Result<Value, Error> {
    let mut variables = args.defaults.unwrap_or_default();
    variables.update(args.context.unwrap_or_default());
    let engine = Some((args.template.as_str(), variables));
    match file(cx, &args.path, &args.saltenv, engine)? {
        Some(text) => taken(give(cx, &text)?),
        None => Ok(false.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_with_spaces_and_without_a_value() {
        let owned = |words: [&str; 3]| words.map(str::to_owned);
        assert_eq!(
            read("postfix\tpostfix/type\tselect\tInternet Site"),
            Some((
                "postfix".to_owned(),
                owned(["postfix/type", "select", "Internet Site"])
            ))
        );
        assert_eq!(
            read("postfix\tpostfix/root\tstring\t").unwrap().1,
            owned(["postfix/root", "string", ""])
        );
        assert_eq!(read("# postfix postfix/root string x"), None);
        assert_eq!(read("only words"), None);
    }
}
