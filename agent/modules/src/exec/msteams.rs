//! The `msteams` execution module: messages to Microsoft Teams. Salt 3008 no longer has this module;
//! requests and results are those of Salt 3007.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::notify::{Message, needed_secret};

state::exec_module! {
    /// Send messages to Microsoft Teams.
    ///
    /// The option `msteams.hook_url`, or `hook_url` of the profile `msteams`, is the URL of the
    /// webhook.
    mod msteams;

    /// Send a message card to a channel.
    ///
    ///     salt-call msteams.post_card 'The build is done'
    fn post_card(PostCard {
        /// The message.
        message: Value,
        /// The URL of the webhook. The default is the option `msteams.hook_url`.
        hook_url: Option<String> = None,
        /// The title of the card.
        title: Value = Value::Null,
        /// The color of the card, such as `FF0000`.
        theme_color: Value = Value::Null,
    });
}

const SERVICE: &str = "Microsoft Teams";

/// The beginning of an answer with status 200 if the message was not delivered.
const NOT_DELIVERED: &str = "Webhook message delivery failed";

fn post_card(cx: &Exec, args: PostCard) -> Result<Value, Error> {
    let keys = ["msteams.hook_url", "msteams:hook_url"];
    let url = needed_secret(cx, args.hook_url, keys, "No MS Teams hook_url found.")?;
    if !args.message.is_true() {
        log::error("message is a required option.");
    }
    let card = Map::new()
        .with("text", args.message)
        .with("title", args.title)
        .with("themeColor", args.theme_color);
    let answer = Message::json(SERVICE, &url, &card.into()).send(cx)?;
    if answer.is_success() && !answer.text().starts_with(NOT_DELIVERED) {
        return Ok(true.into());
    }
    let refused = Map::new().with("res", false);
    Ok(refused.with("message", answer.text()).into())
}
