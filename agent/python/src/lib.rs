//! The parts of Python's library that Salt's behaviour depends on. Each module has the name of
//! Python's.
//!
//! Errors are sentences, because the caller shows them as Salt shows those of Python.

pub mod base64;
pub mod configparser;
pub mod difflib;
pub mod encoding;
pub mod gzip;
pub mod path;
pub mod pep440;
pub mod random;
pub mod shlex;
pub mod text;
pub mod xml;
