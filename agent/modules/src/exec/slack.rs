//! The `slack` execution module: messages to Slack, and its rooms and users.

use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, log};

use super::notify::{self, Message, needed_secret};

state::exec_module! {
    /// Send messages to Slack.
    ///
    /// The option `slack.api_key`, or `api_key` of the profile `slack`, is the key of the API. The
    /// option `slack.hook`, or `hook` of the profile, is the incoming webhook. `slack.api_url` and
    /// `slack.hook_url` replace the addresses of Slack, for a proxy.
    mod slack;

    /// Return all rooms.
    ///
    ///     salt-call slack.list_rooms
    fn list_rooms(ListRooms {
        /// The key of the API. The default is the option `slack.api_key`.
        api_key: Option<String> = None,
    });

    /// Return all users.
    ///
    ///     salt-call slack.list_users
    fn list_users(ListUsers {
        /// The key of the API. The default is the option `slack.api_key`.
        api_key: Option<String> = None,
    });

    /// Return the room with a name, or False if there is none.
    ///
    ///     salt-call slack.find_room random
    fn find_room(FindRoom {
        /// The name of the room, with or without `#`.
        name: String,
        /// The key of the API. The default is the option `slack.api_key`.
        api_key: Option<String> = None,
    });

    /// Return the user with a name, or False if there is none.
    ///
    ///     salt-call slack.find_user joe
    fn find_user(FindUser {
        /// The name of the user.
        name: String,
        /// The key of the API. The default is the option `slack.api_key`.
        api_key: Option<String> = None,
    });

    /// Send a message to a channel or a person.
    ///
    ///     salt-call slack.post_message '#general' 'The build is done'
    fn post_message(PostMessage {
        /// The channel, such as `#general`, or the person, such as `@joe`.
        channel: String,
        /// The message.
        message: Value,
        /// The name of the sender. Slack refuses it for newer apps.
        from_name: Value = Value::Null,
        /// The key of the API. The default is the option `slack.api_key`.
        api_key: Option<String> = None,
        /// The URL of an icon for the message. Slack refuses it for newer apps.
        icon: Value = Value::Null,
        /// The attachments, as a list or as JSON.
        attachments: Value = Value::Null,
        /// The blocks, as a list or as JSON.
        blocks: Value = Value::Null,
    });

    /// Send a message to an incoming webhook.
    ///
    ///     salt-call slack.call_hook 'The build is done' identifier=T0000/B0000/XXXX
    fn call_hook(CallHook {
        /// The message.
        message: Value,
        /// The text of an attachment.
        attachment: Value = Value::Null,
        /// The color of the border of the attachment.
        color: Value = "good".into(),
        /// True if the attachment may be shown next to others.
        short: Value = false.into(),
        /// The webhook: its URL, or the part after `https://hooks.slack.com/services/`. The default
        /// is the option `slack.hook`.
        identifier: Option<String> = None,
        /// The channel, if it is not the webhook's.
        channel: Value = Value::Null,
        /// The name of the sender, if it is not the webhook's.
        username: Value = Value::Null,
        /// The icon, if it is not the webhook's.
        icon_emoji: Value = Value::Null,
    });
}

const SERVICE: &str = "Slack";

/// The address of the API, unless `slack.api_url` is set.
pub(crate) const API_URL: &str = "https://slack.com";

/// The address of incoming webhooks, unless `slack.hook_url` is set.
pub(crate) const HOOK_URL: &str = "https://hooks.slack.com/services";

/// A method of the API, and the key of its answer that is returned.
struct Method {
    path: &'static str,
    returned: &'static str,
}

const ROOMS: Method = Method {
    path: "conversations.list",
    returned: "channels",
};

const USERS: Method = Method {
    path: "users.list",
    returned: "members",
};

const MESSAGE: Method = Method {
    path: "chat.postMessage",
    returned: "channel",
};

fn key(cx: &Exec, given: Option<String>) -> Result<String, Error> {
    let keys = ["slack.api_key", "slack:api_key"];
    needed_secret(cx, given, keys, "No Slack API key found.")
}

/// Calls a method of the API with the fields of a form, or without. Returns `res` and `message`.
fn query(
    cx: &Exec,
    api_key: Option<String>,
    method: &Method,
    fields: Option<&Map>,
) -> Result<Map, Error> {
    let api_key = key(cx, api_key)?;
    let base = notify::address(cx, ["slack.api_url", "slack:api_url"], API_URL)?;
    let url = format!("{base}/api/{}", method.path);
    let message = match fields {
        Some(fields) => Message::form(SERVICE, &url, fields),
        None => Message::get(SERVICE, &url).header("Accept", "application/json"),
    };
    let message = message.header("Authorization", format!("Bearer {api_key}"));
    let answer = message.send(cx)?;
    let returned = |message: Value, res: bool| Map::new().with("message", message).with("res", res);
    Ok(match answer.status {
        200 => {
            let found = answer.json()?;
            match found.get("error") {
                Some(error) => returned(error.clone(), false),
                None if found.get("ok").and_then(Value::as_bool) == Some(false) => {
                    returned("Unknown response".into(), false)
                }
                None => {
                    let wanted = found.get(method.returned).cloned();
                    returned(wanted.unwrap_or_default(), true)
                }
            }
        }
        201..300 => returned("Unknown response".into(), false),
        _ => {
            log::error(answer.describe());
            returned("invalid_auth".into(), false)
        }
    })
}

/// Sends a message with these fields to a channel. Returns `res` and `message`.
///
/// # Errors
/// When there is no complete answer within the limits.
pub(crate) fn send(cx: &Exec, api_key: String, fields: &Map) -> Result<Map, Error> {
    query(cx, Some(api_key), &MESSAGE, Some(fields))
}

