//! The returner `smtp`: a mail for each return. Salt 3008 no longer has it; options and texts are those
//! of Salt 3007.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::Returner;

pub(super) const RETURNER: Returner = Returner {
    name: "smtp",
    doc: "Send the return as a mail.",
    store: send,
};

/// The text of a message, if the option `template` is not set.
const TEXT: &str = "id: {{id}}\nfunction: {{fun}}\nfunction args: {{fun_args}}\njid: {{jid}}\nreturn: {{return}}\n";

/// The maximum number of characters of a field in the subject.
const FIELD_MAX: usize = 200;

fn send(cx: &Exec, ret: &Map) -> Result<(), Error> {
    let option = |name: &str| {
        let value = super::option(cx, ret, "smtp", name);
        value.filter(Value::is_true).map(|value| value.to_text())
    };
    let needed = |name: &str| {
        let missing = || Error::refused(format!("the option smtp.{name} is not set"));
        option(name).ok_or_else(missing)
    };
    let (from, to) = (needed("from")?, needed("to")?);
    let renderer = option("renderer").unwrap_or_else(|| "jinja".to_owned());
    let text = |from: Map| rendered(cx, &renderer, from, ret);
    let subject = option("subject").unwrap_or_else(|| "Email from Salt".to_owned());
    let mut subject = text(Map::new().with("string", subject))?;
    // Data of a return must not become a template.
    for name in option("fields").unwrap_or_default().split(',') {
        if let Some(field) = ret.get(name) {
            subject.push(' ');
            subject.push_str(&line(&field.to_text()));
        }
    }
    let message = text(match option("template") {
        Some(path) => Map::new().with("path", path),
        None => Map::new().with("string", TEXT),
    })?;
    let message = match option("gpgowner") {
        Some(owner) => encrypted(cx, &owner, &to, message)?,
        None => message,
    };
    let port = option("port").unwrap_or_else(|| "25".to_owned());
    let mut mail = Map::new()
        .with("recipient", to)
        .with("sender", from)
        .with("subject", line(&subject))
        .with("message", message)
        .with("server", format!("{}:{port}", bracketed(&needed("host")?)))
        .with(
            "use_ssl",
            super::option(cx, ret, "smtp", "tls").unwrap_or_else(|| false.into()),
        );
    for name in ["username", "password"] {
        if let Some(value) = option(name) {
            mail.insert(name, value);
        }
    }
    cx.call_internal("smtp.send_msg", Vec::new(), mail)?;
    Ok(())
}

/// Returns a template with the parts of a return. `from` has its path or its text.
fn rendered(cx: &Exec, renderer: &str, from: Map, ret: &Map) -> Result<String, Error> {
    let args = from
        .with("default_renderer", renderer)
        .with("context", ret.clone());
    let rendered = cx.call_internal("slsutil.renderer", Vec::new(), args)?;
    match rendered {
        Value::Str(text) => Ok(text.to_string()),
        Value::Map(map) if map.is_empty() => {
            Err("the template of the option smtp.template does not exist".into())
        }
        other => Ok(other.to_text()),
    }
}

fn encrypted(cx: &Exec, owner: &str, to: &str, text: String) -> Result<String, Error> {
    let args = Map::new()
        .with("user", owner)
        .with("recipients", to)
        .with("text", text)
        .with("always_trust", true)
        .with("bare", true);
    let encrypted = cx.call_internal("gpg.encrypt", Vec::new(), args)?;
    match encrypted {
        Value::Str(text) if !text.is_empty() => Ok(text.to_string()),
        other => Err(Error::refused(format!(
            "the return cannot be encrypted for {to} with the keys of {owner}: {}",
            other.to_text()
        ))),
    }
}

/// Returns a text as one line of limited length.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(FIELD_MAX).collect()
}

/// Returns a host in the form that has a port after it.
fn bracketed(host: &str) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}
