//! `pinch lsp`: a language server for SLS files.
//!
//! It shows the findings of lint for the texts of the editor, completes and documents states, and
//! finds what names refer to. Nothing is run, as with `pinch lint`: only pure functions are called.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

use std::io::{BufRead, Write};
use std::path::Path;

use lint::Settings;
use state::exec::Registry;

mod check;
mod complete;
mod cursor;
mod diagnostics;
mod documents;
mod look;
mod outline;
mod output;
mod paths;
mod schema;
mod server;
mod texts;
mod transport;
mod tree;

use output::Output;
use server::Server;

pub use schema::schema;

/// The program and the tree of a server.
pub struct Setup<'a> {
    /// The modules of this program.
    pub registry: &'static Registry,
    /// The tree, if the command line names one. Otherwise the client names a folder.
    pub tree: Option<Settings>,
    /// Returns the settings for a folder that the client names.
    pub of_folder: &'a dyn Fn(&Path) -> Result<Settings, String>,
}

/// The end of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client has requested it as the protocol says.
    Shutdown,
    /// The client has ended without a request.
    Abandoned,
}

/// Serves a client until it ends.
///
/// # Errors
/// When the input is not the protocol, or a thread cannot be started.
pub fn serve(
    input: &mut dyn BufRead,
    output: Box<dyn Write + Send>,
    setup: Setup<'_>,
) -> Result<End, String> {
    let mut server = Server::new(Output::new(output), setup)?;
    while let Some(message) = transport::read(input).map_err(|error| error.to_string())? {
        if let Some(end) = server.take(message) {
            return Ok(end);
        }
    }
    Ok(End::Abandoned)
}
