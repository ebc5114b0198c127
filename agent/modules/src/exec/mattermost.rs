//! The `mattermost` execution module: messages to Mattermost. Salt 3008 no longer has this module;
//! requests and results are those of Salt 3007.

use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, log};

use super::notify::{self, Message, needed_secret, setting};

state::exec_module! {
    /// Send messages to Mattermost.
    ///
    /// The options `mattermost.hook`, `mattermost.api_url`, `mattermost.channel` and
    /// `mattermost.username`, or these keys of the profile `mattermost`, are the defaults.
    mod mattermost;

    /// Send a message to a channel. Returns False if the server refuses it.
    ///
    ///     salt-call mattermost.post_message 'The build is done'
    fn post_message(PostMessage {
        /// The message.
        message: String,
        /// The channel, if it is not the webhook's.
        channel: Value = Value::Null,
        /// The name of the sender, if it is not the webhook's.
        username: Value = Value::Null,
        /// The URL of the server.
        api_url: Option<String> = None,
        /// The identifier of the incoming webhook.
        hook: Option<String> = None,
    });
}

const SERVICE: &str = "Mattermost";

/// Returns the scheme and the host of an address.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let rest = url.get(start..).unwrap_or_default();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    url.get(..start + end).unwrap_or(url)
}

fn post_message(cx: &Exec, args: PostMessage) -> Result<Value, Error> {
    let given = args.api_url.filter(|url| !url.is_empty());
    let url = match given {
        Some(url) => url,
        None => notify::address(cx, ["mattermost.api_url", "mattermost:api_url"], "")?,
    };
    if url.is_empty() {
        return Err("No Mattermost API URL found".into());
    }
    let keys = ["mattermost.hook", "mattermost:hook"];
    let hook = needed_secret(cx, args.hook, keys, "No Mattermost Hook found")?;
    if args.message.is_empty() {
        log::error("message is a required option.");
    }
    let mut payload = Map::new();
    let found = |given: Value, keys| match given.is_true() {
        true => Ok(Some(given)),
        false => setting(cx, keys),
    };
    let channel = found(args.channel, ["mattermost.channel", "mattermost:channel"])?;
    let username = found(
        args.username,
        ["mattermost.username", "mattermost:username"],
    )?;
    for (name, value) in [("channel", channel), ("username", username)] {
        if let Some(value) = value {
            payload.insert(name, value);
        }
    }
    payload.insert("text", format!("```{}```", args.message));
    let payload = json::write(&payload.into(), Layout::default());
    let fields = Map::new().with("payload", payload);
    let url = format!("{}/hooks/{hook}", origin(&url));
    let answer = Message::form(SERVICE, &url, &fields).send(cx)?;
    if !answer.is_success() {
        log::error(answer.describe());
    }
    Ok(answer.is_success().into())
}
