//! The `smtp` execution module: mail to people. Salt 3008 no longer has this module; its arguments
//! and profiles are those of Salt 3007.

use std::io::Read;
use std::path::Path;

use lettre::Message;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Attachment, Mailbox, Mailboxes, MultiPart, SinglePart};
use machine::fs;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, secret};

use super::config;
use session::{Encryption, Login, Server, TIMEOUT};

mod session;

state::exec_module! {
    /// Send mail.
    ///
    /// A profile is an option of the configuration or the pillar:
    ///
    ///     my-smtp-login:
    ///       smtp.server: smtp.example.com
    ///       smtp.tls: True
    ///       smtp.sender: salt@example.com
    ///       smtp.username: salt
    ///       smtp.password: verybadpass
    ///
    /// `smtp.port` is the port, unless `smtp.server` ends with one (`smtp.example.com:587`). The
    /// certificate of the server is verified with the certificates that this machine trusts, or
    /// those of the option `ca_bundle`. The whole conversation must end within 60 s.
    mod smtp;

    /// Send a message.
    ///
    ///     salt-call smtp.send_msg admin@example.com 'The backup has failed' profile=my-smtp-login
    fn send_msg(SendMsg {
        /// The addresses of the recipients, separated by commas. If the server refuses one of them,
        /// it is an error, and the message is sent to none.
        recipient: String,
        /// The text of the message.
        message: Value,
        /// The subject.
        subject: Value = "Message from Salt".into(),
        /// The address of the sender.
        sender: Option<String> = None,
        /// The server, and its port if it is not the default: `smtp.example.com:587`.
        server: Option<String> = None,
        /// The encryption. The text `True` means TLS from the beginning (port 465). Another true value,
        /// and port 587 or 25, mean STARTTLS (default port 25). If the server does not offer it, it is an
        /// error. With a false value the message is sent in the clear; if there is a password and
        /// the server offers STARTTLS, it is used.
        use_ssl: Value = "True".into(),
        /// The name for the login.
        username: Option<String> = None,
        /// The password for the login.
        password: Option<String> = None,
        /// The option with the settings of the server. They replace the arguments.
        profile: Option<String> = None,
        /// The paths of files of this machine to attach, 25 MB in all at most.
        attachments: Value = Value::Null,
    });
}

/// The maximum size of all attachments of a message together, in bytes.
const MAX_ATTACHMENTS: u64 = 25 << 20;

/// The maximum length of a line of a message, in bytes with its CR (RFC 5322).
const MAX_LINE: usize = 999;

/// The ports of SMTP, of submission, and of submission with TLS from the beginning.
const SMTP: u16 = 25;
const SUBMISSION: u16 = 587;
const SUBMISSIONS: u16 = 465;

/// Returns the text if it can stand in a line of a message or a command.
///
/// # Errors
/// When it would end the line.
fn line<'a>(name: &'static str, text: &'a str) -> Result<&'a str, Error> {
    match text.contains(['\r', '\n', '\0']) {
        false => Ok(text),
        true => Err(Error::argument(
            name,
            "contains a line break or a NUL character, which must not be in a header of a message"
                .to_owned(),
        )),
    }
}

/// Returns the addresses of a list that is separated by commas.
///
/// # Errors
/// When one of them is not an address, or has other characters than ASCII.
fn mailboxes(name: &'static str, text: &str) -> Result<Vec<Mailbox>, Error> {
    let given = line(name, text)?.trim().trim_end_matches(',');
    let wrong = |reason: &str| {
        let problem = format!("{given:?} is not an address such as admin@example.com{reason}");
        Error::argument(name, problem)
    };
    if !given.contains('@') {
        return Err(wrong(": it has no @"));
    }
    let parsed: Mailboxes = given
        .parse()
        .map_err(|error| wrong(&format!(": {error}")))?;
    let found: Vec<Mailbox> = parsed.into();
    // A server would have to support SMTPUTF8, which few do.
    match found
        .iter()
        .find(|mailbox| !mailbox.email.to_string().is_ascii())
    {
        None => Ok(found),
        Some(_) => Err(wrong(
            ": it has characters that are not ASCII; write the domain as xn--…",
        )),
    }
}

/// Returns the address of the sender.
fn sender(text: Option<&str>) -> Result<Mailbox, Error> {
    let text = text.ok_or_else(|| needed("sender"))?;
    match <[Mailbox; 1]>::try_from(mailboxes("sender", text)?) {
        Ok([sender]) => Ok(sender),
        Err(_) => {
            let problem = format!("{text:?} must be one address");
            Err(Error::argument("sender", problem))
        }
    }
}

