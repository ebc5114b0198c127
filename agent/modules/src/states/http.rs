//! The `http` state module.

use std::time::{Duration, Instant};

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::pyre::{Flags, Regex};
use value::{Map, Value, python};

state::state_module! {
    /// Send HTTP requests and check the responses.
    #[facts(effects = Effects::Command, free_arguments = true)]
    mod http;

    /// Send a request and compare its response with the expected one. The other arguments are those
    /// of `http.query`.
    ///
    ///     https://example.com/health:
    ///       http.query:
    ///         - status: 200
    fn query(Query {
        /// The address.
        name: String,
        /// A text that the response must contain.
        r#match: Value = Value::Null,
        /// `string`, or `pcre` for a regular expression.
        match_type: String = "string".into(),
        /// The status code that the response must have.
        status: Value = Value::Null,
        /// `string`, `pcre`, or `list` for one of several.
        status_type: String = "string".into(),
        /// The number of seconds to keep trying.
        wait_for: Option<f64> = None,
        ..kwargs
    });

    /// Repeat a request until its response is the expected one. The other arguments are those of
    /// `http.query`, and `request_interval`.
    ///
    ///     https://example.com/health:
    ///       http.wait_for_successful_query:
    ///         - status: 200
    ///         - wait_for: 60
    #[facts(also_takes = &["match", "match_type", "status", "status_type"])]
    fn wait_for_successful_query(Wait {
        /// The address.
        name: String,
        /// The number of seconds to keep trying.
        wait_for: f64 = 300.0,
        ..kwargs
    });
}

/// The result of comparing a response with the expected text and status.
#[derive(Default)]
struct Judged {
    good: Option<bool>,
    comments: Vec<String>,
}

impl Judged {
    fn found(&mut self, what: String, found: bool) {
        let word = if found { "was" } else { "was not" };
        self.comments.push(format!("{what} {word} found."));
        self.good = Some(found && self.good != Some(false));
    }

    fn text(&mut self, wanted: &Value, kind: &str, text: &str) -> Result<(), Error> {
        let wanted = wanted.to_text();
        match kind {
            "string" => self.found(format!("Match text \"{wanted}\""), text.contains(&wanted)),
            "pcre" => {
                let found = Regex::new(&wanted, Flags::default())?.is_match(text)?;
                self.found(format!("Match pattern \"{wanted}\""), found);
            }
            _ => {}
        }
        Ok(())
    }

    fn status(&mut self, wanted: &Value, kind: &str, status: &str) -> Result<(), Error> {
        match kind {
            "list" => {
                let list = wanted.as_list().unwrap_or_default();
                let same: Vec<&Value> = list
                    .iter()
                    .filter(|wanted| wanted.to_text() == status)
                    .collect();
                for one in &same {
                    self.found(format!("Status {}", one.to_text()), true);
                }
                if same.is_empty() {
                    // In Salt a matching text also satisfies the status.
                    self.comments
                        .push(format!("Statuses {} were not found.", python::str(wanted)));
                    self.good = Some(false);
                }
            }
            "pcre" => {
                let found = Regex::new(&wanted.to_text(), Flags::default())?.is_match(status)?;
                self.found(format!("Status pattern \"{}\"", wanted.to_text()), found);
            }
            "string" => self.found(
                format!("Status {}", wanted.to_text()),
                wanted.to_text() == status,
            ),
            _ => {}
        }
        Ok(())
    }
}

