//! The `pushover` state module. Salt 3008 no longer has it; arguments and comments are those of Salt
//! 3007.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, secret};

use crate::exec::notify::sent;

state::state_module! {
    /// Send messages to Pushover.
    #[facts(effects = Effects::Command)]
    mod pushover;

    /// Send a message to a user or a group.
    ///
    ///     report the deployment:
    ///       pushover.post_message:
    ///         - user: uQiRzpo4DXghDmr9QzzfQu27cmVRsG
    ///         - message: The deployment is done.
    ///         - priority: 1
    fn post_message(PostMessage {
        /// The name of this message in the return.
        name: String,
        /// The key of the user or the group.
        user: Value = Value::Null,
        /// The device of the user. The default is all devices.
        device: Value = Value::Null,
        /// The message.
        message: Value = Value::Null,
        /// The title. The default is `Message from SaltStack`.
        title: Value = Value::Null,
        /// The priority, from -2 to 2.
        priority: Value = Value::Null,
        /// The number of seconds after which a message of priority 2 expires.
        expire: Value = Value::Null,
        /// The number of seconds after which a message of priority 2 is repeated.
        retry: Value = Value::Null,
        /// The sound.
        sound: Value = Value::Null,
        /// Accepted but ignored: the version of the API is 1.
        api_version: Value = 1.into(),
        /// The token of the application. The default is the option `pushover.token`.
        token: Value = Value::Null,
    });
}

fn post_message(cx: &Exec, args: PostMessage) -> Result<Ret, Error> {
    secret::keep(&[], &args.token);
    secret::keep(&[], &args.user);
    let (user, message) = (args.user.to_text(), args.message.to_text());
    let would = format!("The following message is to be sent to PushOver: {message}");
    cx.apply(Ret::would(would), || {
        if !args.user.is_true() {
            return Ok(Ret::failed(format!("PushOver user is missing: {user}")));
        }
        if !args.message.is_true() {
            let missing = format!("PushOver message is missing: {message}");
            return Ok(Ret::failed(missing));
        }
        let fields = Map::new()
            .with("user", args.user)
            .with("message", args.message)
            .with("title", args.title)
            .with("device", args.device)
            .with("priority", args.priority)
            .with("expire", args.expire)
            .with("retry", args.retry)
            .with("sound", args.sound)
            .with("token", args.token);
        Ok(sent(cx, "pushover.post_message", fields, &args.name))
    })
}
