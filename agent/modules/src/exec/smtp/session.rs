//! One conversation with a mail server (RFC 5321) with STARTTLS (RFC 3207) and a login (RFC 4954).
//!
//! The transport of lettre is not used: it accepts what a server has sent before the encryption as
//! an answer inside it, so that anyone in between could answer for the server; it reads lines of any
//! length; and its deadline begins again at each read.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use machine::net::tls;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use state::module::Error;
use value::secret;

/// The maximum time of a whole conversation.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum size of a line of an answer, in bytes. RFC 5321 permits 512.
const MAX_LINE: usize = 4096;

/// The maximum number of lines of an answer.
const MAX_LINES: usize = 100;

/// The maximum number of characters of an answer in an error.
const SHOWN_MAX: usize = 500;

/// The kinds of encryption.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Encryption {
    /// TLS from the beginning.
    Immediate,
    /// STARTTLS. A server that does not offer it is an error.
    StartTls,
    /// None. For a login, STARTTLS if the server offers it.
    ForLogin,
}

/// The name and the password for a server.
pub(super) struct Login {
    pub(super) username: String,
    pub(super) password: String,
}

/// A mail server and the settings for a conversation with it.
pub(super) struct Server<'a> {
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) encryption: Encryption,
    /// The file of trusted certificates; `None` means the system's.
    pub(super) bundle: Option<&'a Path>,
    pub(super) login: Option<Login>,
}

/// A connection whose reads and writes end at the deadline.
struct Socket {
    stream: TcpStream,
    deadline: Instant,
}

impl Socket {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            false => Ok(left),
            true => Err(ErrorKind::TimedOut.into()),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The stream of a conversation.
enum Stream {
    Clear(Socket),
    Encrypted(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.read(buffer),
            Self::Encrypted(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Clear(stream) => stream.write_all(bytes),
            Self::Encrypted(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

/// An answer of a server: its code, and the text of each line.
struct Answer {
    code: u16,
    lines: Vec<String>,
}

impl Answer {
    /// Returns the answer in one line, or the beginning of a long one.
    fn text(&self) -> String {
        let text = format!("{} {}", self.code, self.lines.join(" "));
        text.chars().take(SHOWN_MAX).collect()
    }
}

/// A conversation.
struct Session<'a> {
    server: &'a Server<'a>,
    timeout: Duration,
    stream: Stream,
    /// The bytes after the last line that was read.
    unread: Vec<u8>,
    /// The lines of the answer to EHLO in upper case, without the first.
    offered: Vec<String>,
}

/// Returns the message with dots doubled at the beginning of lines, and with the line that ends it.
fn dotted(message: &[u8]) -> Vec<u8> {
    let mut sent = Vec::with_capacity(message.len() + 8);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            sent.push(b'.');
        }
        sent.extend_from_slice(line);
    }
    if !message.ends_with(b"\r\n") {
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(b".\r\n");
    sent
}

/// Returns the name of this machine for EHLO.
fn own_name() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    match !name.is_empty() && name.bytes().all(is_name) {
        true => name,
        false => "[127.0.0.1]".to_owned(),
    }
}

impl Server<'_> {
    /// Sends a message. It has been sent if the server has accepted it for all recipients.
    ///
    /// # Errors
    /// When the server cannot be reached, its certificate is not valid, it does not offer the
    /// encryption or the login, it refuses anything, or the conversation exceeds `timeout`.
    pub(super) fn send(
        &self,
        from: &str,
        to: &[String],
        message: &[u8],
        timeout: Duration,
    ) -> Result<(), Error> {
        let mut session = Session::open(self, timeout)?;
        session.log_in()?;
        session.command(&format!("MAIL FROM:<{from}>"), &[250])?;
        for recipient in to {
            session.command(&format!("RCPT TO:<{recipient}>"), &[250, 251])?;
        }
        session.command("DATA", &[354])?;
        session.write(&dotted(message))?;
        let answer = session.answer()?;
        session.check(&answer, "the message", &[250])?;
        // The server has the message: an error now would make the caller send it again.
        let _answered = session.command("QUIT", &[221]);
        Ok(())
    }

