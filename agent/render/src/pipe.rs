//! The renderer pipe: reads `#!jinja|yaml`, and passes a text through the renderers.
//!
//! As in Salt, the shebang stays in the text, where it is a comment for the renderers, so that line
//! numbers do not change.

use std::sync::Arc;

use value::{Map, Value, json, log, secret};

use crate::yaml::{self, Class};
use crate::{Context, Error, Host, Kind, Place, advice, gpg, jinja, stateconf, toml};

/// The names of the built-in renderers.
pub const RENDERERS: [&str; 7] = ["gpg", "jinja", "json", "stateconf", "text", "toml", "yaml"];

/// The result of a pipe.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The data; a string when the last renderer returns text.
    pub value: Value,
    /// The input of the last renderer, in which [`yaml::locate`] finds places.
    pub text: String,
}

/// A sequence of renderers; each gets the result of the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipe(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    name: String,
    renderer: Renderer,
    argline: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Renderer {
    Gpg,
    Jinja,
    Json,
    Stateconf,
    Text,
    Toml,
    Yaml,
    /// A renderer of the host.
    Other(String),
}

impl Pipe {
    /// Returns the pipe of a text's shebang, or the default one (the `renderer` option).
    ///
    /// # Errors
    /// [`Kind::Renderer`] when a renderer does not exist. Salt then logs the first line of the
    /// message and continues as if the text had rendered to nothing.
    pub fn from_text(text: &str, default: &str, host: &dyn Host) -> Result<Self, Error> {
        let first = text.lines().next().unwrap_or_default();
        match first.strip_prefix("#!") {
            Some(pipe) if !pipe.starts_with('/') => Self::parse(pipe.trim_end(), host),
            _ => Self::parse(default, host),
        }
    }

    /// Reads a pipe such as `jinja|yaml`.
    fn parse(pipe: &str, host: &dyn Host) -> Result<Self, Error> {
        let parts = match pipe {
            "yaml_jinja" => "jinja|yaml",
            "json_jinja" => "jinja|json",
            other => other,
        };
        let steps: Option<Vec<_>> = parts
            .split('|')
            .map(|part| Step::parse(part.trim(), host))
            .collect();
        steps.map(Self).ok_or_else(|| {
            let known = RENDERERS.join(", ");
            failed(
                Kind::Renderer,
                format!("The renderer \"{pipe}\" is not available\nThe renderers are: {known}"),
            )
        })
    }

    /// Passes a text through the pipe.
    ///
    /// # Errors
    /// The error of the renderer that failed.
    pub fn render(
        &self,
        text: &str,
        context: &Context,
        host: &Arc<dyn Host>,
    ) -> Result<Rendered, Error> {
        let mut state = State::Text(text.to_owned());
        let mut read = String::new();
        let mut messages = DecryptedMessages::default();
        for step in &self.0 {
            if !context.renderers.allows(&step.name) {
                log::warning(format_args!(
                    "The renderer \"{}\" is disallowed by configuration and will be skipped.",
                    step.name
                ));
                continue;
            }
            let input = match state {
                State::Text(input) => input,
                data if step.renderer == Renderer::Gpg => {
                    state = State::Data(gpg::decrypted(&[], data.into_value(), host)?);
                    continue;
                }
                data if matches!(step.renderer, Renderer::Other(_)) => {
                    state = step.passed_on(data.into_value(), context, host)?;
                    continue;
                }
                data => return Err(data.unreadable()),
            };
            let ran = match &step.renderer {
                Renderer::Gpg => {
                    gpg::in_text(&input, host, |message| messages.take(message)).map(State::Text)
                }
                _ => step.run(&input, context, host),
            };
            if ran.is_err() {
                messages.keep_all();
            }
            let source = Source {
                template: text,
                input: &input,
                context,
                host,
            };
            state = ran.map_err(|error| source.traced(error))?;
            read = input;
        }
        let rendered = match state {
            State::Text(text) => Rendered {
                value: Value::from(text.as_str()),
                text,
            },
            State::Json(value) | State::Data(value) => Rendered { value, text: read },
        };
        messages.keep_in(&rendered.value);
        Ok(rendered)
    }
}

