//! Runs a command as another user: `pinch become` is a process with one thread that gives up its
//! identity and becomes the command.
//!
//! A thread of our own must never take another identity: the user could then signal it, and a
//! signal to one thread can end or stop the whole process. The helper starts with an empty
//! environment and gets its request over its standard input, a socket. So neither the user's
//! variables (`LD_PRELOAD`) nor the words of the command affect the helper or appear in the process
//! list. The socket closes when the command begins, and carries the errno when it cannot begin.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Read, Result, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::child::while_busy;
use super::{Identity, Plan};

/// The word on the command line that starts the helper.
pub const BECOME: &str = "become";

/// The maximum time that our process and the helper wait for each other.
const WAIT: Duration = Duration::from_secs(30);

/// The maximum size of a request in bytes. The kernel's own limit for arguments and environment is
/// 6 MiB.
const REQUEST_MAX: u64 = 16 * 1024 * 1024;

type Finder = fn() -> Result<PathBuf>;

static OWN_PROGRAM: OnceLock<Finder> = OnceLock::new();

/// Sets the function that finds the program which handles the word [`BECOME`]. A binary calls this
/// before anything else.
pub fn set_own_program(find: Finder) {
    OWN_PROGRAM.get_or_init(|| find);
}

/// Returns the command that starts the helper. [`begin`] sets its standard input.
#[expect(
    clippy::disallowed_methods,
    reason = "every child of a module is started here"
)]
pub(super) fn helper() -> Result<Command> {
    let find = OWN_PROGRAM.get().ok_or_else(|| {
        Error::other("this program cannot start itself, so it cannot run commands as another user")
    })?;
    let mut command = Command::new(find()?);
    // The name must not be that of an applet.
    command.arg0("pinch").arg(BECOME).env_clear();
    Ok(command)
}

/// The start of a command that is about to begin, or could not.
pub(super) struct Beginning(UnixStream);

impl Beginning {
    /// Returns the reason why the command did not begin. Call this after the helper has ended, or
    /// when its time to begin is over.
    pub(super) fn failure(mut self) -> Option<Error> {
        let mut errno = [0; 4];
        self.0.read_exact(&mut errno).ok()?;
        Some(Error::from_raw_os_error(i32::from_ne_bytes(errno)))
    }
}

/// Starts the helper and sends it the request. `stdin` becomes the command's standard input.
pub(super) fn begin(
    command: &mut Command,
    plan: &Plan,
    identity: &Identity,
    stdin: BorrowedFd<'_>,
) -> Result<(Child, Beginning)> {
    let request = Request::new(plan, identity)?.bytes();
    let (ours, its) = UnixStream::pair()?;
    ours.set_read_timeout(Some(WAIT))?;
    ours.set_write_timeout(Some(WAIT))?;
    let mut child = command.stdin(OwnedFd::from(its)).spawn()?;
    // The command's own copy of the helper's end would keep the socket open.
    command.stdin(std::process::Stdio::inherit());
    if let Err(error) = send(&ours, &request, stdin) {
        super::kill(&mut child);
        return Err(error);
    }
    Ok((child, Beginning(ours)))
}

fn send(mut socket: &UnixStream, request: &[u8], stdin: BorrowedFd<'_>) -> Result<()> {
    let descriptors = [stdin];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let first = [IoSlice::new(&[0])];
    sendmsg(socket, &first, &mut control, SendFlags::NOSIGNAL)?;
    socket.write_all(request)?;
    socket.shutdown(std::net::Shutdown::Write)
}

/// The request to the helper.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    cwd: OsString,
    words: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Request {
    fn new(plan: &Plan, identity: &Identity) -> Result<Self> {
        let words = plan.argv();
        if words.iter().any(|word| word.contains('\0')) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "nul byte found in provided data",
            ));
        }
        Ok(Self {
            uid: identity.uid,
            gid: identity.gid,
            groups: identity.groups.clone(),
            cwd: plan.cwd.clone().into(),
            words: words.into_iter().map(OsString::from).collect(),
            env: plan
                .variables()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        })
    }

    /// Encodes the request: five fields, then the words and the variables, each ended by a zero
    /// byte.
    fn bytes(&self) -> Vec<u8> {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        let head = [self.uid.to_string(), self.gid.to_string(), groups.join(",")];
        let count = self.words.len().to_string();
        let mut fields: Vec<&[u8]> = head.iter().map(String::as_bytes).collect();
        fields.push(self.cwd.as_bytes());
        fields.push(count.as_bytes());
        fields.extend(self.words.iter().map(|word| word.as_bytes()));
        for (key, value) in &self.env {
            fields.extend([key.as_bytes(), value.as_bytes()]);
        }
        fields
            .iter()
            .flat_map(|field| [field, &[0][..]].concat())
            .collect()
    }

    /// Decodes a request; `None` when any part of it is invalid.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let mut text = || std::str::from_utf8(fields.next()?).ok();
        let (uid, gid) = (text()?.parse().ok()?, text()?.parse().ok()?);
        let groups = text()?
            .split_terminator(',')
            .map(|group| group.parse().ok());
        let groups = groups.collect::<Option<_>>()?;
        let mut fields = fields.map(|field| OsString::from_vec(field.to_vec()));
        let cwd = fields.next()?;
        let count: usize = fields.next()?.to_str()?.parse().ok()?;
        let words: Vec<OsString> = fields.by_ref().take(count).collect();
        let rest: Vec<OsString> = fields.collect();
        let pairs = rest.chunks(2).map(|pair| match pair {
            [key, value] if !key.is_empty() => Some((key.clone(), value.clone())),
            _ => None,
        });
        let env = pairs.collect::<Option<_>>()?;
        let whole = count > 0 && words.len() == count && !cwd.is_empty();
        whole.then_some(Self {
            uid,
            gid,
            groups,
            cwd,
            words,
            env,
        })
    }
}

