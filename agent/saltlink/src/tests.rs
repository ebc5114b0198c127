//! Tests of the whole crate: with what Salt's own code has made, against a hostile stand-in, and
//! (ignored) against a master of Salt.

#![expect(clippy::disallowed_methods, reason = "a test's own files and programs")]

mod auth;
mod connection;
mod keys;
mod master;
mod publication;
mod real;
mod request;
mod vectors;
