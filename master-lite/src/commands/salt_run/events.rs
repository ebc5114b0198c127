//! `salt-run state.event`: prints events as they occur, one per line.

use std::ops::ControlFlow;

use cli::options::Input;
use value::glob::fnmatch;
use value::json::{self, Layout};
use value::pyre::{Flags, Regex};
use value::{Map, Value, jid, when};
use wire::Listen;

use crate::commands::local_client::{AskError, Master};
use cli::output::Screen;

/// The events to listen for, and their form.
struct Watch {
    tagmatch: String,
    count: i64,
    quiet: bool,
    pretty: bool,
    /// The number of the first event in the log; `None` means from now on.
    from: Option<u64>,
    /// The time of the first event in the log, in milliseconds since 1970.
    since_ms: Option<u64>,
    /// The time at which the command ends.
    until_ms: Option<u64>,
}

/// The arguments in Salt's order, and our `from`, `since` and `until`: events are stored, and can be
/// read again.
const NAMES: [&str; 9] = [
    "tagmatch", "count", "quiet", "sock_dir", "pretty", "node", "from", "since", "until",
];

pub(super) fn run(
    input: Input,
    master: &dyn Master,
    screen: &mut Screen<'_>,
) -> Result<u8, AskError> {
    let mut watch = watch(input)?;
    let pattern = format!(r"\A{}\Z", watch.tagmatch);
    let pattern = Regex::new(&pattern, Flags::default()).ok();
    let mut part = |event: Value| {
        let tag = event.get("tag").map(Value::to_text).unwrap_or_default();
        let by_pattern = || {
            let found = pattern.as_ref().map(|pattern| pattern.is_match(&tag));
            matches!(found, Some(Ok(true)))
        };
        if !fnmatch(&watch.tagmatch, &tag) && !by_pattern() {
            return ControlFlow::Continue(());
        }
        if !watch.quiet {
            let data = event.get("data").cloned().unwrap_or_default();
            screen.say(&line(&tag, &data, watch.pretty));
        }
        watch.count -= i64::from(watch.count > 0);
        if watch.count == 0 || screen.is_closed() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let listen = Listen {
        tags: Vec::new(),
        from: watch.from,
        since_ms: watch.since_ms,
        until_ms: watch.until_ms,
    };
    master.ask(listen.into(), &mut part)?;
    Ok(0)
}

fn watch(input: Input) -> Result<Watch, AskError> {
    let mut given: Map = NAMES.into_iter().zip(input.args).collect();
    given.update(input.kwargs);
    let unknown = given
        .keys()
        .find(|key| !NAMES.iter().any(|name| key.as_str() == Some(name)));
    if let Some(name) = unknown {
        return Err(invalid(format!(
            "event() got an unexpected keyword argument '{}'",
            name.to_text()
        )));
    }
    let elsewhere = given
        .get("node")
        .is_some_and(|node| node.as_str() != Some("master"));
    if elsewhere || given.get("sock_dir").is_some_and(Value::is_true) {
        return Err(invalid(
            "event() can only listen to the configured master".to_owned(),
        ));
    }
    let truth = |name: &str| given.get(name).is_some_and(Value::is_true);
    let from = given.get("from").filter(|from| !from.is_null());
    let from = from.map(|from| {
        let number = from.as_int().and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| invalid(format!("from: {} is not an event number", from.to_text())))
    });
    let now = jid::to_micros(&jid::new()).unwrap_or_default();
    let time = |name: &str| {
        let given = given.get(name).filter(|given| !given.is_null());
        let span = given.map(|given| when::parse(&given.to_text(), now));
        let span = span.transpose();
        span.map_err(|error| invalid(format!("{name}: {error}")))
    };
    Ok(Watch {
        from: from.transpose()?,
        since_ms: time("since")?.map(|span| span.first / 1000),
        until_ms: time("until")?.map(|span| span.last / 1000),
        tagmatch: given
            .get("tagmatch")
            .map_or_else(|| "*".to_owned(), Value::to_text),
        count: given.get("count").and_then(Value::as_int).unwrap_or(-1),
        quiet: truth("quiet"),
        pretty: truth("pretty"),
    })
}

fn invalid(text: String) -> AskError {
    AskError::Failed {
        reason: "invalid".to_owned(),
        text: format!("Passed invalid arguments: {text}"),
    }
}

fn line(tag: &str, data: &Value, pretty: bool) -> String {
    let layout = Layout {
        indent: pretty.then_some(4),
        sort_keys: pretty,
        ascii: false,
    };
    format!("{tag}\t{}", json::write(data, layout))
}
