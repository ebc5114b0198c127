//! The `slack` state module. Salt 3008 no longer has it; arguments and comments are those of Salt
//! 3007.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, secret};

use crate::exec::notify::{sent, setting};

state::state_module! {
    /// Send messages to Slack.
    #[facts(effects = Effects::Command)]
    mod slack;

    /// Send a message to a channel with the key of the API, or to an incoming webhook. Without both
    /// the options `slack.api_key` and `slack.hook` are used.
    ///
    ///     report the deployment:
    ///       slack.post_message:
    ///         - channel: '#general'
    ///         - from_name: Salt
    ///         - message: The deployment is done.
    fn post_message(PostMessage {
        /// The name of this message in the return.
        name: String,
        /// The channel or person. Required with the key of the API.
        channel: Value = Value::Null,
        /// The name of the sender. Required with the key of the API.
        from_name: Value = Value::Null,
        /// The message.
        message: Value = Value::Null,
        /// The key of the API.
        api_key: Value = Value::Null,
        /// The URL of an icon for the message.
        icon: Value = Value::Null,
        /// The incoming webhook: its URL or identifier.
        webhook: Value = Value::Null,
        /// The text of an attachment, for a webhook.
        attachment: Value = Value::Null,
        /// The color of the border of the attachment.
        color: Value = "good".into(),
        /// True if the attachment may be shown next to others.
        short: Value = Value::Null,
        /// The name of the sender, if it is not the webhook's.
        username: Value = Value::Null,
        /// The icon, if it is not the webhook's.
        icon_emoji: Value = Value::Null,
        ..kwargs
    });
}

/// Returns whether the message goes to the API, and not to a webhook, or a sentence that says what
/// is missing.
fn uses_api(cx: &Exec, args: &PostMessage) -> Result<Result<bool, &'static str>, Error> {
    let (mut api, mut hook) = (args.api_key.is_true(), args.webhook.is_true());
    if !api && !hook {
        api = setting(cx, ["slack.api_key", "slack:api_key"])?.is_some();
        hook = !api && setting(cx, ["slack.hook", "slack:hook"])?.is_some();
    }
    Ok(match (api, hook) {
        (false, false) => Err("Please specify api_key or webhook."),
        (true, true) => Err("Please specify only either api_key or webhook."),
        (true, _) if !args.channel.is_true() => Err("Slack channel is missing."),
        (true, _) if !args.from_name.is_true() => Err("Slack from name is missing."),
        _ if !args.message.is_true() => Err("Slack message is missing."),
        _ => Ok(api),
    })
}

fn post_message(cx: &Exec, args: PostMessage) -> Result<Ret, Error> {
    secret::keep(&[], &args.api_key);
    secret::keep(&[], &args.webhook);
    let uses_api = match uses_api(cx, &args)? {
        Ok(uses_api) => uses_api,
        Err(missing) => return Ok(Ret::failed(missing)),
    };
    let would = Ret::would(format!(
        "The following message is to be sent to Slack: {}",
        args.message.to_text()
    ));
    cx.apply(would, || {
        let message = Map::new()
            .with("channel", args.channel)
            .with("message", args.message);
        Ok(if uses_api {
            let message = message
                .with("from_name", args.from_name)
                .with("api_key", args.api_key)
                .with("icon", args.icon);
            sent(cx, "slack.post_message", message, &args.name)
        } else {
            let message = message
                .with("attachment", args.attachment)
                .with("color", args.color)
                .with("short", args.short)
                .with("identifier", args.webhook)
                .with("username", args.username)
                .with("icon_emoji", args.icon_emoji);
            sent(cx, "slack.call_hook", message, &args.name)
        })
    })
}
