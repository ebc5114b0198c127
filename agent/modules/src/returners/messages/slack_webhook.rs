//! The returner `slack_webhook`: sends returns, and those in a master's log, to an incoming webhook of
//! Slack.

use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, python};

use super::super::follow::{Batch, Kind, OfJob, OfLog, Record, Store};
use super::super::{Returner, web};
use super::{returned, yaml};
use crate::exec::notify::Message;
use crate::exec::slack;

pub(in super::super) const RETURNER: Returner = Returner {
    name: NAME,
    doc: "Send the return to an incoming webhook of Slack.",
    store: |cx, ret| send(cx, ret, None),
};

pub(in super::super) const OF_LOG: OfLog = OfLog {
    name: NAME,
    kinds: &[Kind::Events],
    open: |cx| {
        web::needed_secret(cx, &Map::new(), NAME, "webhook")?;
        Ok(Box::new(Messages))
    },
};

const NAME: &str = "slack_webhook";

/// The grey of the first attachment.
const GREY: &str = "#272727";

/// A message for each return.
struct Messages;

impl Store for Messages {
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error> {
        let of_return = |record: &Record| match record.of_job()? {
            OfJob::Return(ret, _) => Some(ret),
            OfJob::New(_) => None,
        };
        let mut returns = batch.records.iter().filter_map(of_return);
        returns.try_for_each(|ret| {
            let minion = ret.get("id").map(Value::to_text);
            match super::super::function(&ret).as_str() {
                "saltutil.find_job" => Ok(()),
                _ => send(cx, &ret, minion),
            }
        })
    }
}

/// Sends a return. `author` is the minion, unless it is this one.
fn send(cx: &Exec, ret: &Map, author: Option<String>) -> Result<(), Error> {
    let hook = web::needed_secret(cx, ret, NAME, "webhook")?;
    let attachments = attachments(cx, ret, author)?;
    let payload = Map::new().with("attachments", Value::list(attachments));
    let payload = json::write(&payload.into(), Layout::default());
    let url = slack::webhook_url(cx, &hook)?;
    let fields = Map::new().with("payload", payload);
    let answer = Message::form("Slack", &url, &fields).send(cx)?;
    match answer.status == 200 && answer.text() == "ok" {
        true => Ok(()),
        false => Err(Error::refused(answer.describe())),
    }
}

/// Replaces `{grain}` by the value of the grain.
fn sprinkled(cx: &Exec, text: &str) -> String {
    let grains = cx.grains();
    let parts = text.split(['{', '}']).enumerate();
    let grain = |name: &str| grains.get(name).map(Value::to_text).unwrap_or_default();
    let parts = parts.map(|(index, part)| match index % 2 {
        0 => part.to_owned(),
        _ => grain(part),
    });
    parts.collect()
}

fn attachments(cx: &Exec, ret: &Map, author: Option<String>) -> Result<Vec<Value>, Error> {
    let text = |name: &str| web::text(cx, ret, NAME, name);
    let is_good = ret.get("retcode").and_then(Value::as_int) == Some(0);
    let title = match is_good {
        true => text("success_title").unwrap_or_else(|| "{id} | Succeeded".to_owned()),
        false => text("failure_title").unwrap_or_else(|| "{id} | Failed".to_owned()),
    };
    let states = states(ret);
    let about = Map::new()
        .with("fallback", sprinkled(cx, &title))
        .with("color", GREY)
        .with(
            "author_name",
            author.unwrap_or_else(|| sprinkled(cx, "{id}")),
        )
        .with("author_link", sprinkled(cx, "{localhost}"))
        .with("author_icon", text("author_icon").unwrap_or_default())
        .with(
            "title",
            format!("Success: {}", python::str(&is_good.into())),
        )
        .with("text", summary(ret, states.as_ref()));
    let mut all = vec![about.into()];
    match states {
        Some(states) => {
            let has_tasks = web::option(cx, ret, NAME, "show_tasks");
            all.extend(states.attachments(has_tasks.is_some_and(|found| found.is_true())));
        }
        None => {
            let color = if is_good { "good" } else { "danger" };
            let title = format!("Return: {}", returned_text(ret)?);
            all.push(Map::new().with("color", color).with("title", title).into());
        }
    }
    Ok(all)
}

/// Returns what the function returned: a dictionary as YAML.
fn returned_text(ret: &Map) -> Result<String, Error> {
    match returned(ret) {
        returned @ Value::Map(_) => Ok(format!("\n{}", yaml(&returned)?)),
        other => Ok(python::str(&other)),
    }
}

/// Returns the lines about a job.
fn summary(ret: &Map, states: Option<&States>) -> String {
    let text = |key: &str| python::str(ret.get(key).unwrap_or(&Value::Null));
    let mut summary = format!("Function: {}\n", text("fun"));
    let args = ret.get("fun_args").and_then(Value::as_list);
    if let Some(args) = args.filter(|args| !args.is_empty()) {
        let args = Value::list(args.iter().map(|arg| python::str(arg).into()));
        summary += &format!("Function Args: {}\n", python::str(&args));
    }
    summary += &format!("JID: {}\n", text("jid"));
    if let Some(states) = states {
        let seconds = states.milliseconds / 1000.0;
        summary += &format!("Total: {}\nDuration: {seconds:.2} secs", states.total);
    }
    summary
}

/// The states of a return.
#[derive(Default)]
struct States {
    total: usize,
    changed: Vec<String>,
    failed: Vec<String>,
    milliseconds: f64,
}

/// Returns the states of a return, in the order in which they ran; `None` if it has none.
fn states(ret: &Map) -> Option<States> {
    let map = ret.get("return")?.as_map()?;
    map.first()?.1.get("__id__")?;
    let mut sorted: Vec<(&Value, &Value)> = map.iter().collect();
    let number = |state: &Value| state.get("__run_num__").and_then(Value::as_int);
    sorted.sort_by_key(|(_, state)| number(state).unwrap_or(0));
    let mut states = States::default();
    for (key, state) in sorted {
        let key = key.to_text();
        let id = key.split("_|-").nth(1).unwrap_or(&key);
        let sls = python::str(state.get("__sls__").unwrap_or(&Value::Null));
        let task = format!("{sls}.sls | {id}");
        if state.get("result").is_some_and(|result| !result.is_true()) {
            states.failed.push(task.clone());
        }
        if state.get("changes").is_some_and(Value::is_true) {
            states.changed.push(task);
        }
        let duration = state.get("duration").and_then(Value::as_float);
        states.milliseconds += duration.unwrap_or(0.0);
        states.total += 1;
    }
    Some(states)
}

impl States {
    fn attachments(&self, has_tasks: bool) -> [Value; 3] {
        let (changed, failed) = (self.changed.len(), self.failed.len());
        // A state that has failed and has changes is counted twice, as in Salt.
        let unchanged = self.total.saturating_sub(changed + failed);
        let one = |color: &str, title: String, tasks: &[String]| {
            let mut attachment = Map::new().with("color", color).with("title", title);
            if has_tasks && !tasks.is_empty() {
                let fields = tasks.iter().map(|task| {
                    let field = Map::new().with("value", task.as_str());
                    field.with("short", false).into()
                });
                attachment.insert("fields", Value::list(fields));
            }
            attachment.into()
        };
        [
            one("good", format!("Unchanged: {unchanged}"), &[]),
            one("warning", format!("Changed: {changed}"), &self.changed),
            one("danger", format!("Failed: {failed}"), &self.failed),
        ]
    }
}
