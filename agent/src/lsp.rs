//! `pinch lsp`: connects the language server with stdin and stdout, and finds the roots of the tree
//! as `pinch lint` does.

use std::path::Path;
use std::process::ExitCode;

use cli::failure::{Exit, Failure};
use cli::options::{LSP, Parsed};
use lsp::{End, Setup};

use crate::{lint, setup};

/// Runs `pinch lsp` with the arguments `words`.
///
/// # Errors
/// If the command line is wrong, the tree or the configuration cannot be read, or the input is not
/// the protocol.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&LSP, words, serve)
}

fn serve(parsed: &Parsed) -> Result<ExitCode, Failure> {
    let words: Vec<String> = parsed
        .words
        .iter()
        .map(|word| setup::absolute(word))
        .collect();
    let is_given = !words.is_empty() || parsed.has("config_dir");
    let tree = is_given
        .then(|| lint::settings(parsed, &words))
        .transpose()?;
    let setup = Setup {
        registry: crate::uplink::registry(),
        tree,
        of_folder: &|folder: &Path| {
            let words = [folder.display().to_string()];
            lint::settings(parsed, &words).map_err(|failure| failure.error.to_string())
        },
    };
    let output = Box::new(std::io::stdout());
    let end = lsp::serve(&mut std::io::stdin().lock(), output, setup);
    match end.map_err(|error| Failure::new(Exit::Generic, error))? {
        End::Shutdown => Ok(Exit::Ok.into()),
        End::Abandoned => Ok(Exit::Generic.into()),
    }
}