/// Returns the error for a setting that neither the profile nor the arguments have.
fn needed(name: &'static str) -> Error {
    let problem = format!(
        "is missing: set it, or smtp.{name} in a profile, and name the profile with profile="
    );
    Error::argument(name, problem)
}

/// Returns the contents of a file of at most `left` bytes.
fn contents(path: &str, left: u64) -> Result<Vec<u8>, Error> {
    let metadata = std::fs::metadata(path).map_err(Error::read(path))?;
    // Opening a named pipe would wait for its other end.
    if !metadata.is_file() {
        let problem = format!("{path} is not a regular file");
        return Err(Error::argument("attachments", problem));
    }
    let mut bytes = Vec::new();
    let read = fs::open(path)?.take(left + 1).read_to_end(&mut bytes);
    read.map_err(Error::read(path))?;
    match u64::try_from(bytes.len()).is_ok_and(|length| length <= left) {
        true => Ok(bytes),
        false => Err(Error::argument(
            "attachments",
            format!(
                "with {path}, the files are longer than the limit of {MAX_ATTACHMENTS} bytes in all"
            ),
        )),
    }
}

/// Returns the parts of the message for these files.
fn attached(paths: &[String]) -> Result<Vec<SinglePart>, Error> {
    let mut left = MAX_ATTACHMENTS;
    let mut parts = Vec::new();
    for path in paths {
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = line("attachments", name)?.to_owned();
        let bytes = contents(path, left)?;
        left = left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let binary = ContentType::parse("application/octet-stream");
        let binary = binary.map_err(|error| Error::refused(error.to_string()))?;
        parts.push(Attachment::new(name).body(bytes, binary));
    }
    Ok(parts)
}

/// The texts and files of a message.
struct Mail {
    sender: Mailbox,
    recipients: Vec<Mailbox>,
    subject: String,
    text: String,
    /// The type of the text after `text/`.
    subtype: &'static str,
    attachments: Vec<String>,
}

impl Mail {
    /// Returns the message with its headers. All of it is ASCII, and its lines end with CR LF.
    ///
    /// # Errors
    /// When an attachment cannot be read, or a text cannot be in a header.
    fn formatted(&self) -> Result<Vec<u8>, Error> {
        let subject = line("subject", &self.subject)?;
        let mut message = Message::builder()
            .from(self.sender.clone())
            .subject(subject);
        for recipient in &self.recipients {
            message = message.to(recipient.clone());
        }
        // lettre does not change a CR without LF.
        let text = self.text.replace("\r\n", "\n").replace('\r', "\n");
        let kind = ContentType::parse(&format!("text/{}; charset=utf-8", self.subtype));
        let kind = kind.map_err(|error| Error::refused(error.to_string()))?;
        let part = match text.contains('\0') {
            // lettre would not encode it.
            true => SinglePart::builder().header(ContentTransferEncoding::QuotedPrintable),
            false => SinglePart::builder(),
        };
        let text = part.header(kind).body(text);
        let built = match attached(&self.attachments)? {
            parts if parts.is_empty() => message.singlepart(text),
            parts => {
                let all = MultiPart::mixed().singlepart(text);
                message.multipart(parts.into_iter().fold(all, MultiPart::singlepart))
            }
        };
        let built = built.map_err(|error| Error::refused(format!("smtp: {error}")))?;
        let message = built.formatted();
        match message
            .split(|byte| *byte == b'\n')
            .all(|line| line.len() <= MAX_LINE)
        {
            true => Ok(message),
            false => Err(Error::argument(
                "subject",
                format!(
                    "a line of the message would be longer than {MAX_LINE} bytes: shorten the longest word of the subject, and of the names"
                ),
            )),
        }
    }
}

/// Returns the name and the port of a server that may be written `NAME:PORT`. A name with several
/// colons is an address of IPv6.
fn host_and_port(server: &str) -> Result<(&str, Option<u16>), Error> {
    let (host, port) = match server
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match server.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (server, None),
        },
    };
    let wrong = || Error::argument("server", format!("{server:?} has no valid port"));
    let port = port.map(|port| port.parse().map_err(|_| wrong()));
    Ok((host, port.transpose()?))
}

/// Returns the encryption for a value of `use_ssl` and the port, as Salt chooses it: the text `True`
/// is TLS from the beginning. On a port that is reserved for one kind, it is that kind.
fn encryption(use_ssl: &Value, port: Option<u16>) -> (Encryption, u16) {
    let text = use_ssl.as_str().unwrap_or_default().to_ascii_lowercase();
    let is_false = !use_ssl.is_true() || text == "false";
    let implicit = text == "true";
    let default = if implicit { SUBMISSIONS } else { SMTP };
    let port = port.unwrap_or(default);
    let encryption = match port {
        _ if is_false => Encryption::ForLogin,
        SUBMISSIONS => Encryption::Immediate,
        SMTP | SUBMISSION => Encryption::StartTls,
        _ if implicit => Encryption::Immediate,
        _ => Encryption::StartTls,
    };
    (encryption, port)
}

