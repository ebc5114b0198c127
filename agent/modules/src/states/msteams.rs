//! The `msteams` state module. Salt 3008 no longer has it; arguments and comments are those of Salt
//! 3007.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, secret};

use crate::exec::notify::sent;

state::state_module! {
    /// Send messages to Microsoft Teams.
    #[facts(effects = Effects::Command)]
    mod msteams;

    /// Send a message card to a channel.
    ///
    ///     report the deployment:
    ///       msteams.post_card:
    ///         - message: The deployment is done.
    fn post_card(PostCard {
        /// The name of this message in the return.
        name: String,
        /// The message.
        message: Value,
        /// The URL of the webhook. The default is the option `msteams.hook_url`.
        hook_url: Value = Value::Null,
        /// The title of the card.
        title: Value = Value::Null,
        /// The color of the card, such as `FF0000`.
        theme_color: Value = Value::Null,
    });
}

fn post_card(cx: &Exec, args: PostCard) -> Result<Ret, Error> {
    secret::keep(&[], &args.hook_url);
    let message = args.message.to_text();
    let would = format!("The following message is to be sent to Teams: {message}");
    cx.apply(Ret::would(would), || {
        if !args.message.is_true() {
            return Ok(Ret::failed(format!("Teams message is missing: {message}")));
        }
        let card = Map::new()
            .with("message", args.message)
            .with("hook_url", args.hook_url)
            .with("title", args.title)
            .with("theme_color", args.theme_color);
        Ok(sent(cx, "msteams.post_card", card, &args.name))
    })
}
