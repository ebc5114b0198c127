//! The `telegram` execution module: messages to Telegram. Salt 3008 no longer has this module;
//! requests and results are those of Salt 3007.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::notify::{self, Message, needed_secret, setting};

state::exec_module! {
    /// Send messages to Telegram.
    ///
    /// The options `telegram.chat_id` and `telegram.token`, or these keys of the profile `telegram`,
    /// are the defaults. `telegram.api_url` replaces the address of Telegram, for a proxy.
    mod telegram;

    /// Send a message to a chat. Returns False if Telegram refuses it.
    ///
    ///     salt-call telegram.post_message 'The build is done'
    fn post_message(PostMessage {
        /// The message.
        message: Value,
        /// The id of the chat.
        chat_id: Value = Value::Null,
        /// The token of the bot.
        token: Option<String> = None,
    });
}

const SERVICE: &str = "Telegram";

/// The address of the API, unless `telegram.api_url` is set.
pub(crate) const API_URL: &str = "https://api.telegram.org";

fn post_message(cx: &Exec, args: PostMessage) -> Result<Value, Error> {
    let chat = match args.chat_id.is_true() {
        true => args.chat_id,
        false => setting(cx, ["telegram:chat_id", "telegram.chat_id"])?
            .ok_or("No Telegram chat id found")?,
    };
    let keys = ["telegram:token", "telegram.token"];
    let token = needed_secret(cx, args.token, keys, "No Telegram token found")?;
    let mut fields = Map::new().with("chat_id", chat);
    match args.message.is_true() {
        true => {
            fields.insert("text", args.message);
        }
        false => log::error("message is a required option."),
    }
    let base = notify::address(cx, ["telegram.api_url", "telegram:api_url"], API_URL)?;
    let url = format!("{base}/bot{token}/sendMessage");
    let answer = Message::form(SERVICE, &url, &fields).send(cx)?;
    let found = answer.json();
    if found.is_err() && !answer.is_success() {
        return Err(Error::refused(answer.describe()));
    }
    let done = found?.get("ok").is_some_and(Value::is_true);
    if !done {
        log::error(answer.describe());
    }
    Ok(done.into())
}