fn query(cx: &Exec, args: Query) -> Result<Ret, Error> {
    if args.r#match.is_null() && args.status.is_null() {
        let comment = " Either match text (match) or a status code (status) is required.";
        return Ok(Ret::failed(comment).with("data", Map::new()));
    }
    let test_url = args.kwargs.get("test_url").map(Value::to_text);
    let mut kwargs = args.kwargs;
    kwargs.entry("decode", || false.into());
    kwargs.insert("text", true);
    kwargs.insert("status", true);
    if cx.test {
        kwargs.insert("test", true);
    }
    let function = match args.wait_for.filter(|seconds| *seconds != 0.0) {
        Some(seconds) => {
            kwargs.insert("wait_for", seconds);
            "http.wait_for_successful_query"
        }
        None => "http.query",
    };
    let data = cx.call_internal(function, vec![args.name.into()], kwargs)?;
    let answer = |key: &str| data.get(key).map(Value::to_text).unwrap_or_default();
    let mut judged = Judged::default();
    if !args.r#match.is_null() {
        judged.text(&args.r#match, &args.match_type, &answer("text"))?;
    }
    if !args.status.is_null() {
        judged.status(&args.status, &args.status_type, &answer("status"))?;
    }
    let mut ret = Ret {
        result: judged.good,
        ..Ret::ok(judged.comments.join(" "))
    };
    if cx.test {
        let url = test_url
            .map(|url| format!(", TEST URL WAS: {url}"))
            .unwrap_or_default();
        ret.comment.push_str(&format!(" (TEST MODE{url})"));
        ret.result = None;
    }
    Ok(ret.with("data", data))
}

fn wait_for_successful_query(cx: &Exec, args: Wait) -> Result<Ret, Error> {
    let interval = args
        .kwargs
        .get("request_interval")
        .and_then(Value::as_float);
    let start = Instant::now();
    loop {
        let kwargs = args.kwargs.clone().with("name", args.name.as_str());
        let found = cx
            .state_function("http.query")
            .ok_or_else(|| Error::not_available("http.query".into()))?
            .invoke(
                "http.query",
                cx,
                state::module::Arguments::new(Vec::new(), kwargs),
            );
        let good = found.as_ref().is_ok_and(|ret| ret.result == Some(true));
        // In test mode the response is never successful, so there is nothing to wait for.
        if good || cx.test || start.elapsed().as_secs_f64() > args.wait_for {
            return found;
        }
        // Without an interval Salt tries again immediately. A pause of a tenth of a second reduces
        // the load on the server.
        let pause = Duration::try_from_secs_f64(interval.unwrap_or(0.1)).unwrap_or_default();
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{apply, exec, json};
    use ::tests::server;

    fn ask(function: &str, kwargs: &str) -> Ret {
        let address = server::start(|head, _| match head {
            head if head.contains(" /gone") => server::text("404 Not Found", "", "no"),
            _ => server::text("200 OK", "", "all is well"),
        });
        let kwargs = json(&kwargs.replace('@', &address));
        apply(&exec(), function, kwargs).unwrap()
    }

    #[test]
    fn an_answer_is_compared() {
        let ret = ask(
            "http.query",
            r#"{"name": "@/x", "match": "well", "status": 200}"#,
        );
        assert_eq!(ret.result, Some(true));
        assert_eq!(
            ret.comment,
            "Match text \"well\" was found. Status 200 was found."
        );
        let ret = ask(
            "http.query",
            r#"{"name": "@/x", "match": "^is", "match_type": "pcre"}"#,
        );
        assert_eq!(
            (ret.result, ret.comment.as_str()),
            (Some(false), "Match pattern \"^is\" was not found.")
        );
        let ret = ask(
            "http.query",
            r#"{"name": "@/gone", "status": [200, 404], "status_type": "list"}"#,
        );
        assert_eq!(
            (ret.result, ret.comment.as_str()),
            (Some(true), "Status 404 was found.")
        );
        let ret = ask(
            "http.query",
            r#"{"name": "@/gone", "status": "2..", "status_type": "pcre"}"#,
        );
        assert_eq!(
            (ret.result, ret.comment.as_str()),
            (Some(false), "Status pattern \"2..\" was not found.")
        );
    }

    #[test]
    fn waiting_ends_with_the_last_answer() {
        let ret = ask(
            "http.wait_for_successful_query",
            r#"{"name": "@/x", "status": 200, "wait_for": 5}"#,
        );
        assert_eq!(ret.result, Some(true));
        let ret = ask(
            "http.wait_for_successful_query",
            r#"{"name": "@/gone", "status": 200, "wait_for": 0.2}"#,
        );
        assert_eq!(ret.result, Some(false));
    }
}