    fn failed(&self, why: &str) -> Error {
        Error::refused(format!("smtp: {}:{}: {why}", self.host, self.port))
    }

    fn connected(&self, timeout: Duration) -> Result<Socket, Error> {
        let deadline = Instant::now() + timeout;
        let failed = |error: io::Error| self.failed(&format!("no connection: {error}"));
        let mut last = ErrorKind::AddrNotAvailable.into();
        // No deadline: the resolver of the system has its own.
        for address in (self.host, self.port).to_socket_addrs().map_err(failed)? {
            let left = deadline.saturating_duration_since(Instant::now());
            match TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1))) {
                Ok(stream) => return Ok(Socket { stream, deadline }),
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Returns the stream with TLS.
    fn encrypted(&self, mut socket: Socket) -> Result<Stream, Error> {
        let config = tls::client(self.host, self.bundle);
        let config = config.map_err(|error| Error::refused(format!("smtp: {error}")))?;
        let name = ServerName::try_from(self.host.to_owned());
        let name = name.map_err(|_| self.failed("a certificate cannot be for this name"))?;
        let connection = ClientConnection::new(config, name);
        let mut connection = connection.map_err(|error| self.failed(&error.to_string()))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).map_err(|error| {
                self.failed(&format!("TLS failed: {error}. The certificate must be for {}, from an authority that this machine trusts; the option ca_bundle names a file with others", self.host))
            })?;
        }
        Ok(Stream::Encrypted(Box::new(StreamOwned::new(
            connection, socket,
        ))))
    }
}

impl<'a> Session<'a> {
    /// Opens a conversation up to the encryption.
    fn open(server: &'a Server<'a>, timeout: Duration) -> Result<Self, Error> {
        let socket = server.connected(timeout)?;
        let stream = match server.encryption {
            Encryption::Immediate => server.encrypted(socket)?,
            Encryption::StartTls | Encryption::ForLogin => Stream::Clear(socket),
        };
        let mut session = Self {
            server,
            timeout,
            stream,
            unread: Vec::new(),
            offered: Vec::new(),
        };
        let greeting = session.answer()?;
        session.check(&greeting, "the connection", &[220])?;
        session.hello()?;
        let can_encrypt = session.offers("STARTTLS").is_some();
        match server.encryption {
            Encryption::StartTls => session.start_tls(),
            Encryption::ForLogin if can_encrypt && server.login.is_some() => session.start_tls(),
            Encryption::ForLogin | Encryption::Immediate => Ok(session),
        }
    }

    /// Learns what the server offers.
    fn hello(&mut self) -> Result<(), Error> {
        let answer = self.command(&format!("EHLO {}", own_name()), &[250])?;
        let offered = answer.lines.iter().skip(1);
        self.offered = offered.map(|line| line.to_ascii_uppercase()).collect();
        Ok(())
    }

    /// Returns the words after a keyword that the server offers; `None` without the keyword.
    fn offers(&self, keyword: &str) -> Option<Vec<&str>> {
        let mut offered = self.offered.iter();
        offered.find_map(|line| {
            let mut words = line.split([' ', '=']);
            (words.next() == Some(keyword)).then(|| words.collect())
        })
    }

    /// Encrypts the conversation. Nothing that came before counts after it.
    fn start_tls(mut self) -> Result<Self, Error> {
        if self.offers("STARTTLS").is_none() {
            return Err(self.server.failed(
                "the server does not offer STARTTLS, and the message must not be sent in the clear. If it may, set use_ssl to False, or smtp.tls in the profile",
            ));
        }
        self.command("STARTTLS", &[220])?;
        if !self.unread.is_empty() {
            return Err(self.server.failed("data came between the answer to STARTTLS and the encryption: the connection is being manipulated"));
        }
        let Stream::Clear(socket) = self.stream else {
            return Err(self.server.failed("the conversation is encrypted already"));
        };
        self.stream = self.server.encrypted(socket)?;
        self.hello()?;
        Ok(self)
    }