/// Renders a text with the pipe of its shebang, or with the default one. A text of white space only
/// is an empty map.
///
/// # Errors
/// The errors of [`Pipe::from_text`] and of the renderers.
pub fn render(
    text: &str,
    default_renderer: &str,
    context: &Context,
    host: &Arc<dyn Host>,
) -> Result<Rendered, Error> {
    if text.trim().is_empty() {
        return Ok(Rendered {
            value: Value::Map(Map::new()),
            text: text.to_owned(),
        });
    }
    // Python's text files have only `\n` as a line end.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    Pipe::from_text(&text, default_renderer, host.as_ref())?.render(&text, context, host)
}

/// The data between two renderers.
enum State {
    Text(String),
    Json(Value),
    Data(Value),
}

impl State {
    /// Creates the state from the result of a host's renderer.
    fn made(value: Value) -> Self {
        match value {
            Value::Str(text) => Self::Text(text.to_string()),
            data => Self::Data(or_empty(data)),
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Json(value) | Self::Data(value) => value,
        }
    }

    /// Returns Python's error of a renderer that gets data instead of a file.
    fn unreadable(&self) -> Error {
        let class = if matches!(self, Self::Json(_)) {
            "dict"
        } else {
            "collections.OrderedDict"
        };
        failed(
            Kind::Uncaught,
            format!("'{class}' object has no attribute 'read'"),
        )
    }
}

impl Step {
    fn parse(part: &str, host: &dyn Host) -> Option<Self> {
        let (name, argline) = part.split_once(' ').unwrap_or((part, ""));
        let renderer = match name {
            "gpg" => Renderer::Gpg,
            "jinja" => Renderer::Jinja,
            "json" => Renderer::Json,
            "stateconf" => Renderer::Stateconf,
            "text" => Renderer::Text,
            "toml" => Renderer::Toml,
            "yaml" => Renderer::Yaml,
            other if host.has_renderer(other) => Renderer::Other(other.to_owned()),
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            renderer,
            argline: argline.trim().to_owned(),
        })
    }

    fn run(&self, text: &str, context: &Context, host: &Arc<dyn Host>) -> Result<State, Error> {
        match &self.renderer {
            Renderer::Jinja if matches!(self.argline.as_str(), "" | "-s") => {
                jinja::render(text, context, host).map(State::Text)
            }
            Renderer::Jinja => Err(failed(
                Kind::Jinja,
                format!("Unknown renderer option: {}", self.argline),
            )),
            Renderer::Json => json_data(text).map(State::Json),
            Renderer::Stateconf => {
                stateconf::render(text, &self.argline, context, host, yaml_data).map(State::Data)
            }
            Renderer::Text => Ok(State::Text(text.to_owned())),
            Renderer::Toml => toml::load(text)
                .map(|value| State::Data(or_empty(value)))
                .map_err(|message| failed(Kind::Document, message)),
            Renderer::Yaml => yaml_data(text).map(State::Data),
            Renderer::Gpg | Renderer::Other(_) => self.passed_on(text.into(), context, host),
        }
    }
}

/// The decrypted messages of a text, for the values in which they end up.
#[derive(Default)]
struct DecryptedMessages(Vec<String>);

impl DecryptedMessages {
    /// Adds a message. A message of one line may be a value, so it is registered as a secret at
    /// once.
    fn take(&mut self, message: &str) {
        if !message.trim().contains('\n') {
            secret::keep(&[], &message.into());
        }
        self.0.push(message.to_owned());
    }

    /// Registers all messages as secrets, because the text cannot be read and the error shows a
    /// line of it.
    fn keep_all(&self) {
        self.0
            .iter()
            .for_each(|message| secret::keep(&[], &message.as_str().into()));
    }

    /// Registers the values that are part of a message.
    fn keep_in(&self, value: &Value) {
        if !self.0.is_empty() {
            self.look(&mut Vec::new(), value);
        }
    }

    fn look<'a>(&self, path: &mut Vec<&'a str>, value: &'a Value) {
        match value {
            Value::Map(map) => {
                for (key, value) in map {
                    path.push(key.as_str().unwrap_or_default());
                    self.look(path, value);
                    path.pop();
                }
            }
            Value::List(items) => items.iter().for_each(|item| self.look(path, item)),
            leaf => {
                let text = leaf.to_text();
                let mut lines = text.lines().map(str::trim);
                if lines.all(|line| self.0.iter().any(|message| message.contains(line))) {
                    secret::keep(path, leaf);
                }
            }
        }
    }
}

