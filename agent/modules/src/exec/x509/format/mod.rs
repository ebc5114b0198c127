//! X.509: certificates and keys. They are read and encoded here, and signed by the `openssl`
//! program.

pub(crate) mod containers;
pub(crate) mod crl;
pub(crate) mod der;
pub(crate) mod extensions;
pub(crate) mod general;
pub(crate) mod issue;
pub(crate) mod keys;
pub(crate) mod names;
pub(crate) mod parts;
pub(crate) mod pem;
pub mod print;
pub(crate) mod read;