    /// Logs in, if there is a login.
    fn log_in(&mut self) -> Result<(), Error> {
        let Some(Login { username, password }) = &self.server.login else {
            return Ok(());
        };
        let offered = self.offers("AUTH").unwrap_or_default();
        if offered.contains(&"PLAIN") {
            let both = coded(&format!("\0{username}\0{password}"));
            return self.secret_command(&format!("AUTH PLAIN {both}"), 235);
        }
        if offered.contains(&"LOGIN") {
            self.secret_command("AUTH LOGIN", 334)?;
            self.secret_command(&coded(username), 334)?;
            return self.secret_command(&coded(password), 235);
        }
        let offered = offered.join(" ");
        Err(self.server.failed(&format!(
            "the server offers no login by PLAIN or LOGIN (it offers: {offered:?})"
        )))
    }

    /// Sends a command that an error must not contain.
    fn secret_command(&mut self, command: &str, code: u16) -> Result<(), Error> {
        self.write(format!("{command}\r\n").as_bytes())?;
        let answer = self.answer()?;
        self.check(&answer, "the login", &[code])
    }

    /// Sends a command and returns its answer.
    fn command(&mut self, command: &str, codes: &[u16]) -> Result<Answer, Error> {
        self.write(format!("{command}\r\n").as_bytes())?;
        let answer = self.answer()?;
        self.check(&answer, command, codes)?;
        Ok(answer)
    }

    /// Returns an error if the code is not one of these.
    fn check(&self, answer: &Answer, subject: &str, codes: &[u16]) -> Result<(), Error> {
        match codes.contains(&answer.code) {
            true => Ok(()),
            false => {
                let text = answer.text();
                Err(self
                    .server
                    .failed(&format!("the server refused {subject}: {text}")))
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream
            .write(bytes)
            .map_err(|error| self.broken(&error))
    }

    fn answer(&mut self) -> Result<Answer, Error> {
        let mut lines = Vec::new();
        while lines.len() < MAX_LINES {
            let line = self.line()?;
            let (code, rest) = line.split_at_checked(3).unwrap_or_default();
            let code = code.parse().ok().filter(|code| (200..600).contains(code));
            let Some(code) = code else {
                let line: String = line.chars().take(SHOWN_MAX).collect();
                return Err(self
                    .server
                    .failed(&format!("this is not an answer of SMTP: {line:?}")));
            };
            let text = rest.get(1..).unwrap_or_default();
            lines.push(text.to_owned());
            if !rest.starts_with('-') {
                return Ok(Answer { code, lines });
            }
        }
        Err(self
            .server
            .failed(&format!("an answer has more than {MAX_LINES} lines")))
    }

    /// Returns the next line, without its end.
    fn line(&mut self) -> Result<String, Error> {
        loop {
            if let Some(at) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=at).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.unread.len() > MAX_LINE {
                return Err(self.server.failed(&format!(
                    "a line of an answer is longer than {MAX_LINE} bytes"
                )));
            }
            let mut buffer = [0; MAX_LINE];
            let length = self
                .stream
                .read(&mut buffer)
                .map_err(|error| self.broken(&error))?;
            if length == 0 {
                return Err(self.server.failed("the server has closed the connection"));
            }
            self.unread
                .extend_from_slice(buffer.get(..length).unwrap_or_default());
        }
    }

    /// Returns the error of a connection that ended in the middle.
    fn broken(&self, error: &io::Error) -> Error {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                let seconds = self.timeout.as_secs_f32();
                self.server
                    .failed(&format!("the conversation did not end within {seconds} s"))
            }
            _ => self
                .server
                .failed(&format!("the connection failed: {error}")),
        }
    }
}

/// Returns a part of a login in base64, which is a secret as the login is: a server may repeat it in
/// its answer.
fn coded(text: &str) -> String {
    let coded = STANDARD.encode(text);
    secret::keep(&[], &coded.as_str().into());
    coded
}

#[cfg(test)]
mod tests;