impl Step {
    /// Calls a renderer of the host, which accepts both text and data.
    fn passed_on(
        &self,
        input: Value,
        context: &Context,
        host: &Arc<dyn Host>,
    ) -> Result<State, Error> {
        let Renderer::Other(name) = &self.renderer else {
            return Ok(State::made(input));
        };
        host.renderer(name, &self.argline, input, context)
            .map(State::made)
            .map_err(|sentence| failed(Kind::Document, sentence))
    }
}

fn failed(kind: Kind, message: String) -> Error {
    Error::new(kind, message)
}

/// Returns an empty map for every empty value, as Salt's renderers do.
fn or_empty(value: Value) -> Value {
    if value.is_true() {
        value
    } else {
        Value::Map(Map::new())
    }
}

/// Reads JSON. The JSON reader accepts no comments, so the shebang is removed first.
fn json_data(text: &str) -> Result<Value, Error> {
    let shebang = text.starts_with("#!");
    let body = text
        .split_once('\n')
        .filter(|_| shebang)
        .map_or(text, |(_, body)| body);
    if body.trim().is_empty() {
        return Ok(Value::Map(Map::new()));
    }
    json::read(body).map_err(|error| failed(Kind::Uncaught, error.to_string()))
}

fn yaml_data(text: &str) -> Result<Value, Error> {
    yaml::load_rendered(text).map(or_empty).map_err(|error| {
        let kind = match error.class {
            Class::Constructor if error.problem.starts_with("found conflicting ID") => {
                Kind::ConflictingId
            }
            Class::Scanner | Class::Parser | Class::Constructor | Class::Limit => Kind::Document,
            Class::Reader | Class::Composer | Class::Value => Kind::Uncaught,
        };
        let (advice, mark) = match advice::for_yaml(&error, text) {
            Some((advice, mark)) => (Some(advice), mark),
            None => (None, error.mark()),
        };
        let place = (mark.line > 0).then(|| Place {
            file: "".into(),
            line: mark.line,
            column: mark.column,
            source: line_of(text, mark.line).unwrap_or_default().to_owned(),
        });
        Error {
            place,
            advice: advice.map(Box::new),
            ..Error::new(kind, error.salt_message())
        }
    })
}

fn line_of(text: &str, line: u32) -> Option<&str> {
    text.lines().nth((line as usize).checked_sub(1)?)
}

/// A template whose text a renderer reads.
struct Source<'a> {
    template: &'a str,
    /// The text that the renderer read.
    input: &'a str,
    context: &'a Context,
    host: &'a Arc<dyn Host>,
}

impl Source<'_> {
    /// Names the file of an error's place, and inserts the line into its advice. A place in the
    /// result of an earlier renderer is moved to the line of the template that it came from. If
    /// that line is unknown, the place is removed.
    fn traced(&self, mut error: Error) -> Error {
        error.place = error.place.and_then(|place| self.place(place));
        let line = error.place.as_ref().map(|place| place.line);
        error.advice = error.advice.map(|advice| Box::new(advice.at_line(line)));
        error
    }

    fn place(&self, place: Place) -> Option<Place> {
        if !place.file.is_empty() {
            return Some(place);
        }
        let line = match self.template == self.input {
            true => Some(place.line),
            false => origin(self.template, &place),
        };
        match line {
            Some(line) => Some(Place {
                file: self.context.name.as_str().into(),
                line,
                ..place
            }),
            None => {
                let found =
                    jinja::trace::trace(self.template, self.context, self.host, place.line)?;
                // The column is only valid as far as both lines are identical.
                let same = found.source.chars().zip(place.source.chars());
                let same = same.take_while(|(a, b)| a == b).count();
                let is_same = usize::try_from(place.column).is_ok_and(|column| column <= same + 1);
                let column = if is_same { place.column } else { found.column };
                Some(Place { column, ..found })
            }
        }
    }
}

