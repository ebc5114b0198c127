//! The returner `highstate`: a report about the states of a run, as a file or as a mail.

mod html;
mod report;
#[cfg(test)]
mod tests;

use std::path::Path;

use machine::fs::{self, Owner};
use render::yaml::{self, Dump};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::Returner;
use crate::exec::smtp::Outgoing;
use report::Counts;

pub(super) const RETURNER: Returner = Returner {
    name: "highstate",
    doc: "Report the states of a run as HTML, YAML or JSON, in a file or a mail.",
    store: returner,
};

/// The file of reports, if the option `file_output` is not set.
const FILE: &str = "/tmp/test.rpt";

/// The options of the returner for a return.
struct Options<'a> {
    cx: &'a Exec,
    ret: &'a Map,
}

impl Options<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        let value = super::option(self.cx, self.ret, RETURNER.name, name)?;
        Some(value).filter(|value| !value.is_null() && value.as_str() != Some(""))
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| value.is_true())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.to_text())
    }

    /// Returns a text in which `{NAME}` is replaced by the grain of that name.
    fn with_grains(&self, name: &str, default: &str) -> String {
        let text = self.text(name).unwrap_or_else(|| default.to_owned());
        let parts = text.split(['{', '}']).enumerate();
        let grains = self.cx.grains();
        let filled = parts.map(|(index, part)| match index % 2 {
            0 => part.to_owned(),
            _ => grains.get(part).map(value::python::str).unwrap_or_default(),
        });
        filled.collect()
    }
}

fn returner(cx: &Exec, ret: &Map) -> Result<(), Error> {
    let options = Options { cx, ret };
    let states = report::states(ret)?;
    let counts = Counts::of(&states);
    let is_wanted = options.flag("report_everything", false)
        || (options.flag("report_changes", true) && counts.changed > 0)
        || (options.flag("report_failures", true) && counts.failed > 0);
    if !is_wanted {
        return Ok(());
    }
    let mut parts = Vec::from(report::report(ret, &states, &counts));
    let function = match counts.failed {
        0 => "success_function",
        _ => "failure_function",
    };
    if let Some(function) = options.text(function) {
        parts.insert(0, extra(cx, &function)?);
    }
    deliver(&options, &Value::List(parts.into()), &counts)
}

/// Returns the part of a report with the result of a function.
fn extra(cx: &Exec, function: &str) -> Result<Value, Error> {
    let result = cx.call_internal(function, Vec::new(), Map::new())?;
    let result = Map::new().with(function, report::pairs(&result));
    Ok(Map::new()
        .with("extra", Value::list([result.into()]))
        .into())
}

/// Writes or sends a report.
fn deliver(options: &Options<'_>, report: &Value, counts: &Counts) -> Result<(), Error> {
    let format = options.text("report_format");
    let (text, subtype) = match format.as_deref() {
        None | Some("yaml") => (yaml_of(report)?, "yaml"),
        Some("json") => (
            value::json::write(report, value::json::Layout::default()),
            "json",
        ),
        Some("html") => (html::document(report), "html"),
        Some(other) => {
            return Err(Error::refused(format!(
                "the option highstate.report_format is {other:?}, which must be html, yaml or json"
            )));
        }
    };
    match options.text("report_delivery").as_deref() {
        None | Some("file") => {
            let path = options.with_grains("file_output", FILE);
            let mut text = text.as_bytes();
            fs::replace_from(options.cx, Path::new(&path), &mut text, Owner::default())
        }
        Some("smtp") => mail(options, text, subtype, counts)?.send(options.cx),
        Some(other) => Err(Error::refused(format!(
            "the option highstate.report_delivery is {other:?}, which must be file or smtp"
        ))),
    }
}

fn yaml_of(report: &Value) -> Result<String, Error> {
    let layout = Dump {
        default_flow_style: Some(false),
        ..Dump::default()
    };
    yaml::dump(report, &layout).map_err(|error| Error::refused(error.to_string()))
}

/// Returns the mail with a report.
fn mail(
    options: &Options<'_>,
    text: String,
    subtype: &'static str,
    counts: &Counts,
) -> Result<Outgoing, Error> {
    let needed = |name: &str| {
        let missing = || Error::refused(format!("the option highstate.{name} is not set"));
        options.text(name).ok_or_else(missing)
    };
    let subject = match counts.failed {
        0 => options.with_grains("smtp_success_subject", "Installation success"),
        _ => options.with_grains("smtp_failure_subject", "Installation failure"),
    };
    let port = options.text("smtp_port").map(|port| {
        let wrong = |_| {
            Error::refused(format!(
                "the option highstate.smtp_port is {port:?}, which is not a port"
            ))
        };
        port.parse().map_err(wrong)
    });
    Ok(Outgoing {
        server: Some(needed("smtp_server")?),
        port: port.transpose()?,
        use_ssl: options.flag("smtp_tls", false).into(),
        username: options.text("smtp_username"),
        password: options.text("smtp_password"),
        sender: Some(needed("smtp_sender")?),
        recipient: needed("smtp_recipients")?,
        subject,
        text,
        subtype,
        attachments: Vec::new(),
    })
}