/// Runs the helper: becomes the user, and then the command.
///
/// Returns only on failure, with the reason. The program that started the helper has received it by
/// then.
#[must_use]
pub fn become_user() -> Error {
    let socket = match rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) {
        Ok(socket) => UnixStream::from(socket),
        Err(error) => return error.into(),
    };
    let error = match received(&socket) {
        Ok(request) => request.become_command(),
        Err(error) => error,
    };
    let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
    #[expect(
        clippy::let_underscore_must_use,
        reason = "the parent may have given up; it then needs no reason"
    )]
    let _ = (&socket).write_all(&errno.to_ne_bytes());
    error
}

/// Reads the request, and replaces the socket by the command's standard input.
fn received(mut socket: &UnixStream) -> Result<Request> {
    socket.set_read_timeout(Some(WAIT))?;
    let stdin = descriptor(socket)?;
    let mut bytes = Vec::new();
    (&mut socket).take(REQUEST_MAX).read_to_end(&mut bytes)?;
    let request = Request::read(&bytes).ok_or(ErrorKind::InvalidData)?;
    rustix::stdio::dup2_stdin(&stdin)?;
    Ok(request)
}

fn descriptor(socket: &UnixStream) -> Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut first = [IoSliceMut::new(&mut byte)];
    recvmsg(
        socket.as_fd(),
        &mut first,
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let found = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    found.ok_or_else(|| ErrorKind::InvalidData.into())
}

impl Request {
    /// Becomes the command. Returns the reason on failure.
    #[expect(
        clippy::disallowed_methods,
        reason = "every child of a module is started here"
    )]
    fn become_command(&self) -> Error {
        if let Err(error) = self.become_user() {
            return error;
        }
        let (program, words) = match self.words.split_first() {
            Some((program, words)) => (program.as_os_str(), words),
            None => (OsStr::new(""), &[][..]),
        };
        // The user's own permissions apply to entering the folder, so this happens after the change
        // of user.
        let mut command = Command::new(program);
        command.args(words).env_clear().current_dir(&self.cwd);
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        let Err(error) = while_busy(|| Err::<Infallible, _>(command.exec()));
        error
    }

    fn become_user(&self) -> Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        rustix::thread::set_thread_groups(&groups)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        if uid.is_root() {
            return Ok(());
        }
        // The kernel keeps inheritable capabilities, and with some secure bits all of them.
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none)?;
        match rustix::thread::set_thread_uid(Uid::ROOT) {
            Ok(()) => Err(Errno::PERM.into()),
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            uid: 65534,
            gid: 65533,
            groups: vec![1, 2],
            cwd: "/".into(),
            words: vec!["sh".into(), "-c".into(), "".into()],
            env: vec![("A".into(), "".into()), ("B".into(), "b=c\n".into())],
        }
    }

    #[test]
    fn a_request_comes_back_as_it_was() {
        let request = request();
        assert_eq!(Request::read(&request.bytes()), Some(request));
        let bare = Request {
            groups: Vec::new(),
            env: Vec::new(),
            ..self::request()
        };
        assert_eq!(Request::read(&bare.bytes()), Some(bare));
    }

    #[test]
    fn a_request_that_is_not_whole_is_refused() {
        let bytes = request().bytes();
        let fields_in = |part: &[u8]| part.iter().filter(|byte| **byte == 0).count();
        // A request that is cut before the last word's end, or within a variable, must be refused.
        for end in 0..bytes.len() - 1 {
            let cut = Request::read(&bytes[..end]);
            let variables = fields_in(&bytes[..end]).checked_sub(8);
            let whole = bytes[..end].ends_with(&[0]) && variables.is_some_and(|some| some % 2 == 0);
            assert_eq!(cut.is_some(), whole, "{end}: {cut:?}");
        }
        for wrong in [
            "",
            "x\0",
            "-1\x000\0\0/\x001\0a\0",
            "0\x000\x00a\0/\x001\0a\0",
            "0\x000\0\0/\x000\0",
        ] {
            assert_eq!(Request::read(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn without_the_path_of_the_program_no_helper_starts() {
        assert!(helper().is_err());
    }
}