/// Returns the line of the template that a line of the rendered text came from: the line of the
/// same number if it is equal, or else the only equal line.
fn origin(template: &str, place: &Place) -> Option<u32> {
    if line_of(template, place.line) == Some(&place.source) {
        return Some(place.line);
    }
    let mut alike = template
        .lines()
        .zip(1..)
        .filter(|(line, _)| *line == place.source);
    match (alike.next(), alike.next()) {
        (Some((_, line)), None) => Some(line),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct NoHost;

    impl Host for NoHost {
        fn call(&self, function: &str, _: Vec<Value>, _: Map) -> Result<Value, String> {
            Err(format!("unknown function {function}"))
        }

        fn has_function(&self, _: &str) -> bool {
            false
        }

        fn template(&self, _: &str, _: &str) -> Result<Option<Arc<str>>, String> {
            Ok(None)
        }
    }

    fn run(text: &str) -> Result<Rendered, Error> {
        let context = Context {
            name: "srv/salt/x.sls".into(),
            ..Context::default()
        };
        let host: Arc<dyn Host> = Arc::new(NoHost);
        render(text, "jinja|yaml", &context, &host)
    }

    fn output(text: &str) -> String {
        match run(text) {
            Ok(rendered) => rendered.value.to_text(),
            Err(error) => format!("{:?}: {error}", error.kind),
        }
    }

    #[test]
    fn the_shebang_names_the_pipe_and_else_the_default_is_taken() {
        for (text, want) in [
            ("a: {{ 1 }}\n", "{'a': 1}"),
            ("#!yaml\na: x {{ 1 }}\n", "{'a': 'x {{ 1 }}'}"),
            ("#! jinja | yaml \na: {{ 1 }}\n", "{'a': 1}"),
            ("#!/bin/sh\na: {{ 1 }}\n", "{'a': 1}"),
            ("#!yaml_jinja\na: {{ 1 }}\n", "{'a': 1}"),
            ("#!jinja -s|yaml foo\na: {{ 1 }}\n", "{'a': 1}"),
            ("#!jinja | json\n{\"a\": {{ 2 }}}", "{'a': 2}"),
            ("#!json\n  \n", "{}"),
            (
                "#!toml\nb = 1\na = [1979-05-27, 1.5]\n",
                "{'b': 1, 'a': ['1979-05-27', 1.5]}",
            ),
            ("#!jinja\na: {{ 1 }}", "#!jinja\na: 1"),
            ("#!text\n{{ 1 }}\n", "#!text\n{{ 1 }}\n"),
            ("# nothing\n", "{}"),
            ("a: !!omap {b: 1}\n", "{'a': {'b': 1}}"),
            ("0\n", "{}"),
            (" \n", "{}"),
            ("#!yaml\r\na: |\r\n  b\r\n  c\r\n", "{'a': 'b\\nc\\n'}"),
        ] {
            assert_eq!(output(text), want, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_rendered_says_what_salt_says() {
        let unknown =
            "is not available\nThe renderers are: gpg, jinja, json, stateconf, text, toml, yaml";
        for (text, want) in [
            ("#!nosuchrenderer\n", format!("Renderer: The renderer \"nosuchrenderer\" {unknown}")),
            ("#!jinja|mako\n", format!("Renderer: The renderer \"jinja|mako\" {unknown}")),
            ("#!\na: 1", format!("Renderer: The renderer \"\" {unknown}")),
            ("#!jinja x|yaml\na: 1", "Jinja: Unknown renderer option: x".into()),
            ("#!yaml|yaml\na: 1", "Uncaught: 'collections.OrderedDict' object has no attribute 'read'".into()),
            ("#!json|yaml\n{}", "Uncaught: 'dict' object has no attribute 'read'".into()),
            ("a:\n\t- b\n", "Document: found character that cannot start any token".into()),
            ("a: b: c\n", "Document: mapping values are not allowed in this context".into()),
            (
                "a: *x\n",
                "Uncaught: found undefined alias\n  in \"<unicode string>\", line 1, column 4".into(),
            ),
            (
                "a: 1\na: 2\n",
                "ConflictingId: while constructing a mapping\n  in \"<unicode string>\", line 1, column 1\n\
                 found conflicting ID 'a'\n  in \"<unicode string>\", line 2, column 1"
                    .into(),
            ),
        ] {
            assert_eq!(output(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_place_is_one_of_the_template() {
        let place = |text: &str| run(text).unwrap_err().place;
        let moved =
            place("{% for x in [1, 2] %}\nb{{ x }}: 1\n{% endfor %}\na: 1\na: 2\n").unwrap();
        assert_eq!(
            (&*moved.file, moved.line, moved.column),
            ("srv/salt/x.sls", 5, 1)
        );
        assert_eq!(moved.source, "a: 2");
        // The key occurs twice in the text, but only once in the template.
        let repeated = place("{% for x in [1, 2] %}\na: {{ x }}\n{% endfor %}\n").unwrap();
        assert_eq!((repeated.line, repeated.column), (2, 1));
    }
}