/// Returns the URL of a webhook, which is named by its identifier or by its whole URL.
///
/// # Errors
/// When the pillar is not available.
pub(crate) fn webhook_url(cx: &Exec, hook: &str) -> Result<String, Error> {
    let base = notify::address(cx, ["slack.hook_url", "slack:hook_url"], HOOK_URL)?;
    Ok(hook_url(&base, hook))
}

fn list_rooms(cx: &Exec, args: ListRooms) -> Result<Value, Error> {
    Ok(query(cx, args.api_key, &ROOMS, None)?.into())
}

fn list_users(cx: &Exec, args: ListUsers) -> Result<Value, Error> {
    Ok(query(cx, args.api_key, &USERS, None)?.into())
}

/// Returns the entry with a name, or False.
fn named(listed: &Map, name: &str) -> Value {
    let entries = listed.get("message").and_then(Value::as_list);
    let mut entries = entries.unwrap_or_default().iter();
    let found = entries.find(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
    found.cloned().unwrap_or_else(|| false.into())
}

fn find_room(cx: &Exec, args: FindRoom) -> Result<Value, Error> {
    let rooms = query(cx, args.api_key, &ROOMS, None)?;
    let name = args.name.strip_prefix('#').unwrap_or(&args.name);
    Ok(named(&rooms, name))
}

fn find_user(cx: &Exec, args: FindUser) -> Result<Value, Error> {
    let users = query(cx, args.api_key, &USERS, None)?;
    Ok(named(&users, &args.name))
}

/// Returns attachments or blocks as JSON. A text is JSON already.
fn as_json(value: &Value) -> String {
    match value {
        Value::Str(text) if !text.is_empty() => text.to_string(),
        value if value.is_true() => json::write(value, Layout::default()),
        _ => "[]".to_owned(),
    }
}

/// Logs that an argument is obsolete.
fn obsolete(argument: &str, field: &str, what: &str) {
    log::warning(format_args!(
        "The '{argument}' argument to slack.post_message is deprecated. Slack no longer accepts {field} override on chat.postMessage for modern apps; configure the {what} in your Slack app settings instead. See https://api.slack.com/changelog/2024-09-legacy-custom-bots-classic-apps-deprecation"
    ));
}

fn post_message(cx: &Exec, args: PostMessage) -> Result<Value, Error> {
    let api_key = key(cx, args.api_key)?;
    let mut channel = args.channel;
    if channel.is_empty() {
        log::error("channel is a required option.");
    }
    if !channel.starts_with(['#', '@']) {
        log::warning(format_args!(
            "Channel name must start with a hash or @. Prepending a hash and using \"#{channel}\" as channel name instead of {channel}"
        ));
        channel.insert(0, '#');
    }
    if !args.message.is_true() {
        log::error("message is a required option.");
    }
    let mut fields = Map::new()
        .with("channel", channel)
        .with("text", args.message)
        .with("attachments", as_json(&args.attachments))
        .with("blocks", as_json(&args.blocks));
    if args.from_name.is_true() {
        obsolete("from_name", "a 'username'", "display name");
        fields.insert("username", args.from_name);
    }
    if !args.icon.is_null() {
        obsolete("icon", "an 'icon_url'", "icon");
        fields.insert("icon_url", args.icon);
    }
    let done = query(cx, Some(api_key), &MESSAGE, Some(&fields))?;
    Ok(match done.get("res").is_some_and(Value::is_true) {
        true => true.into(),
        false => done.into(),
    })
}

/// Returns the URL of a webhook. An identifier can be a whole URL.
fn hook_url(base: &str, identifier: &str) -> String {
    match identifier.contains("://") {
        true => identifier.to_owned(),
        false => format!("{base}/{}", identifier.trim_start_matches('/')),
    }
}

fn call_hook(cx: &Exec, args: CallHook) -> Result<Value, Error> {
    let keys = ["slack.hook", "slack:hook"];
    let hook = needed_secret(cx, args.identifier, keys, "No Slack WebHook url found")?;
    let url = webhook_url(cx, &hook)?;
    if !args.message.is_true() {
        log::error("message is required option");
    }
    let mut payload = if args.attachment.is_true() {
        let field = Map::new()
            .with("value", args.attachment)
            .with("short", args.short);
        let attachment = Map::new()
            .with("fallback", args.message.clone())
            .with("color", args.color)
            .with("pretext", args.message)
            .with("fields", Value::list([field.into()]));
        Map::new().with("attachments", Value::list([attachment.into()]))
    } else {
        Map::new().with("text", args.message)
    };
    let others = [
        ("channel", args.channel),
        ("username", args.username),
        ("icon_emoji", args.icon_emoji),
    ];
    for (name, value) in others.into_iter().filter(|(_, value)| value.is_true()) {
        payload.insert(name, value);
    }
    let payload = json::write(&payload.into(), Layout::default());
    let fields = Map::new().with("payload", payload);
    let answer = Message::form(SERVICE, &url, &fields).send(cx)?;
    Ok(match answer.is_success() {
        true => true.into(),
        false => Map::new()
            .with("res", false)
            .with("message", answer.text())
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_named_by_its_identifier_or_its_url() {
        let short = hook_url(HOOK_URL, "T0/B0/X");
        assert_eq!(short, "https://hooks.slack.com/services/T0/B0/X");
        let whole = "https://chat.example.com/hooks/x";
        assert_eq!(hook_url(HOOK_URL, whole), whole);
    }
}
