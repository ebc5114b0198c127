//! The `smtp` state module. Salt 3008 no longer has it; arguments and comments are those of Salt
//! 3007.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Send mail.
    #[facts(effects = Effects::Command)]
    mod smtp;

    /// Send a message.
    ///
    ///     The backup has failed:
    ///       smtp.send_msg:
    ///         - profile: my-smtp-login
    ///         - recipient: admin@example.com
    ///         - subject: Backup
    ///         - attachments:
    ///           - /var/log/backup.log
    fn send_msg(SendMsg {
        /// The text of the message.
        name: String,
        /// The addresses of the recipients, separated by commas. If the server refuses one of them,
        /// the state fails, and the message is sent to none.
        recipient: String,
        /// The subject.
        subject: String,
        /// The address of the sender. The default is `smtp.sender` of the profile.
        sender: Value = Value::Null,
        /// The profile with the settings of the server, see the function `smtp.send_msg`.
        profile: Value = Value::Null,
        /// The encryption, unless there is a profile, see the function `smtp.send_msg`.
        use_ssl: Value = "True".into(),
        /// The paths of files of this machine to attach, 25 MB in all at most.
        attachments: Value = Value::Null,
    });
}

fn send_msg(cx: &Exec, args: SendMsg) -> Result<Ret, Error> {
    let (name, recipient) = (args.name, args.recipient);
    if args.profile.is_null() && args.sender.is_null() {
        let missing = "Missing parameter sender or profile for state smtp.send_msg";
        return Ok(Ret::failed(missing));
    }
    let would = Ret::would(format!("Need to send message to {recipient}: {name}"));
    cx.apply(would, || {
        let attached = args.attachments.texts().join(", ");
        let message = Map::new()
            .with("message", name.as_str())
            .with("recipient", recipient.as_str())
            .with("profile", args.profile)
            .with("subject", args.subject)
            .with("sender", args.sender)
            .with("use_ssl", args.use_ssl)
            .with("attachments", args.attachments);
        if let Err(error) = cx.call_internal("smtp.send_msg", Vec::new(), message) {
            let failed = format!("Unable to send message to {recipient} ({error}): {name}");
            return Ok(Ret::failed(failed));
        }
        let files = match attached.is_empty() {
            true => String::new(),
            false => format!(" with attachments ({attached})"),
        };
        Ok(Ret::ok(format!(
            "Sent message to {recipient}{files}: {name}"
        )))
    })
}
