//! The `debconf` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, log};

use crate::exec::debconf::{file, give, of_package};

state::state_module! {
    /// Answer the questions of Debian packages before they are installed.
    #[needs("debconf-get-selections", "debconf module could not be loaded", "debconf-utils")]
    mod debconf;

    /// Answer the questions in a file. Its lines contain the package, question, type and value.
    ///
    ///     postfix settings:
    ///       debconf.set_file:
    ///         - source: salt://postfix.seed
    fn set_file(SetFile {
        /// Any name.
        name: String,
        /// The file: a path or a URL.
        source: String,
        /// The template engine, if the file is a template.
        template: Option<String> = None,
        /// Variables of the template.
        context: Value = Value::Null,
        /// Default variables of the template; those in `context` take precedence.
        defaults: Value = Value::Null,
        ..kwargs
    });

    /// Answer questions of a package.
    ///
    ///     postfix:
    ///       debconf.set:
    ///         - data:
    ///             postfix/mailname: {type: string, value: example.com}
    fn set(Set {
        /// The package.
        name: String,
        /// For each question, its `type` and the answer as `value`.
        data: Map,
        ..kwargs
    });
}

fn variables(given: Value, what: &str) -> Result<Map, Error> {
    match given {
        Value::Null => Ok(Map::new()),
        Value::Map(map) => Ok(map),
        _ => Err(Error::refused(format!("{what} must be formed as a dict"))),
    }
}

fn set_file(cx: &Exec, args: SetFile) -> Result<Ret, Error> {
    let context = variables(args.context, "Context")?;
    let mut all = variables(args.defaults, "Defaults")?;
    all.update(context);
    let would = Ret::would("Debconf selections would have been set.");
    cx.apply(would, || {
        let given = args.kwargs.get("saltenv").map(Value::to_text);
        let saltenv = given.unwrap_or_else(|| cx.saltenv.clone());
        let engine = args.template.as_deref().map(|engine| (engine, all));
        let failed = "Unable to set debconf selections from file.";
        let Some(text) = file(cx, &args.source, &saltenv, engine)? else {
            return Ok(Ret::failed(failed));
        };
        Ok(match give(cx, &text)? {
            Ok(()) => Ret::ok("Debconf selections were set."),
            Err(why) => Ret::failed(format!("{failed} {why}").trim()),
        })
    })
}

fn set(cx: &Exec, args: Set) -> Result<Ret, Error> {
    let current = of_package(cx, &args.name)?;
    let (mut same, mut wanted) = (Vec::new(), Vec::new());
    for (question, answer) in &args.data {
        let answer = answer_of(question, answer)?;
        match current.contains(&answer) {
            true => same.push(question.to_text()),
            false => wanted.push(answer),
        }
    }
    if wanted.is_empty() {
        return Ok(Ret::ok("All specified answers are already set"));
    }
    let unchanged = match same.is_empty() {
        true => String::new(),
        false => format!("Unchanged answers: {} ", same.join(" ")),
    };
    let would = wanted
        .iter()
        .fold(Ret::would(unchanged.as_str()), |ret, answer| {
            let [question, _, _] = answer;
            ret.change(question, format!("New value: {}", redacted(answer)))
        });
    cx.apply(would, || {
        let mut ret = Ret::ok(unchanged);
        for answer in &wanted {
            let [question, kind, value] = answer;
            let line = format!("{} {question} {kind} {value}", args.name);
            ret = match give(cx, &line)? {
                Ok(()) => ret.change(question, redacted(answer)),
                Err(why) => {
                    log::error(format_args!(
                        "cannot set debconf question {question}: {why}"
                    ));
                    let comment = "Some settings failed to be applied.".to_owned();
                    let result = Some(false);
                    let ret = ret.change(question, "Failed to set!");
                    Ret {
                        result,
                        comment,
                        ..ret
                    }
                }
            };
        }
        Ok(ret)
    })
}

/// Returns the answer to a question in debconf's notation: booleans are `true` and `false`.
fn answer_of(question: &Value, given: &Value) -> Result<[String; 3], Error> {
    let question = question.to_text();
    let (Some(kind), Some(value)) = (given.get("type"), given.get("value")) else {
        return Err(Error::refused(format!(
            "The answer to {question} needs a type and a value: {question}: {{type: string, value: …}}"
        )));
    };
    let kind = kind.to_text();
    let value = match kind.as_str() {
        "boolean" => value.is_true().to_string(),
        _ => value.to_text(),
    };
    Ok([question, kind, value])
}

/// Returns the form of an answer that may be displayed.
fn redacted([_, kind, value]: &[String; 3]) -> &str {
    match kind.as_str() {
        "password" => "(password hidden)",
        _ => value,
    }
}
