//! [`Member`]: what the masters know about each of them.

/// A master of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The name in all outputs.
    pub name: String,
    /// The address and port at which the other masters reach it.
    pub address: String,
    /// The address and port at which minions reach it.
    pub minions: String,
    /// The 32 bytes of its public key.
    pub key: Vec<u8>,
    /// The newest level of commands that it can apply.
    pub level: u64,
}