/// Returns the settings of a profile, without the prefix `smtp.` of their names.
fn profile(cx: &Exec, name: Option<&str>) -> Result<Option<Map>, Error> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let Value::Map(found) = config::found(cx, name)? else {
        let problem = format!("the configuration and the pillar have no dictionary {name}");
        return Err(Error::argument("profile", problem));
    };
    let settings = found.iter().filter_map(|(key, value)| {
        let key = key.as_text();
        Some((key.strip_prefix("smtp.")?.to_owned(), value.clone()))
    });
    Ok(Some(settings.collect()))
}

/// Replaces the arguments by the settings of the profile, and returns its port.
fn use_profile(cx: &Exec, args: &mut SendMsg) -> Result<Option<u16>, Error> {
    let Some(settings) = profile(cx, args.profile.as_deref())? else {
        return Ok(None);
    };
    let text = |name: &str| {
        let found = settings.get(name).filter(|value| value.is_true());
        found.map(Value::to_text)
    };
    args.server = text("server").or_else(|| args.server.take());
    args.sender = text("sender").or_else(|| args.sender.take());
    args.username = text("username").or_else(|| args.username.take());
    args.password = text("password").or_else(|| args.password.take());
    args.use_ssl = settings.get("tls").cloned().unwrap_or_default();
    let port = text("port").map(|port| {
        let wrong = |_| {
            Error::argument(
                "profile",
                format!("smtp.port is {port:?}, which is not a port"),
            )
        };
        port.parse().map_err(wrong)
    });
    port.transpose()
}

/// Returns the login, if there is one.
fn login(username: Option<String>, password: Option<String>) -> Result<Option<Login>, Error> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    match (given(username), given(password)) {
        (Some(username), Some(password)) => {
            secret::keep(&[], &password.as_str().into());
            line("username", &username)?;
            line("password", &password)?;
            Ok(Some(Login { username, password }))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(needed("password")),
        (None, Some(_)) => Err(needed("username")),
    }
}

fn send_msg(cx: &Exec, mut args: SendMsg) -> Result<Value, Error> {
    if let Some(password) = &args.password {
        secret::keep(&[], &password.as_str().into());
    }
    let port = use_profile(cx, &mut args)?;
    let outgoing = Outgoing {
        server: args.server,
        port,
        use_ssl: args.use_ssl,
        username: args.username,
        password: args.password,
        sender: args.sender,
        recipient: args.recipient,
        subject: args.subject.to_text(),
        text: args.message.to_text(),
        subtype: "plain",
        attachments: args.attachments.texts(),
    };
    outgoing.send(cx)?;
    Ok(true.into())
}

/// A message and the server that must take it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The server, and its port if it is not `port`.
    pub(crate) server: Option<String>,
    pub(crate) port: Option<u16>,
    /// The encryption, as the argument `use_ssl`.
    pub(crate) use_ssl: Value,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) sender: Option<String>,
    /// The addresses of the recipients, separated by commas.
    pub(crate) recipient: String,
    pub(crate) subject: String,
    pub(crate) text: String,
    /// The type of the text after `text/`.
    pub(crate) subtype: &'static str,
    /// The paths of files to attach.
    pub(crate) attachments: Vec<String>,
}

impl Outgoing {
    /// Sends the message.
    ///
    /// # Errors
    /// When a setting is missing or is not valid, or the server does not take the message.
    pub(crate) fn send(self, cx: &Exec) -> Result<(), Error> {
        let server = self.server.filter(|server| !server.is_empty());
        let server = server.ok_or_else(|| needed("server"))?;
        let (host, own_port) = host_and_port(line("server", server.trim())?)?;
        let (encryption, port) = encryption(&self.use_ssl, own_port.or(self.port));
        let server = Server {
            host,
            port,
            encryption,
            bundle: cx.opts().text("ca_bundle").map(Path::new),
            login: login(self.username, self.password)?,
        };
        let mail = Mail {
            sender: sender(self.sender.as_deref())?,
            recipients: mailboxes("recipient", &self.recipient)?,
            subject: self.subject,
            text: self.text,
            subtype: self.subtype,
            attachments: self.attachments,
        };
        mail.send(&server)
    }
}

impl Mail {
    fn send(&self, server: &Server<'_>) -> Result<(), Error> {
        let message = self.formatted()?;
        let from = self.sender.email.to_string();
        let to = self.recipients.iter();
        let to: Vec<String> = to.map(|to| to.email.to_string()).collect();
        server.send(&from, &to, &message, TIMEOUT)
    }
}

#[cfg(test)]
mod tests;
