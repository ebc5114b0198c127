//! [`Caller`]: the sender of a request, whether it comes over the socket or over HTTP.

use super::eauth::User;
use super::publisher_acl::LocalUser;

/// The sender of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Caller {
    /// Root, or the user that the master runs as.
    Root,
    /// Another user of this machine, whom the kernel identifies.
    Local(LocalUser),
    /// A user with a password or a token of `external_auth`.
    User(User),
}

impl Caller {
    /// Returns the caller's name; `None` for root.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Root => None,
            Self::Local(user) => Some(user.name()),
            Self::User(user) => Some(&user.name),
        }
    }
}
